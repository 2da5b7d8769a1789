/** How a worker process or thread opens a connection: connect to a socket, say `hello` with a ticket, receive frames. */

import { Kind, type PongFrame } from '../protocol/frames.ts';
import { connectLink, type Link, type LinkHandlers } from '../protocol/wire/link.ts';

/**
 * A connection to the supervisor or the writer at `socketPath`. Frames may be sent at once; they leave after `hello`. `session` is
 * for the writer, see `HelloFrame`.
 * A connection that cannot be made, or is refused, is reported through `onClose` like any other that ends.
 */
export function openLink(socketPath: string, ticket: string, handlers: LinkHandlers, session = 0): Link {
  const link = connectLink(socketPath, handlers);
  link.send(session === 0 ? [Kind.hello, ticket] : [Kind.hello, ticket, session]);
  return link;
}

/** The answer of a process to ping `n`; `counters` is what it shows of its work in `svc status`. */
export function pong(n: number, counters: Record<string, number>): PongFrame {
  const { rss, heapUsed } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  return [Kind.pong, n, { rss, heapUsed, cpuUser: user, cpuSystem: system, counters }];
}
