/**
 * The load of the event-stream scenario. Each connection sends one request; the next turn starts when every answer is here
 * and every subscriber has the event of every request, so none can be dropped unseen.
 */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { AnswerReader, Tally } from './answer-reader.ts';
import { openConnection } from './connection.ts';
import type { Counted, LoadTask } from './task.ts';

/**
 * Each event holds one object, that of a live query one in another, and nothing else on the stream a brace: a mark that no two
 * reads can cut in two.
 */
const EVENT_MARK = '{'.charCodeAt(0);
const LIVE_MARKS = 2;
const TURN_TIMEOUT_MS = 10_000;
/** What a server's queue of new connections takes at once. */
const OPENED_AT_ONCE = 250;

/** Rejects when a connection breaks or events do not arrive. */
export async function fanOut(task: LoadTask): Promise<Counted> {
  const { request, subscribers, live } = task.subscribe as NonNullable<LoadTask['subscribe']>;
  const marksOfEvent = live ? LIVE_MARKS : 1;
  const tally = new Tally();
  const sockets: Socket[] = [];
  let fail: (error: Error) => void = () => {};
  const broken = new Promise<never>((_resolve, reject) => {
    fail = reject;
  });
  broken.catch(() => {});
  let missing = 0;
  let answeredAt = 0;
  let turnDone: () => void = () => {};
  const arrived = (count: number): void => {
    missing -= count;
    if (missing === 0) turnDone();
  };

  const subscriber = (): Promise<void> =>
    new Promise((resolve) => {
      let marks = 0;
      let told = live ? -1 : 0;
      const socket = openConnection(task.port, {
        onOpen: () => socket.write(request),
        onData: (bytes) => {
          marks += countOf(bytes, EVENT_MARK);
          const count = Math.floor(marks / marksOfEvent);
          marks -= count * marksOfEvent;
          const news = count + Math.min(told, 0);
          told += count;
          if (told >= 0) resolve();
          if (news <= 0) return;
          tally.events += news;
          arrived(news);
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
        if (!tally.isGood(status, bytes))
          fail(new Error(`A request was answered ${tally.firstFailure}, so its events will not come.`));
        answeredAt ||= performance.now();
        arrived(1);
      },
      onClose: fail,
    });
    sockets.push(socket);
    await once(socket, 'connect');
    return socket;
  };

  try {
    for (let open = 0; open < subscribers; open += OPENED_AT_ONCE) {
      const more = Array.from({ length: Math.min(OPENED_AT_ONCE, subscribers - open) }, subscriber);
      await Promise.race([Promise.all(more), broken]);
    }
    const writers = await Promise.all(Array.from({ length: task.connections }, writer));
    let sent = 0;
    const turn = async (): Promise<{ whole: number; delivery: number }> => {
      missing = writers.length * (subscribers + 1);
      answeredAt = 0;
      const done = new Promise<void>((resolve) => {
        turnDone = resolve;
      });
      const timer = setTimeout(() => fail(new Error(`${missing} answers or events are missing.`)), TURN_TIMEOUT_MS);
      const startedAt = performance.now();
      for (const socket of writers) socket.write(task.requests[sent++ % task.requests.length] as Uint8Array);
      await Promise.race([done, broken]);
      clearTimeout(timer);
      const now = performance.now();
      return { whole: now - startedAt, delivery: now - answeredAt };
    };

    const warmUntil = performance.now() + task.warmUpMs;
    while (performance.now() < warmUntil) await turn();
    const measureFrom = performance.now();
    let answered = 0;
    while (performance.now() - measureFrom < task.measureMs) {
      const times = await turn();
      tally.latencies.push(times.whole);
      tally.delivery.push(times.delivery);
      answered += writers.length;
    }
    const elapsedMs = performance.now() - measureFrom;
    return { ...tally, answered, elapsedMs };
  } finally {
    // Thousands of ends that wait for each other would use up the ports of the rounds to come.
    for (const socket of sockets) socket.resetAndDestroy();
  }
}

function countOf(bytes: Uint8Array, mark: number): number {
  let count = 0;
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + 1)) count++;
  return count;
}
