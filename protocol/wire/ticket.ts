/**
 * Signs and checks tickets, which say who a connection is: with the key of this boot, so that no message can claim another
 * sender.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';

export type Ticket =
  | { role: 'writer'; name: string }
  | { role: 'writer-watch'; name: string }
  | { role: 'host'; host: string }
  /** The thread of a host's commons, the `n`th. */
  | { role: 'commons'; host: string; n: number }
  | { role: 'jobs' }
  | { role: 'sql'; name: string }
  | { role: 'agents' }
  | { role: 'actor'; actorId: number; app: string }
  /**
   * A connection to the writer: the one database that it may use, and whether it may migrate and close it. `migrated`: the file is
   * there and is not made. A `brief` one may keep the writer that apps share busy for `LIMITS.writerSlowMs` only.
   */
  | { role: 'database'; name: string; file: string; maintain: boolean; migrated?: boolean; brief?: true };

export function signTicket(ticket: Ticket, key: Buffer): string {
  const body = Buffer.from(JSON.stringify(ticket)).toString('base64url');
  return `${body}.${mac(body, key)}`;
}

/** The ticket, or null when it was not signed with this key. */
export function openTicket(text: unknown, key: Buffer): Ticket | null {
  if (typeof text !== 'string') return null;
  const dot = text.indexOf('.');
  if (dot < 0) return null;
  const body = text.slice(0, dot);
  const given = Buffer.from(text.slice(dot + 1));
  const expected = Buffer.from(mac(body, key));
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return null;
  return JSON.parse(Buffer.from(body, 'base64url').toString()) as Ticket;
}

function mac(body: string, key: Buffer): string {
  return createHmac('sha256', key).update(body).digest('base64url');
}
