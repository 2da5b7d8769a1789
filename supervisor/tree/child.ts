/**
 * One supervised process: started, judged by its heartbeat, restarted with back-off, stopped with a limit.
 *
 *   stopped ─start→ starting ─ready→ running ─exit→ backoff ─timer→ starting
 *                      └──── exit ────────────────────↑  └─ intensity exceeded → failed
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { LIMITS } from '../../protocol/limits.ts';
import { type Frame, Kind, type ProcessStats } from '../../protocol/wire/frames.ts';
import type { Link } from '../../protocol/wire/link.ts';
import { startGraceTimer } from './grace-timer.ts';
import { RestartPolicy } from './restart.ts';

type ChildState = 'stopped' | 'starting' | 'running' | 'backoff' | 'stopping' | 'failed';

export type ChildSpec = {
  name: string;
  role: 'writer' | 'host' | 'jobs' | 'agents' | 'sql';
  /** The file that the process runs, and Node's own flags before it. */
  entry: string;
  flags?: string[];
  /** It has work to finish when it is told to stop; otherwise the end of its standard input ends it at once. */
  flushes?: boolean;
  /** A process that never comes up is tried again for ever, at intervals, instead of failing. */
  patient?: boolean;
  /** The first line of the process's standard input. A new one for each start. */
  bootstrap: () => object;
  /** All memory that it may have, in MiB; it is ended when it says that it has more. */
  memoryMb?: number;
  /** Empty when absent. */
  env?: Record<string, string>;
};

export type ChildEvents = {
  /** The process answers; called on each (re)start. */
  onReady(): void;
  onFrame(frame: Frame): void;
  /** It ended for any reason; its state shows what follows: `backoff`, `failed` or `stopped`. */
  onExit(reason: string): void;
};

export type ChildReports = {
  /** A process started or ended: the record of children on disk is due. */
  onProcess(pid: number, role: string, alive: boolean): void;
  log(level: 'warn' | 'error', message: string): void;
};

/** In the reason of an exit for want of memory; V8 uses these words too. */
export const OUT_OF_MEMORY = 'out of memory';

const MiB = 1024 * 1024;
const now = (): number => performance.now();

export class Child {
  readonly spec: ChildSpec;
  state: ChildState = 'stopped';
  restarts = 0;
  startedAt = 0;
  lastExit: string | null = null;
  stats: ProcessStats | null = null;

  readonly #events: ChildEvents & ChildReports;
  /** For the threads of a handler host. */
  readonly starts = new StartLimiter();
  readonly #policy = new RestartPolicy(Math.random);
  #process: ChildProcess | null = null;
  #link: Link | null = null;
  #stopAwaitingStart: (() => void) | null = null;
  #heartbeat: NodeJS.Timeout | undefined;
  #restartTimer: NodeJS.Timeout | undefined;
  #lastPong = 0;
  #lastTick = 0;
  #pings = 0;
  /** Starts in a row that never became ready. */
  #startFailures = 0;
  #failedAt = 0;
  #isReplaced = false;
  /** Why we ended it ourselves, if we did; otherwise the exit code or signal is the reason. */
  #killReason: string | null = null;
  #stderr = '';
  #onGone: (() => void)[] = [];

  constructor(spec: ChildSpec, events: ChildEvents & ChildReports) {
    this.spec = spec;
    this.#events = events;
  }

  get name(): string {
    return this.spec.name;
  }

  get pid(): number | null {
    return this.#process?.pid ?? null;
  }

  start(): void {
    if (this.#process) return;
    this.state = 'starting';
    this.startedAt = now();
    this.#killReason = null;
    this.#stderr = '';
    let child: ChildProcess;
    try {
      child = spawn(process.execPath, [...(this.spec.flags ?? []), this.spec.entry], {
        env: this.spec.env ?? {},
        stdio: ['pipe', 'ignore', 'pipe'],
        // A separate process group, so that ^C in a terminal reaches only the supervisor, which can drain first.
        detached: true,
      });
    } catch (error) {
      this.#exited(`could not be started: ${(error as Error).message}`);
      return;
    }
    this.#process = child;
    this.#stopAwaitingStart = startGraceTimer(LIMITS.childStartMs, now, () => this.kill('did not start in time'));
    child.stderr?.on('data', (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString()).slice(-4096);
    });
    // A process that died before it read its bootstrap breaks the pipe; its exit is what we act on.
    child.stdin?.on('error', () => {});
    child.stdin?.write(`${JSON.stringify(this.spec.bootstrap())}\n`);
    child.on('error', (error) => {
      this.#stderr += error.message;
      if (child.pid === undefined) this.#gone(child, 'could not be started');
    });
    child.on('close', (code, signal) => this.#gone(child, signal ? `ended by ${signal}` : `exited with code ${code}`));
    if (child.pid !== undefined) this.#events.onProcess(child.pid, this.spec.role, true);
  }

  /** Starts one that runs on need. False for one that kept dying, which is tried again after `LIMITS.restartWindowMs`. */
  wake(): boolean {
    if (this.state === 'stopped') this.start();
    if (this.state !== 'failed') return true;
    if (now() - this.#failedAt < LIMITS.restartWindowMs) return false;
    this.revive();
    return true;
  }

  /** The connection of this child, after its ticket was checked; what is left of an earlier one is not listened to. */
  attach(link: Link): { onFrame(frame: Frame): void; onClose(error: Error | null): void } | null {
    if (this.state !== 'starting' || this.#link) return null;
    this.#link = link;
    return {
      onFrame: (frame) => {
        if (this.#link === link) this.#receive(frame);
      },
      onClose: (error) => {
        if (this.#link !== link) return;
        this.#link = null;
        const process = this.#process;
        const reason = error ? `connection lost: ${error.message}` : 'connection closed';
        // A process without its connection is of no use. One that is dying already gets time to say why: its socket
        // may break before its exit is known.
        setTimeout(() => {
          if (this.#process === process) this.kill(reason);
        }, LIMITS.cancelGraceMs).unref();
      },
    };
  }

  send(frame: Frame): void {
    this.#link?.send(frame);
  }

  /** Ends it at once; the supervisor replaces it. */
  kill(reason: string): void {
    if (!this.#process) return;
    this.#killReason ??= reason;
    this.#process.kill('SIGKILL');
  }

  /** Ends it at once, and starts the next one without delay: what it ended for was dealt with. */
  replace(reason: string): void {
    this.#policy.reset();
    this.#isReplaced = this.#process !== null;
    this.kill(reason);
    if (this.state === 'failed') this.start();
  }

  /** Asks it to finish; kills it after `graceMs`. Resolves when it is gone, or cannot even be killed. */
  async stop(graceMs: number): Promise<void> {
    const running = this.#process;
    this.#endLife();
    if (!running) return;
    await new Promise<void>((resolve) => {
      const grace = setTimeout(() => {
        this.kill('did not stop in time');
        setTimeout(resolve, LIMITS.terminateMs).unref();
      }, graceMs);
      this.#onGone.push(() => {
        clearTimeout(grace);
        resolve();
      });
      if (!this.#link) this.kill('stopped while starting');
      else if (this.spec.flushes) this.send([Kind.stop, 0, false]);
      else running.stdin?.end();
    });
  }

  /** Ends it at once and for good. */
  destroy(): void {
    this.#endLife();
    this.kill('the gateway ends');
  }

  /** Lets a child that failed start again: what made it fail was dealt with. */
  revive(): void {
    this.#policy.reset();
    if (this.state === 'failed') this.start();
  }

  /** From here on it is not restarted. */
  #endLife(): void {
    clearTimeout(this.#restartTimer);
    this.state = this.#process ? 'stopping' : 'stopped';
  }

  #receive(frame: Frame): void {
    if (frame[0] === Kind.ready) {
      if (this.state === 'starting') this.#running();
    } else if (frame[0] === Kind.pong) {
      this.#lastPong = now();
      this.stats = frame[2];
      const { memoryMb } = this.spec;
      if (memoryMb !== undefined && (frame[2].rss ?? 0) > memoryMb * MiB)
        this.kill(`${OUT_OF_MEMORY}: it used more than ${memoryMb} MiB`);
    } else {
      this.#events.onFrame(frame);
    }
  }

  #running(): void {
    this.state = 'running';
    this.#startFailures = 0;
    this.#stopAwaitingStart?.();
    this.#lastPong = now();
    this.#lastTick = this.#lastPong;
    this.#heartbeat = setInterval(() => this.#beat(), LIMITS.heartbeatMs);
    this.#events.onReady();
  }

  #beat(): void {
    const at = now();
    // We did not run ourselves (a suspended machine, a stopped process): silence in that time proves nothing.
    if (at - this.#lastTick > 2 * LIMITS.heartbeatMs) this.#lastPong = at;
    this.#lastTick = at;
    if (at - this.#lastPong > LIMITS.heartbeatDeadMs) {
      this.kill('unresponsive: no heartbeat');
      return;
    }
    this.send([Kind.ping, ++this.#pings]);
  }

  #gone(process: ChildProcess, how: string): void {
    if (this.#process !== process) return;
    this.#stopAwaitingStart?.();
    clearInterval(this.#heartbeat);
    this.#process = null;
    if (process.pid !== undefined) this.#events.onProcess(process.pid, this.spec.role, false);
    this.stats = null;
    const link = this.#link;
    this.#link = null;
    link?.close();
    // V8's reason for ending a process, such as a full heap.
    const fatal = /^FATAL ERROR: (.*)$/m.exec(this.#stderr)?.[1];
    // However it ended then, some by a signal to themselves: it was meant to.
    const ended = this.state === 'stopping' ? 'was asked to stop' : how;
    this.#exited(this.#killReason ?? (fatal === undefined ? ended : `${how}: ${fatal}`));
  }

  #exited(how: string): void {
    this.lastExit = how;
    if (this.state === 'stopping') {
      this.state = 'stopped';
      this.#events.onExit(how);
      for (const resolve of this.#onGone.splice(0)) resolve();
      return;
    }
    if (this.state === 'starting') this.#startFailures++;
    const hopeless = this.spec.patient && this.#startFailures > LIMITS.restartIntensity;
    const wait = this.#isReplaced ? 0 : (this.#policy.exited(now()) ?? (hopeless ? LIMITS.restartBackoffMaxMs : null));
    this.#isReplaced = false;
    const detail = this.#stderr.trim();
    this.#events.log(wait === null ? 'error' : 'warn', `${this.name} ${how}${detail ? `: ${detail}` : ''}`);
    if (wait === null) {
      this.state = 'failed';
      this.#failedAt = now();
    } else {
      this.state = 'backoff';
      this.restarts++;
      this.#restartTimer = setTimeout(() => this.start(), wait);
    }
    this.#events.onExit(how);
  }
}

/** A thread; `hostReady` is called when there may be a place for it. */
type Startable = { hostReady(): void };

/**
 * Limits how many threads one host starts at a time. When many apps are called at once, all of them starting together would
 * be late together, and taken for threads that do not start. One by one they are in time.
 */
export class StartLimiter {
  readonly #starting = new Set<Startable>();
  readonly #waiting = new Set<Startable>();

  /** Whether it may start now. If not, its `hostReady` is called when there is a place. */
  enter(starter: Startable): boolean {
    if (this.#starting.size >= LIMITS.startsAtOnce) {
      this.#waiting.add(starter);
      return false;
    }
    this.#starting.add(starter);
    return true;
  }

  /** It has started, or never will. */
  leave(starter: Startable): void {
    this.#waiting.delete(starter);
    if (!this.#starting.delete(starter)) return;
    for (const next of this.#waiting) {
      if (this.#starting.size >= LIMITS.startsAtOnce) return;
      this.#waiting.delete(next);
      next.hostReady();
    }
  }
}
