/**
 * The thread of a host's commons (`dist/commons.cjs`): runs queries of quiet apps, each app in a context of its own, over one
 * connection to the supervisor (specification, "Commons").
 */
import '../handler/no-code-of-text.ts';
import buffer from 'node:buffer';
import crypto from 'node:crypto';
import fs, { readFileSync } from 'node:fs';
import path, { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import util from 'node:util';
import { getHeapStatistics } from 'node:v8';
import { type Context, compileFunction, constants, createContext, Script } from 'node:vm';
import { parentPort, threadId } from 'node:worker_threads';
import { LIMITS } from '../../protocol/limits.ts';
import { COMMONS_FILE, type LeaveReason } from '../../protocol/wire/commons.ts';
import { type ActorSpec, type Frame, Kind } from '../../protocol/wire/frames.ts';
import { type Link, openLink, pong } from '../../protocol/wire/link.ts';
import { loadSqlite, openSqlite } from '../../storage/sqlite.ts';
import { lazyValidators } from '../handler/load-validators.ts';
import { osThreadNumber } from '../handler/memory-watch.ts';
import type { Given, NodeTimer, Resident, Settle } from './given.ts';
import { TurnPulse } from './pulse.ts';
import { Turns } from './turns.ts';

/** What the host sends it, once: until then it is blank. It answers with the system's number of the thread. */
export type CommonsStart = { supervisorSocket: string; ticket: string; pulse: SharedArrayBuffer };

if (parentPort === null) throw new Error('commons.cjs is started by a handler host, as a thread.');
const host = parentPort;
const install = dirname(fileURLToPath(import.meta.url));
/** Its frames in stacks are ours: `node:` is left out of them. */
const surface = new Script(
  `(function (given, module) {${readFileSync(join(install, 'resident.cjs'), 'utf8')}
return module.exports.prepare(given);
})`,
  { filename: 'node:svc/resident' },
);
const node: Given['node'] = {
  ...{ Buffer, buffer, crypto, fs, path, process, util },
  now: performance.now.bind(performance),
};

const web: Given['web'] = {
  ...{ URL, URLSearchParams, TextEncoder, TextDecoder, atob, btoa, types: util.types },
  randomBytes: crypto.randomBytes,
  randomUUID: crypto.randomUUID,
};

/** In bytes. */
type Memory = { heap: number; outside: number };

/** The realm of one app; made before there is one, because that takes longer than the call that waits for it. */
class Home {
  #spec!: ActorSpec;
  readonly #timers = new Set<NodeTimer>();
  readonly #settle: Settle;
  #resident!: Resident;
  left = false;
  opened = false;
  /** Since when its time is counted, and that time. */
  #windowStart = 0;
  #turnsMs = 0;
  /** By how much its turns raised the memory outside of the heap. */
  #bytesOutside = 0;

  constructor() {
    const context = createContext(constants.DONT_CONTEXTIFY, { codeGeneration: { strings: false, wasm: false } });
    const prepared = surface.runInContext(context) as (given: Given, module: object) => Settle;
    this.#settle = prepared(this.#given(context), { exports: {} });
  }

  /** Throws when the version cannot be run. Called once. */
  settle(spec: ActorSpec): void {
    this.#spec = spec;
    this.#resident = this.#settle({
      spec,
      script: readFileSync(join(spec.preparedDir, COMMONS_FILE), 'utf8'),
      validators: lazyValidators(readFileSync(join(spec.preparedDir, 'validators.js'), 'utf8')),
    });
  }

  receive(frame: Frame): void {
    this.#resident.receive(frame);
  }

  rejected(reason: unknown, promise: Promise<unknown>): void {
    this.#resident.rejected(reason, promise);
  }

  handled(promise: Promise<unknown>): void {
    this.#resident.handled(promise);
  }

  /** Closes its database. */
  rest(): void {
    this.opened = false;
    this.#resident.rest();
  }

  /** Nothing of it goes on. */
  end(): void {
    this.left = true;
    for (const timer of this.#timers) stopTimer(timer);
    this.rest();
  }

  /** A turn of it ended. Many short ones keep the others waiting as a long one does. */
  worked(ms: number, grown: Memory): void {
    const now = performance.now();
    if (now - this.#windowStart >= LIMITS.commonsWindowMs) {
      this.#windowStart = now;
      this.#turnsMs = 0;
    }
    // The host looks at longer ones, and at the processor time that they take.
    this.#turnsMs += Math.min(ms, LIMITS.commonsStallMs);
    this.#bytesOutside += grown.outside;
    if (grown.heap + grown.outside > LIMITS.commonsCallBytes)
      this.leave('memory', `One turn of it took more than ${LIMITS.commonsCallBytes / 1024 ** 2} MiB.`);
    if (this.#turnsMs > LIMITS.commonsTurnsMs)
      this.leave('processor', `Its turns took ${Math.round(this.#turnsMs)} ms in ${LIMITS.commonsWindowMs / 1000} s.`);
  }

  /** Whether it holds a good part of what is outside of the heap; what another one held may not be collected yet. */
  holdsMuchOutside(): boolean {
    return this.#bytesOutside > LIMITS.commonsBytesOutside / 4;
  }

  leave(reason: LeaveReason, detail: string): void {
    if (this.left) return;
    this.left = true;
    homes.delete(this.#spec.actorId);
    link.send([Kind.leaves, this.#spec.actorId, reason, detail]);
    // It may be reading rows, and a database that does cannot be closed.
    setImmediate(() => this.end());
  }

  #given(context: Context): Given {
    return {
      install,
      node,
      web,
      format: (values) => util.format(...copied(values)),
      send: (frame) => {
        if (!this.left) link.send([Kind.resident, this.#spec.actorId, frame]);
      },
      leave: (reason, detail) => this.leave(reason, detail),
      openSqlite: (file, options) => {
        if (this.left) throw new Error('The app goes on in a thread of its own.');
        const db = openSqlite(file, options);
        this.opened = true;
        restOthers(this);
        return db;
      },
      compile: (body, params, file) =>
        compileFunction(`"use strict";\n${body}`, params, {
          filename: file,
          lineOffset: -1,
          parsingContext: context,
        }) as ReturnType<Given['compile']>,
      startTimer: (kind, ms, run) => {
        const fire = (): void => {
          if (kind !== 'interval') this.#timers.delete(timer);
          if (!this.left) turns.take(this.#spec.actorId, run);
        };
        const timer: NodeTimer =
          kind === 'immediate' ? setImmediate(fire) : kind === 'timeout' ? setTimeout(fire, ms) : setInterval(fire, ms);
        this.#timers.add(timer);
        return timer;
      },
      stopTimer: (timer) => {
        this.#timers.delete(timer);
        stopTimer(timer);
      },
      queueMicrotask: (run) => queueMicrotask(run),
    };
  }
}

/** Objects of this realm in place of those of another, which are plain data. */
function copied<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value;
  const copy = Array.isArray(value)
    ? []
    : Object.create(Object.getPrototypeOf(value) === null ? null : Object.prototype);
  for (const [key, member] of Object.entries(value))
    Object.defineProperty(copy, key, { value: copied(member), enumerable: true, writable: true, configurable: true });
  return copy as T;
}

function stopTimer(timer: NodeTimer): void {
  clearTimeout(timer as NodeJS.Timeout);
  clearImmediate(timer as unknown as NodeJS.Immediate);
}

let turns: Turns;
let link: Link;
/** By the numbers of their actors, the least recently used one first. */
const homes = new Map<number, Home>();
/** The memory at the end of the last turn: to ask is a good part of a turn. */
let before = memoryUsed();
/** Of the next app. */
let nextHome: Home | null = null;

function memoryUsed(): Memory {
  const { used_heap_size, external_memory } = getHeapStatistics();
  return { heap: used_heap_size, outside: external_memory };
}

function turnEnded(actorId: number, ms: number): void {
  const { heap, outside } = memoryUsed();
  homes.get(actorId)?.worked(ms, { heap: heap - before.heap, outside: outside - before.outside });
  before = { heap, outside };
  if (outside > LIMITS.commonsBytesOutside)
    for (const home of homes.values())
      if (home.holdsMuchOutside())
        home.leave('memory', 'Its buffers take much of the memory of all apps in the commons.');
}

function restOthers(newest: Home): void {
  let open = 0;
  for (const home of homes.values()) if (home.opened) open++;
  if (open <= LIMITS.commonsDatabases) return;
  for (const home of homes.values()) {
    if (!home.opened || home === newest) continue;
    home.rest();
    return;
  }
}

function settle(spec: ActorSpec): void {
  const { actorId } = spec;
  try {
    const home = nextHome ?? new Home();
    nextHome = null;
    home.settle(spec);
    homes.set(actorId, home);
  } catch (error) {
    link.send([Kind.leaves, actorId, 'modules', `It does not start: ${(error as Error).message}`]);
  }
}

function receive(actorId: number, frame: Frame): void {
  if (frame[0] === Kind.start) {
    settle(frame[1]);
    return;
  }
  const home = homes.get(actorId);
  if (home === undefined) return;
  if (frame[0] === Kind.stop) {
    homes.delete(actorId);
    home.end();
    link.send([Kind.exited, actorId, 'stopped', '']);
    return;
  }
  homes.delete(actorId);
  homes.set(actorId, home);
  home.receive(frame);
}

function start({ supervisorSocket, ticket, pulse: memory }: CommonsStart): void {
  turns = new Turns(new TurnPulse(memory), {
    flush: () => link.flush(),
    receive,
    onEnded: turnEnded,
    // Nobody waits for it now.
    onIdle: () => {
      nextHome ??= new Home();
    },
  });
  link = openLink(supervisorSocket, ticket, {
    onFrame: (frame) => {
      if (frame[0] === Kind.resident) turns.enqueue(frame[1], frame[2] as Frame);
      else if (frame[0] === Kind.ping) link.send(pong(frame[1], { residents: homes.size }));
      else link.close(new Error('The supervisor sent a frame that the commons do not take.'));
    },
    onClose: () => process.exit(1),
  });
  host.postMessage(osThread);
  link.send([Kind.ready, { pid: process.pid, threadId }]);
}

// Both come within the turn. What the app made of the promise is not looked at: that would run its code outside of it.
process.on('unhandledRejection', (reason, promise) => homes.get(turns.current)?.rejected(reason, promise));
process.on('rejectionHandled', (promise) => homes.get(turns.current)?.handled(promise));
// The state of the thread is in doubt; the host sees whose turn it was.
process.on('uncaughtException', () => process.exit(1));

loadSqlite();
nextHome = new Home();
const osThread = osThreadNumber();
host.once('message', start);
