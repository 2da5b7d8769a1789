/**
 * Starts, stops and reports the app actors of a handler host (`dist/host.cjs`), each in a thread. Calls bypass this thread, over
 * each actor's own connection.
 */
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { Worker } from 'node:worker_threads';
import { LIMITS } from '../../protocol/limits.ts';
import { type ActorSpec, type Frame, type FrameOf, type HostBootstrap, Kind } from '../../protocol/wire/frames.ts';
import { type Link, openLink, pong } from '../../protocol/wire/link.ts';
import { PRIVATE_UMASK } from '../../storage/files/private-tree.ts';
import { CommonsThread, startCommonsThread } from '../commons/commons-thread.ts';
import { SpareThread } from '../spare-thread.ts';
import { MemoryWatch, type Watched } from './memory-watch.ts';

/** Host → thread. */
export type ToActor = { type: 'start'; spec: ActorSpec } | { type: 'stop' } | { type: 'measure'; budget: number };

/**
 * Thread → host. `ready`: `osThread` is the system's number of the thread, 0 where it is not known. `measured`: the bytes outside its
 * heap. `failed`: it could not start. `crashed`: an error that nothing caught is about to end the thread.
 */
export type FromActor =
  | { type: 'ready'; osThread: number }
  | { type: 'measured'; bytes: number }
  | { type: 'failed' | 'crashed'; detail: string };

const MiB = 1024 * 1024;

type ExitReason = FrameOf<'exited'>[2];

class ActorThread implements Watched {
  readonly worker: Worker;
  readonly memoryMb: number;
  ready = false;
  stopping = false;
  detail = '';
  /** It was ended for its use of memory. */
  outOfMemory = false;
  /** The system's number of its thread; 0 where that is not known. */
  osThread = 0;

  constructor(worker: Worker, memoryMb: number) {
    this.worker = worker;
    this.memoryMb = memoryMb;
  }

  tell(message: ToActor): void {
    this.worker.postMessage(message);
  }

  ask(): void {
    this.tell({ type: 'measure', budget: this.memoryMb * MiB });
  }

  /** Linux's count of page faults; null elsewhere. */
  faults(): number | null {
    try {
      const stat = readFileSync(`/proc/self/task/${this.osThread}/stat`, 'utf8');
      // The name in parentheses may hold spaces; the numbered fields start after it, at field 3.
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[7]);
    } catch {
      return null;
    }
  }

  end(): void {
    this.outOfMemory = true;
    this.detail ||= `The app needed more than ${this.memoryMb} MiB of memory outside of its heap, in buffers and the like.`;
    void this.worker.terminate();
  }

  exitReason(): ExitReason {
    if (this.outOfMemory) return 'memory';
    if (this.stopping) return 'stopped';
    return this.ready ? 'crash' : 'failed_to_start';
  }
}

class Host {
  readonly #bootstrap: HostBootstrap;
  readonly #link: Link;
  readonly #memory: MemoryWatch;
  readonly #actors = new Map<number, ActorThread>();
  readonly #spare = new SpareThread(
    () => this.#startThread(),
    () => this.#hasRoom(),
  );
  readonly #spareCommons = new SpareThread(startCommonsThread, () => this.#hasRoom());
  #commons: CommonsThread | null = null;

  constructor(bootstrap: HostBootstrap) {
    this.#bootstrap = bootstrap;
    this.#memory = new MemoryWatch(bootstrap.actorMemoryMb * MiB);
    this.#link = openLink(bootstrap.supervisorSocket, bootstrap.ticket, {
      onFrame: (frame) => this.#receive(frame),
      onClose: () => this.#end(),
    });
    this.#link.send([Kind.ready, { pid: process.pid }]);
    process.stdin.on('close', () => this.#end());
    if (bootstrap.spare === 'once') this.#spare.now();
    else this.#prepare(this.#spare, LIMITS.spareStartMs);
  }

  #receive(frame: Frame): void {
    switch (frame[0]) {
      case Kind.start:
        this.#start(frame[1]);
        break;
      case Kind.stop:
        this.#stop(frame[1], frame[2]);
        break;
      case Kind.commons:
        this.#startCommons(frame[1]);
        break;
      case Kind.ping:
        this.#link.send(pong(frame[1], { actors: this.#actors.size }));
        break;
      default:
        this.#link.close(new Error('The supervisor sent a frame that a handler host does not take.'));
    }
  }

  /** Ends at once: an exit would wait for the threads, and one in a native loop never ends. */
  #end(): never {
    if (this.#actors.size > 0 || this.#commons !== null) process.kill(process.pid, 'SIGKILL');
    process.exit(0);
  }

  #start(spec: ActorSpec): void {
    let worker: Worker;
    try {
      worker = this.#spare.take();
    } catch (error) {
      this.#link.send([Kind.exited, spec.actorId, 'failed_to_start', (error as Error).message]);
      return;
    }
    const { actorMemoryMb } = this.#bootstrap;
    const actor = new ActorThread(worker, actorMemoryMb);
    this.#actors.set(spec.actorId, actor);
    this.#memory.add(actor);
    worker.on('message', (message: FromActor) => {
      if (message.type === 'measured') this.#memory.measured(actor, message.bytes);
      else if (message.type === 'ready') {
        Object.assign(actor, { ready: true, osThread: message.osThread });
        this.#prepare(this.#spare);
      } else actor.detail = message.detail;
    });
    worker.on('error', (error: NodeJS.ErrnoException) => {
      actor.outOfMemory ||= error.code === 'ERR_WORKER_OUT_OF_MEMORY';
      actor.detail ||= actor.outOfMemory ? `The app needed more than ${actorMemoryMb} MiB of memory.` : error.message;
    });
    worker.on('exit', () => {
      this.#memory.remove(actor);
      this.#actors.delete(spec.actorId);
      // There is memory for one again.
      this.#prepare(this.#spare);
      this.#link.send([Kind.exited, spec.actorId, actor.exitReason(), actor.detail]);
    });
    actor.tell({ type: 'start', spec });
  }

  #startCommons(ticket: string): void {
    this.#commons?.stop();
    // Whoever waits for the commons needs the processor.
    this.#spare.later();
    try {
      const { supervisorSocket } = this.#bootstrap;
      this.#commons = new CommonsThread(this.#spareCommons.take(), supervisorSocket, ticket, {
        onReady: () => this.#prepare(this.#spare),
        // If one of its apps ends it, the others do not wait for the next one.
        onWorks: () => this.#prepare(this.#spareCommons, LIMITS.spareStartMs),
        onEnded: (actorId, end, detail) => {
          if (end !== 'stuck') this.#commons = null;
          this.#link.send([Kind.commonsEnded, actorId, end, detail]);
        },
      });
    } catch (error) {
      this.#link.send([Kind.commonsEnded, 0, 'crash', (error as Error).message]);
    }
  }

  /** Without `force` the actor finishes its calls first. A thread in native code ends only when that returns. */
  #stop(actorId: number, force: boolean): void {
    const actor = this.#actors.get(actorId);
    if (actor === undefined) return;
    actor.stopping = true;
    if (force) void actor.worker.terminate();
    else actor.tell({ type: 'stop' });
  }

  #prepare(spare: SpareThread, delayMs: number = LIMITS.spareDelayMs): void {
    const { spare: isKept = true } = this.#bootstrap;
    if (isKept === true) spare.soon(delayMs);
  }

  /** For a thread without an app. */
  #hasRoom(): boolean {
    const { shortOfMemory = Number.POSITIVE_INFINITY } = this.#bootstrap;
    return this.#actors.size < shortOfMemory;
  }

  #startThread(): Worker {
    const resourceLimits = {
      maxOldGenerationSizeMb: this.#bootstrap.actorMemoryMb,
      maxYoungGenerationSizeMb: LIMITS.actorYoungMb,
    };
    return new Worker(new URL('./actor.cjs', import.meta.url), { env: {}, argv: [], resourceLimits });
  }
}

// This process may create the index of a database's log, too.
process.umask(PRIVATE_UMASK);
const lines = createInterface({ input: process.stdin });
lines.once('line', (line) => new Host(JSON.parse(line) as HostBootstrap));
