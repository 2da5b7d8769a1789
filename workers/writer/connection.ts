/** One client of the writer: its ticket names the only database it reaches. A frame that is not as it should be ends it. */
import type { Duplex } from 'node:stream';
import type { ErrorBody } from '../../protocol/errors.ts';
import { type DbFrame, DbOp, type Frame, Kind } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { FrameError } from '../../protocol/wire/codec.ts';
import { Link } from '../../protocol/wire/link.ts';
import { openTicket } from '../../protocol/wire/ticket.ts';
import type { Begun } from './begun.ts';
import type { Asker, Lane } from './lane.ts';
import type { Lanes } from './lanes.ts';

export type ConnectionOptions = {
  lanes: Lanes;
  /** That tickets are signed with. */
  key: Buffer;
  begun: Begun;
  /** Whether this writer writes that database; others may write some. */
  writes(file: string): boolean;
  /** How far a session had come with the writers before this one; -1 when that is not known. */
  left(session: number): number;
  /** No new work is taken; open transactions may end. */
  isStopping(): boolean;
  log(message: string): void;
};

export class Connection implements Asker {
  readonly #options: ConnectionOptions;
  readonly #link: Link;
  readonly #helloTimer: NodeJS.Timeout;
  #lane: Lane | null = null;
  #name = 'a stranger';
  #maintain = false;
  #session = 0;
  #place = -1;

  constructor(stream: Duplex, options: ConnectionOptions) {
    this.#options = options;
    this.#link = new Link(stream, {
      onFrame: (frame) => this.#receive(frame),
      onClose: (error) => this.#closed(error),
    });
    this.#helloTimer = setTimeout(() => this.close(new Error('No hello.')), LIMITS.helloMs);
  }

  get closed(): boolean {
    return this.#link.closed;
  }

  begins(id: number): void {
    this.#options.begun.mark(this.#place, id);
  }

  answer(id: number, value: unknown): void {
    try {
      this.#link.send([Kind.dbResult, id, value]);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.fail(id, { code: 'SQLITE_TOOBIG', message: 'The statement was run, but its result is too large to send.' });
    }
  }

  fail(id: number, error: ErrorBody): void {
    this.#link.send([Kind.dbError, id, error]);
  }

  close(reason: Error): void {
    this.#link.close(reason);
  }

  #receive(frame: Frame): void {
    if (!this.#lane) {
      this.#hello(frame);
      return;
    }
    if (frame[0] === Kind.resume) {
      const { begun, left } = this.#options;
      // A connection that this writer itself let go of: what became of its last operations is not known.
      this.#link.send([Kind.resumed, begun.knows(frame[1]) ? -1 : left(frame[1])]);
      return;
    }
    if (!isRequest(frame)) {
      this.close(new Error('Not a request.'));
      return;
    }
    const [, id, op, tx] = frame;
    if (op >= DbOp.userVersion && !this.#maintain) {
      this.fail(id, { code: 'SQLITE_AUTH', message: 'This connection may not do maintenance.' });
    } else if (tx === 0 && this.#options.isStopping()) {
      this.fail(id, { code: 'WRITER_UNAVAILABLE', message: 'The gateway is stopping; this statement was not run.' });
    } else {
      this.#lane.receive(this, frame);
    }
  }

  #hello(frame: Frame): void {
    const ticket = frame[0] === Kind.hello ? openTicket(frame[1], this.#options.key) : null;
    if (ticket?.role !== 'database') {
      this.close(new Error('No valid ticket.'));
      return;
    }
    if (!this.#options.writes(ticket.file)) {
      this.close(new Error(`Another writer writes the database of ${ticket.name}.`));
      return;
    }
    const session = frame[2];
    if (Number.isSafeInteger(session) && (session as number) > 0) {
      this.#session = session as number;
      this.#place = this.#options.begun.open(this.#session);
    }
    clearTimeout(this.#helloTimer);
    this.#name = ticket.name;
    this.#maintain = ticket.maintain;
    this.#lane = this.#options.lanes.join(ticket.file, ticket.name, this);
  }

  #closed(error: Error | null): void {
    clearTimeout(this.#helloTimer);
    if (error) this.#options.log(`The connection of ${this.#name} was closed: ${error.message}`);
    if (this.#session > 0) this.#options.begun.close(this.#session, this.#place);
    if (this.#lane) this.#options.lanes.leave(this.#lane, this);
  }
}

/** A worker's frames are hostile: each is checked to have the shape that its type promises. */
export function isRequest(frame: Frame): frame is DbFrame {
  if (frame[0] !== Kind.db) return false;
  const [, id, op, tx, first, second] = frame as unknown[];
  if (!Number.isSafeInteger(id) || !Number.isSafeInteger(tx)) return false;
  switch (op) {
    case DbOp.run:
    case DbOp.get:
    case DbOp.all:
      return typeof first === 'string' && isParams(second);
    case DbOp.batch:
      return Array.isArray(first) && first.length <= LIMITS.batchStatements && first.every(isStatement);
    case DbOp.exec:
      return typeof first === 'string';
    case DbOp.commit:
    case DbOp.rollback:
      return tx !== 0;
    case DbOp.begin:
    case DbOp.userVersion:
    case DbOp.close:
      return tx === 0;
    case DbOp.migrate:
      return tx === 0 && Array.isArray(first) && first.every(isFile) && (second === null || typeof second === 'string');
    default:
      return false;
  }
}

/** What the values are is for SQLite to judge. */
function isParams(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

function isStatement(value: unknown): boolean {
  return Array.isArray(value) && typeof value[0] === 'string' && isParams(value[1]);
}

function isFile(value: unknown): boolean {
  const file = value as { name?: unknown; path?: unknown } | null;
  return typeof file?.name === 'string' && typeof file.path === 'string';
}
