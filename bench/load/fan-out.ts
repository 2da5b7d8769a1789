/**
 * The load of the event-stream scenario. Each connection sends one request; the next turn starts when every answer is here
 * and every subscriber has the event of every request, so none can be dropped unseen.
 */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { AnswerReader } from './answer-reader.ts';
import { openConnection } from './connection.ts';
import { Histogram } from './histogram.ts';
import type { LoadResult, LoadTask } from './task.ts';

/** Each event holds one object, and nothing else on the stream a brace: a mark that no two reads can cut in two. */
const EVENT_MARK = '{'.charCodeAt(0);
const TURN_TIMEOUT_MS = 10_000;

/** Rejects when a connection breaks or events do not arrive. */
export async function fanOut(task: LoadTask): Promise<LoadResult> {
  const { request, subscribers } = task.subscribe as NonNullable<LoadTask['subscribe']>;
  const cpu = process.cpuUsage();
  const latencies = new Histogram();
  const sockets: Socket[] = [];
  let fail: (error: Error) => void = () => {};
  const broken = new Promise<never>((_resolve, reject) => {
    fail = reject;
  });
  broken.catch(() => {});
  let failed = 0;
  let firstFailure: number | null = null;
  let events = 0;
  let missing = 0;
  let turnDone: () => void = () => {};
  const arrived = (count: number): void => {
    missing -= count;
    if (missing === 0) turnDone();
  };

  const subscriber = (): Promise<void> =>
    new Promise((resolve) => {
      const socket = openConnection(task.port, {
        onOpen: () => socket.write(request),
        onData: (bytes) => {
          resolve();
          let count = 0;
          for (let at = bytes.indexOf(EVENT_MARK); at >= 0; at = bytes.indexOf(EVENT_MARK, at + 1)) count++;
          events += count;
          if (count > 0) arrived(count);
        },
        onClose: fail,
      });
      sockets.push(socket);
    });

  const writer = async (): Promise<Socket> => {
    const reader = new AnswerReader();
    const socket = openConnection(task.port, {
      onOpen: () => {},
      onData: (bytes) => {
        const status = reader.push(bytes);
        if (status === 0) return;
        if (status >= 300) {
          failed++;
          firstFailure ??= status;
          fail(new Error(`A request was answered ${status}, so its events will not come.`));
        }
        arrived(1);
      },
      onClose: fail,
    });
    sockets.push(socket);
    await once(socket, 'connect');
    return socket;
  };

  try {
    await Promise.race([Promise.all(Array.from({ length: subscribers }, subscriber)), broken]);
    const writers = await Promise.all(Array.from({ length: task.connections }, writer));
    const requests = task.requests.map((text) => Buffer.from(text));
    let sent = 0;
    const turn = async (): Promise<number> => {
      missing = writers.length * (subscribers + 1);
      const done = new Promise<void>((resolve) => {
        turnDone = resolve;
      });
      const timer = setTimeout(() => fail(new Error(`${missing} answers or events are missing.`)), TURN_TIMEOUT_MS);
      const startedAt = performance.now();
      for (const socket of writers) socket.write(requests[sent++ % requests.length] as Buffer);
      await Promise.race([done, broken]);
      clearTimeout(timer);
      return performance.now() - startedAt;
    };

    const warmUntil = performance.now() + task.warmUpMs;
    while (performance.now() < warmUntil) await turn();
    const measureFrom = performance.now();
    let answered = 0;
    while (performance.now() - measureFrom < task.measureMs) {
      latencies.record((await turn()) * 1000);
      answered += writers.length;
    }
    const elapsedMs = performance.now() - measureFrom;
    const used = process.cpuUsage(cpu);
    return {
      answered,
      elapsedMs,
      latencies: latencies.counts(),
      requests: sent,
      events,
      failed,
      firstFailure,
      cpuMs: (used.user + used.system) / 1000,
    };
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}
