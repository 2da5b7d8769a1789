/** For tests: actors under a stopped clock, on a host whose threads are scripted by the test, frame by frame. */

import { LIMITS } from '../protocol/limits.ts';
import type { VersionSummary } from '../protocol/manifest.ts';
import { type ActorSpec, type Frame, Kind, ToolKind } from '../protocol/wire/frames.ts';
import { ADMIN_CALLER } from '../protocol/wire/handler-caller.ts';
import type { Link } from '../protocol/wire/link.ts';
import { Meter } from '../supervisor/operations/metrics/meters.ts';
import { Actor, type ActorEnvironment } from '../supervisor/tree/actor/actor.ts';
import { Call, type CallReply, Deadlines } from '../supervisor/tree/actor/call.ts';
import { Generation } from '../supervisor/tree/actor/generation.ts';
import { type Child, StartLimiter } from '../supervisor/tree/child.ts';
import { Population } from '../supervisor/tree/population.ts';
import { NO_CALLBACKS } from './tree.ts';

/** The answer to a caller; `unknown` counts answers with an unknown outcome. */
export type Caller = { actor: Actor; call: Call; answers: string[]; unknown: number; faults: unknown[] };

/** One thread, as its host and its connection show it to the supervisor. */
export class Thread {
  readonly generation: Generation;
  /** Frames sent to it. */
  readonly received: Frame[] = [];
  stopAsked: 'politely' | 'by force' | null = null;
  ended = false;
  #connected = false;

  constructor(generation: Generation) {
    this.generation = generation;
  }

  get version(): string {
    return this.generation.summary.versionId;
  }

  ready(): void {
    const link = { send: (frame: Frame) => this.received.push(frame), close: () => this.disconnect() };
    if (!this.generation.attach(link as unknown as Link)) return;
    this.#connected = true;
    this.send([Kind.ready, { pid: 1 }]);
  }

  /** Sends a frame, also one that a correct thread would never send. Returns the error that the supervisor threw. */
  send(frame: Frame): unknown {
    try {
      this.generation.onFrame(frame);
      return null;
    } catch (error) {
      this.disconnect();
      return error;
    }
  }

  answer(call: Call, status = 200): unknown {
    return this.send([Kind.result, call.id, status, Buffer.from('1'), 1]);
  }

  disconnect(): void {
    if (!this.#connected) return;
    this.#connected = false;
    this.generation.onClose();
  }

  /** The host reports that it ended. Its connection stays readable until `disconnect`. */
  exited(reason: 'stopped' | 'memory' | 'crash' | 'failed_to_start' = 'crash'): void {
    this.ended = true;
    this.generation.exited(reason, 'as the test wants it');
  }

  end(reason?: 'stopped' | 'memory' | 'crash' | 'failed_to_start'): void {
    this.exited(reason);
    this.disconnect();
  }
}

export class ScriptedHost {
  readonly name = 'host-1';
  state: 'running' | 'backoff' = 'running';
  killed = 0;
  readonly starts = new StartLimiter();
  readonly threads: Thread[] = [];
  readonly #generations = new Map<number, Generation>();

  add(generation: Generation): void {
    this.#generations.set(generation.spec.actorId, generation);
    generation.hostReady();
  }

  send(frame: Frame): void {
    if (frame[0] === Kind.start) {
      // The constructor of a generation sends this before the caller has the generation.
      queueMicrotask(() => {
        const generation = this.#generations.get(frame[1].actorId);
        if (generation) this.threads.push(new Thread(generation));
      });
    } else if (frame[0] === Kind.stop) {
      const thread = this.threads.find(({ generation }) => generation.spec.actorId === frame[1]);
      if (thread) thread.stopAsked = frame[2] ? 'by force' : 'politely';
    }
  }

  kill(): void {
    this.killed++;
  }

  /** Its process ends, with all threads. */
  die(): void {
    this.state = 'backoff';
    for (const thread of this.threads) thread.ended = true;
    for (const generation of [...this.#generations.values()]) {
      if (generation.state === 'placed' || generation.state === 'gone') continue;
      const thread = this.threads.find((candidate) => candidate.generation === generation);
      generation.hostGone('its host died', true);
      thread?.disconnect();
    }
  }

  comeUp(): void {
    this.state = 'running';
    for (const generation of this.#generations.values()) generation.hostReady();
  }

  /** Running threads. */
  get running(): Thread[] {
    return this.threads.filter((thread) => !thread.ended);
  }
}

export class World {
  readonly host = new ScriptedHost();
  readonly callers: Caller[] = [];
  readonly retired: string[] = [];
  /** Apps that were given up, and why. */
  readonly givenUp: string[] = [];
  /** The supervisor's lines in the apps' logs. */
  readonly appLog: Record<string, unknown>[] = [];
  readonly #tick: (ms: number) => void;
  readonly #apps: Population<Actor>;
  readonly #fires: Population<Actor>;
  readonly #environment: ActorEnvironment = {
    now: () => this.now,
    random: () => 0.5,
    deadlines: new Deadlines(() => this.now),
    spawn: ({ app, automation }, summary, events) => {
      const spec = { actorId: ++this.#nextActorId, app, automation } as ActorSpec;
      const generation = new Generation(
        spec,
        summary,
        this.host as unknown as Child,
        events,
        () => this.now,
        () => null,
        async () => ({ ok: false, value: null }),
      );
      this.host.add(generation);
      return generation;
    },
    meter: () => new Meter(),
    retired: (reason) => void this.retired.push(reason),
    commons: null,
    leftCommons: () => {},
    log: () => {},
    callbacks: {
      ...NO_CALLBACKS,
      appLog: (_app, line) => void this.appLog.push(JSON.parse(line)),
      onGaveUp: (app, why) => this.givenUp.push(`${app}: ${why}`),
    },
  };
  now = 1000;
  #nextActorId = 0;

  /** `tick` moves the timers of the test. */
  constructor(tick: (ms: number) => void, maxLiveActors = 64, fireThreads = 64, mailboxLimit = 100) {
    this.#tick = tick;
    const app = { idleMs: Number.POSITIVE_INFINITY, mailboxLimit, concurrency: LIMITS.actorConcurrency };
    this.#apps = new Population({ places: maxLiveActors, ...app });
    const fire = { idleMs: LIMITS.fireIdleMs, mailboxLimit: LIMITS.runsWaiting, concurrency: 1 };
    this.#fires = new Population({ places: fireThreads, ...fire });
  }

  actor(app = 'app'): Actor {
    return new Actor(app, null, version('v1'), this.#apps, this.#environment);
  }

  /** The actor that fires an automation. */
  fireActor(id = 'digest', app = 'app'): Actor {
    return new Actor(app, id, version('v1'), this.#fires, this.#environment);
  }

  /** A call that is on its way to the actor. */
  call(actor: Actor, { action = false, input = '{}', allowedMs = 1000 } = {}, more: Partial<CallReply> = {}): Caller {
    const caller: Omit<Caller, 'call'> = { actor, answers: [], unknown: 0, faults: [] };
    const request = {
      kind: actor.automation !== null ? ToolKind.fire : action ? ToolKind.action : ToolKind.query,
      tool: actor.automation ?? 'tool',
      body: Buffer.from(input),
      traceId: '',
      caller: ADMIN_CALLER,
      allowedMs,
    };
    const reply = {
      result: (status: number) => void caller.answers.push(String(status)),
      failed: ({ code, message }: { code: string; message: string }) => void caller.answers.push(`${code}: ${message}`),
      outcomeUnknown: () => void caller.unknown++,
      faulted: (error: unknown) => void caller.faults.push(error),
      ...more,
    };
    const call = new Call(request, reply, this.now);
    const made = Object.assign(caller, { call });
    this.callers.push(made);
    actor.submit(call);
    return made;
  }

  /** Lets time pass, in steps as small as those in which deadlines are checked. */
  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 20) {
      const step = Math.min(left, 20);
      this.now += step;
      this.#tick(step);
      await settle();
    }
    await settle();
  }

  /** The periodic check of places, and the end of idle threads. */
  rotate(): void {
    for (const population of [this.#apps, this.#fires]) population.tidy(this.now);
  }

  /** The running thread that was started last, after pending work is done. */
  async thread(): Promise<Thread> {
    await settle();
    const thread = this.host.running.at(-1);
    if (!thread) throw new Error('No thread runs.');
    return thread;
  }

  async liveThread(): Promise<Thread> {
    const thread = await this.thread();
    thread.ready();
    return thread;
  }
}

export function version(versionId: string): VersionSummary {
  return { versionId, queries: [], actions: [] } as unknown as VersionSummary;
}

/** Runs everything that waits for a microtask. */
export async function settle(): Promise<void> {
  for (let n = 0; n < 10; n++) await Promise.resolve();
}
