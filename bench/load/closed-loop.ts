/** The load of the request scenarios: each connection sends its next request when the answer to the last is whole. */
import type { Socket } from 'node:net';
import { AnswerReader } from './answer-reader.ts';
import { openConnection } from './connection.ts';
import { Histogram } from './histogram.ts';
import type { LoadResult, LoadTask } from './task.ts';

/** Rejects when a connection breaks or a server answers what is not HTTP. */
export function closedLoop(task: LoadTask): Promise<LoadResult> {
  const requests = task.requests.map((text) => Buffer.from(text));
  const cpu = process.cpuUsage();
  const latencies = new Histogram();
  const sockets: Socket[] = [];
  const measureFrom = performance.now() + task.warmUpMs;
  const measureUntil = measureFrom + task.measureMs;
  let total = 0;
  let failed = 0;
  let firstFailure: number | null = null;
  let running = task.connections;

  return new Promise((resolve, reject) => {
    const end = (error?: Error): void => {
      for (const socket of sockets) socket.destroy();
      const used = process.cpuUsage(cpu);
      if (error) reject(error);
      else {
        resolve({
          answered: latencies.total,
          elapsedMs: task.measureMs,
          latencies: latencies.counts(),
          requests: total,
          events: 0,
          failed,
          firstFailure,
          cpuMs: (used.user + used.system) / 1000,
        });
      }
    };

    for (let i = 0; i < task.connections; i++) {
      const reader = new AnswerReader();
      let next = Math.floor((i * requests.length) / task.connections);
      let sentAt = 0;
      const send = (): void => {
        sentAt = performance.now();
        socket.write(requests[next++ % requests.length] as Buffer);
      };
      const socket = openConnection(task.port, {
        onOpen: send,
        onData: (bytes) => {
          let status: number;
          try {
            status = reader.push(bytes);
          } catch (error) {
            end(error as Error);
            return;
          }
          if (status === 0) return;
          const now = performance.now();
          total++;
          if (status >= 300) {
            failed++;
            firstFailure ??= status;
          } else if (now >= measureFrom && now < measureUntil) latencies.record((now - sentAt) * 1000);
          if (now < measureUntil) send();
          else if (--running === 0) end();
        },
        onClose: end,
      });
      sockets.push(socket);
    }
  });
}
