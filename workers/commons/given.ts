/** Defines what the thread of the commons gives a resident, and what it gets from it. */
import type { Buffer as NodeBuffer } from 'node:buffer';
import type { LeaveReason } from '../../protocol/wire/commons.ts';
import type { ActorSpec, Frame } from '../../protocol/wire/frames.ts';
import type { OpenSqlite } from '../handler/context/reader.ts';
import type { Validators } from '../handler/validators.ts';
import type { NodeWeb } from './web/node-web.ts';

export type TimerKind = 'timeout' | 'interval' | 'immediate';

/** A timer of Node. */
export type NodeTimer = {
  ref(): unknown;
  unref(): unknown;
  hasRef(): boolean;
  refresh?(): unknown;
  [Symbol.toPrimitive]?(): number;
};

/** Objects of the thread's realm: app code must not get hold of them. Those of a realm are there before its app. */
export type Given = {
  /** Folder of our code. */
  install: string;
  /** What our own code uses of Node. */
  node: {
    Buffer: typeof NodeBuffer;
    now(): number;
    buffer: Pick<typeof import('node:buffer'), 'isUtf8'>;
    crypto: Pick<typeof import('node:crypto'), 'randomBytes' | 'randomUUID'>;
    fs: Pick<typeof import('node:fs'), 'readFileSync' | 'statSync'>;
    path: Pick<typeof import('node:path'), 'join' | 'posix'>;
    process: Pick<typeof import('node:process'), 'hrtime'>;
    util: Pick<typeof import('node:util'), 'inspect' | 'isDeepStrictEqual'>;
  };
  web: NodeWeb;
  /** `util.format`, of copies: plain data of primitive values. */
  format(values: unknown[]): string;
  /** Throws when the frame is too large. Frames of a resident that has left go nowhere. */
  send(frame: Frame): void;
  /** It has to go on in a thread of its own. */
  leave(reason: LeaveReason, detail: string): void;
  openSqlite: OpenSqlite;
  /** A function of the resident's realm. */
  compile(body: string, params: string[], file: string): (...given: unknown[]) => unknown;
  /** `run` is called in a turn of its own. */
  startTimer(kind: TimerKind, ms: number, run: () => void): NodeTimer;
  stopTimer(timer: NodeTimer): void;
  queueMicrotask(run: () => void): void;
};

/** The app of the realm: objects of the thread's, too. */
export type GivenApp = {
  spec: ActorSpec;
  /** JSON text of a `CommonsScript`. */
  script: string;
  validators: Validators['queries'];
};

/** Throws when the version cannot be run. Called once in a realm. */
export type Settle = (app: GivenApp) => Resident;

/** An app in the commons. */
export type Resident = {
  receive(frame: Frame): void;
  /** Nobody handles this rejection; or somebody does after all. */
  rejected(reason: unknown, promise: Promise<unknown>): void;
  handled(promise: Promise<unknown>): void;
  /** Closes its database until the next statement. */
  rest(): void;
};
