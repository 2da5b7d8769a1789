/** The load of the request scenarios: each connection sends its next request when the answer to the last is whole, at a fixed pace, or so many and no more. */
import type { Socket } from 'node:net';
import { AnswerReader, Tally } from './answer-reader.ts';
import { openConnection } from './connection.ts';
import type { Counted, LoadTask } from './task.ts';

/** Rejects when a connection breaks or a server answers what is not HTTP. */
export function closedLoop(task: LoadTask): Promise<Counted> {
  const servers = [task, ...(task.others ?? [])];
  const sockets: Socket[] = [];
  const burst = task.burst === true;
  const share = burst ? task.requests.length / task.connections : Number.POSITIVE_INFINITY;
  const measureFrom = performance.now() + (burst ? 0 : task.warmUpMs);
  const measureUntil = burst ? Number.POSITIVE_INFINITY : measureFrom + task.measureMs;
  const tally = new Tally();
  let running = task.connections;

  return new Promise((resolve, reject) => {
    const end = (error?: Error): void => {
      for (const socket of sockets) socket.destroy();
      if (error) reject(error);
      else {
        const elapsedMs = burst ? performance.now() - measureFrom : task.measureMs;
        resolve({ ...tally, answered: tally.latencies.length, elapsedMs });
      }
    };

    for (let i = 0; i < task.connections; i++) {
      const { port, requests } = servers[i % servers.length] as typeof task;
      const reader = new AnswerReader();
      let next = Math.floor((i * requests.length) / task.connections);
      let left = share;
      let finished = false;
      let sentAt = 0;
      let dueAt = 0;
      const send = (): void => {
        sentAt = performance.now();
        left--;
        socket.write(requests[next++ % requests.length] as Uint8Array);
      };
      const sendNext = (now: number): void => {
        if (task.intervalMs === undefined) {
          send();
          return;
        }
        dueAt += task.intervalMs;
        if (dueAt > now) {
          setTimeout(send, dueAt - now);
          return;
        }
        send();
        sentAt = dueAt;
      };
      const socket = openConnection(port, {
        onOpen: () => {
          // Connections that keep a pace do not all send at once.
          dueAt = performance.now() + (task.intervalMs ?? 0) * (i / task.connections);
          if (task.intervalMs === undefined) send();
          else setTimeout(send, dueAt - performance.now());
        },
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
          const isMeasured = now >= measureFrom && now < measureUntil;
          if (tally.isGood(status, bytes) && isMeasured) tally.latencies.push(now - sentAt);
          if (now < measureUntil && left > 0) sendNext(now);
          else {
            finished = true;
            if (--running === 0) end();
          }
        },
        // A server may close a connection that has nothing more to say.
        onClose: (error) => {
          if (!finished) end(error);
        },
      });
      sockets.push(socket);
    }
  });
}
