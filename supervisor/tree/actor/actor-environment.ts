/** What an actor needs of the tree around it. */
import type { RetireReason } from '../../../protocol/frames.ts';
import type { VersionSummary } from '../../../protocol/manifest.ts';
import type { Actor } from './actor.ts';
import type { Deadlines } from './deadlines.ts';
import type { Generation, GenerationEvents } from './generation.ts';

export type ActorEnvironment = {
  now: () => number;
  random: () => number;
  deadlines: Deadlines;
  mailboxLimit: number;
  /**
   * Calls that an actor works on at a time. Where it is 1, the next call also waits for one that an older thread has not ended,
   * so that no two ever overlap.
   */
  concurrency: number;
  /** A thread for this version, on the host that runs the actor. */
  spawn(actor: Actor, summary: VersionSummary, events: GenerationEvents): Generation;
  /** False when as many actors are live as may be; the tree calls `proceed` when there is room. */
  admit(actor: Actor): boolean;
  /** Nobody waits for a call of the actor any more. */
  rested(actor: Actor): void;
  /** A generation ended: counted, and its slot is free. */
  retired(actor: Actor, reason: RetireReason): void;
  log(app: string, level: 'info' | 'warn' | 'error', message: string): void;
  appLog(app: string, line: string): void;
};
