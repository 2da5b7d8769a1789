/**
 * Talks to systemd as a service of type `notify`: takes the listening socket that it passed (sd_listen_fds(3)), and tells it
 * when the gateway is ready, lives and stops (sd_notify(3)). Node has no datagram sockets of Unix, so the messages are sent
 * by systemd's own program `systemd-notify`; the unit needs `NotifyAccess=all`, because that is another process.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Logger } from 'pino';
import { LIMITS } from '../../protocol/limits.ts';
import { ConfigError } from '../config.ts';

/** Where descriptors begin that are passed. */
const FIRST_SOCKET = 3;
const COMMAND = 'systemd-notify';
/** Variables through which systemd informs a service; its child processes must not get them. */
const VARIABLES = ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID', 'LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES'];

type Environment = Record<string, string | undefined>;

export class ServiceManager {
  /** The descriptor of the listening socket that was passed; null where there is none. */
  readonly socket: number | null;
  readonly #notifySocket: string | undefined;
  /** Milliseconds within which it has to hear from a service; null where it does not watch. */
  readonly #watchdogMs: number | null;
  readonly #path: string | undefined;
  readonly #log: Logger;
  #watchdog: NodeJS.Timeout | null = null;
  #hasFailed = false;

  /**
   * Takes what is meant for process `pid` out of `env`. Throws a `ConfigError` when more than one socket was passed.
   */
  constructor(env: Environment, pid: number, log: Logger) {
    const { NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID = String(pid), LISTEN_PID, LISTEN_FDS } = env;
    this.#log = log;
    this.#path = env.PATH;
    this.#notifySocket = NOTIFY_SOCKET || undefined;
    const watchdogMs = Number(WATCHDOG_USEC) / 1000;
    this.#watchdogMs = WATCHDOG_PID === String(pid) && watchdogMs >= 1 ? watchdogMs : null;
    const sockets = LISTEN_PID === String(pid) ? Number(LISTEN_FDS) : 0;
    if (sockets > 1) {
      throw new ConfigError(
        `systemd passed ${sockets} sockets, and a gateway listens on one: leave one ListenStream in the socket unit.`,
      );
    }
    this.socket = sockets === 1 ? FIRST_SOCKET : null;
    for (const name of VARIABLES) delete env[name];
  }

  /** The gateway accepts requests. From here on systemd hears twice in each of its intervals that the event loop turns. */
  ready(status: string): void {
    this.#tell('READY=1', `STATUS=${status}`);
    // A blocked event loop runs no timers, so the timer alone proves that it lives.
    if (this.#watchdogMs !== null) this.#watchdog = setInterval(() => this.#tell('WATCHDOG=1'), this.#watchdogMs / 2);
    this.#watchdog?.unref();
  }

  /** The gateway begins to stop; it is watched until `close`. */
  stopping(status: string): void {
    this.#tell('STOPPING=1', `STATUS=${status}`);
  }

  close(): void {
    if (this.#watchdog !== null) clearInterval(this.#watchdog);
    this.#watchdog = null;
  }

  #tell(...assignments: string[]): void {
    if (this.#notifySocket === undefined) return;
    let child: ChildProcess;
    try {
      child = spawn(COMMAND, assignments, {
        env: { NOTIFY_SOCKET: this.#notifySocket, PATH: this.#path },
        stdio: 'ignore',
        timeout: LIMITS.notifyMs,
        killSignal: 'SIGKILL',
      });
    } catch (error) {
      this.#failed((error as Error).message);
      return;
    }
    child.on('error', (error) => this.#failed(error.message));
    child.on('exit', (code, signal) => {
      if (code !== 0) this.#failed(`it ended with ${signal ?? code}`);
    });
  }

  /** Said once: the messages that follow would fail in the same way. */
  #failed(reason: string): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    this.#log.warn(`systemd cannot be told how the gateway is, because ${COMMAND} does not work: ${reason}.`);
  }
}
