/**
 * One supervised process: started, judged by its heartbeat, restarted with back-off, stopped with a limit.
 *
 *   stopped ─start→ starting ─ready→ running ─exit→ backoff ─timer→ starting
 *                      └──── exit ────────────────────↑  └─ intensity exceeded → failed
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { type Frame, Kind, type ProcessStats } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Link } from '../../protocol/link.ts';
import type { LinkOwner } from './links.ts';
import { RestartPolicy } from './restart.ts';

export type ChildState = 'stopped' | 'starting' | 'running' | 'backoff' | 'stopping' | 'failed';

export type ChildSpec = {
  name: string;
  role: 'writer' | 'host';
  /** The file that the process runs, and Node's own flags before it. */
  entry: string;
  flags: string[];
  /** It has work to finish when it is told to stop; otherwise the end of its standard input ends it at once. */
  flushes: boolean;
  /** What the process reads as the first line of its standard input. A new one for each start. */
  bootstrap: () => Record<string, unknown>;
};

export type ChildEvents = {
  /** The process answers; called on each (re)start. */
  onReady(): void;
  onFrame(frame: Frame): void;
  /** It ended, whatever the cause. `restarting` is false when the intensity was exceeded or it was told to stop. */
  onExit(reason: string, restarting: boolean): void;
  /** A process came into being or is gone: the record of children on disk is due. */
  onProcess(pid: number, alive: boolean): void;
  log(level: 'info' | 'warn' | 'error', message: string): void;
};

export type ChildClock = { now: () => number; random: () => number };

export class Child implements LinkOwner {
  readonly spec: ChildSpec;
  state: ChildState = 'stopped';
  restarts = 0;
  startedAt = 0;
  lastExit: string | null = null;
  stats: ProcessStats | null = null;

  readonly #events: ChildEvents;
  readonly #clock: ChildClock;
  readonly #policy: RestartPolicy;
  #process: ChildProcess | null = null;
  #link: Link | null = null;
  #startTimer: NodeJS.Timeout | null = null;
  #heartbeat: NodeJS.Timeout | null = null;
  #restartTimer: NodeJS.Timeout | null = null;
  #lastPong = 0;
  #lastTick = 0;
  #pings = 0;
  /** Why we ended it ourselves, if we did; otherwise the exit code or signal is the reason. */
  #killReason: string | null = null;
  #stderr = '';
  #onGone: (() => void)[] = [];

  constructor(spec: ChildSpec, events: ChildEvents, clock: ChildClock) {
    this.spec = spec;
    this.#events = events;
    this.#clock = clock;
    this.#policy = new RestartPolicy(
      {
        intensity: LIMITS.restartIntensity,
        windowMs: LIMITS.restartWindowMs,
        backoffMs: LIMITS.restartBackoffMs,
        backoffMaxMs: LIMITS.restartBackoffMaxMs,
      },
      clock.random,
    );
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
    this.#killReason = null;
    this.#stderr = '';
    const child = spawn(process.execPath, [...this.spec.flags, this.spec.entry], {
      env: {},
      stdio: ['pipe', 'ignore', 'pipe'],
      // A group of its own, so that ^C in a terminal reaches the supervisor alone and it can drain first.
      detached: process.platform !== 'win32',
    });
    this.#process = child;
    this.startedAt = this.#clock.now();
    this.#startTimer = setTimeout(() => this.kill('did not start in time'), LIMITS.childStartMs);
    child.stderr?.on('data', (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString()).slice(-4096);
    });
    // A process that died before it read its bootstrap breaks the pipe; its exit is what we act on.
    child.stdin?.on('error', () => {});
    child.stdin?.write(`${JSON.stringify(this.spec.bootstrap())}\n`);
    child.on('error', (error) => {
      this.#stderr += error.message;
    });
    child.on('close', (code, signal) => this.#gone(code, signal));
    if (child.pid !== undefined) this.#events.onProcess(child.pid, true);
  }

  /** The connection of this child, after its ticket was checked. One from an earlier life is refused. */
  attach(link: Link): LinkOwner | null {
    if (this.state !== 'starting' || this.#link) return null;
    this.#link = link;
    return this;
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

  /** Asks it to finish; kills it after `graceMs`. Resolves when it is gone. */
  async stop(graceMs: number): Promise<void> {
    if (this.#restartTimer) clearTimeout(this.#restartTimer);
    this.#restartTimer = null;
    if (!this.#process) {
      this.state = 'stopped';
      return;
    }
    this.state = 'stopping';
    const gone = new Promise<void>((resolve) => this.#onGone.push(resolve));
    const timer = setTimeout(() => this.kill('did not stop in time'), graceMs);
    if (!this.#link) this.kill('stopped while starting');
    else if (this.spec.flushes) this.send([Kind.stop, 0, false]);
    else this.#process.stdin?.end();
    await gone;
    clearTimeout(timer);
  }

  /** Lets a child that failed start again: what made it fail was dealt with. */
  revive(): void {
    this.#policy.reset();
    if (this.state === 'failed') this.start();
  }

  onFrame(frame: Frame): void {
    if (frame[0] === Kind.ready && this.state === 'starting') {
      this.state = 'running';
      if (this.#startTimer) clearTimeout(this.#startTimer);
      this.#lastPong = this.#clock.now();
      this.#lastTick = this.#lastPong;
      this.#heartbeat = setInterval(() => this.#beat(), LIMITS.heartbeatMs);
      this.#events.onReady();
    } else if (frame[0] === Kind.pong) {
      this.#lastPong = this.#clock.now();
      this.stats = frame[2];
    } else {
      this.#events.onFrame(frame);
    }
  }

  onClose(error: Error | null): void {
    this.#link = null;
    // A process without its connection is of no use, whatever it still does.
    this.kill(error ? `connection lost: ${error.message}` : 'connection closed');
  }

  #beat(): void {
    const now = this.#clock.now();
    // We did not run ourselves (a suspended machine, a stopped process): silence in that time proves nothing.
    if (now - this.#lastTick > 2 * LIMITS.heartbeatMs) this.#lastPong = now;
    this.#lastTick = now;
    if (now - this.#lastPong > LIMITS.heartbeatDeadMs) {
      this.kill('unresponsive: no heartbeat');
      return;
    }
    this.send([Kind.ping, ++this.#pings]);
  }

  #gone(code: number | null, signal: NodeJS.Signals | null): void {
    if (this.#startTimer) clearTimeout(this.#startTimer);
    if (this.#heartbeat) clearInterval(this.#heartbeat);
    const pid = this.#process?.pid;
    this.#process = null;
    if (pid !== undefined) this.#events.onProcess(pid, false);
    this.stats = null;
    const link = this.#link;
    this.#link = null;
    link?.close();
    const how = this.#killReason ?? (signal ? `ended by ${signal}` : `exited with code ${code}`);
    const detail = this.#stderr.trim();
    this.lastExit = how;
    if (this.state === 'stopping') {
      this.state = 'stopped';
      this.#events.onExit(how, false);
      for (const resolve of this.#onGone.splice(0)) resolve();
      return;
    }
    const wait = this.#policy.exited(this.#clock.now());
    this.#events.log(wait === null ? 'error' : 'warn', `${this.name} ${how}${detail ? `: ${detail}` : ''}`);
    if (wait === null) {
      this.state = 'failed';
      this.#events.onExit(how, false);
      return;
    }
    this.state = 'backoff';
    this.restarts++;
    this.#events.onExit(how, true);
    this.#restartTimer = setTimeout(() => {
      this.#restartTimer = null;
      this.start();
    }, wait);
  }
}
