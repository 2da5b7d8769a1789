/** Finds or starts the program's own gateway, replaces one of another version, and starts it again when it crashes. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CommandError } from '../../../cli/failure.ts';
import {
  type Found,
  findOrStart,
  GATEWAY_LOG,
  type Launcher,
  lastStarted,
  stopAndWait,
} from '../../../cli/gateway/background.ts';
import { Client } from '../../../cli/gateway/client.ts';
import type { Surroundings } from '../../../cli/gateway/connection.ts';
import { GatewayError } from '../../../protocol/http/gateway-error.ts';
import { DEFAULTS } from '../../../protocol/limits.ts';
import { compareIdentity, identityOf, type ProcessIdentity } from '../../../storage/processes/process-identity.ts';
import { RestartPolicy } from '../../../supervisor/tree/restart.ts';
import { type Gateways, LOCAL } from './gateways.ts';
import type { Shell } from './shell.ts';
import type { Tokens } from './tokens.ts';

export type LocalEvents = {
  /** It has crashed, and starts again. */
  crashed(pid: number): void;
  /** It runs again, at the same address. */
  restarted(): void;
  /** It cannot be started again. */
  failed(error: Error): void;
};

/** Milliseconds between two looks at its process: nobody hears of the end of one that an earlier start left behind. */
const LOOK_MS = 1000;

export class LocalGateway {
  readonly #shell: Shell;
  readonly #gateways: Gateways;
  readonly #tokens: Tokens;
  readonly #events: LocalEvents;
  readonly #lookMs: number;
  readonly #restarts = new RestartPolicy(Math.random);
  #connection: Promise<Client> | null = null;
  #process: ProcessIdentity | null = null;
  #watch: NodeJS.Timeout | undefined;

  constructor(shell: Shell, gateways: Gateways, tokens: Tokens, events: LocalEvents, lookMs = LOOK_MS) {
    this.#shell = shell;
    this.#gateways = gateways;
    this.#tokens = tokens;
    this.#events = events;
    this.#lookMs = lookMs;
  }

  /**
   * A client of the gateway that runs. `port` is for one that is started: by default where it was last. Rejects with what it said, and
   * with `TokenLockedError`.
   */
  connect(port?: number): Promise<Client> {
    this.#connection ??= this.#connect(port).catch((error: unknown) => {
      this.#connection = null;
      throw error;
    });
    return this.#connection;
  }

  /** The client of the gateway that runs or starts; null where none was asked for, or none could be started. */
  get current(): Promise<Client> | null {
    return this.#connection;
  }

  async #connect(port?: number): Promise<Client> {
    const { dataDir, token: path } = this.#gateways.layout(LOCAL);
    const { url } = await this.#gateways.local();
    const token = await this.#tokens.readOrMake(path);
    const before = url === undefined ? DEFAULTS.port : Number(new URL(url).port);
    const launcher = this.#launcher(dataDir, port ?? before, token);
    const find = () => findOrStart(dataDir, launcher, this.#surroundings());
    let found = await find();
    if (!found.started && !(await this.#isOurs(found, token))) {
      await stopAndWait(processOf(found, dataDir));
      found = await find();
    }
    await this.#gateways.noteAddress(found.client.url);
    this.#process = processOf(found, dataDir);
    clearInterval(this.#watch);
    this.#watch = setInterval(() => this.#look(), this.#lookMs);
    return withToken(found, token);
  }

  /** Whether one that runs has the code of this package, and our token. */
  async #isOurs(found: Found, token: string): Promise<boolean> {
    // After an update its processes would start with code that is not its own.
    if (found.version !== this.#shell.version) return false;
    try {
      await withToken(found, token).call('GET /svc/_apps');
      return true;
    } catch (error) {
      if (error instanceof GatewayError && error.status === 401) return false;
      throw error;
    }
  }

  /** Stops it, for good. */
  async stop(): Promise<void> {
    this.close();
    await this.#connection?.catch(() => {});
    if (this.#process !== null) await stopAndWait(this.#process);
    this.#process = null;
    this.#connection = null;
  }

  /** Leaves it running. */
  close(): void {
    clearInterval(this.#watch);
    this.#watch = undefined;
  }

  #look(): void {
    if (this.#process === null || compareIdentity(this.#process) !== 'gone') return;
    const { pid } = this.#process;
    this.#process = null;
    this.#connection = null;
    this.close();
    void this.#restart(pid);
  }

  async #restart(pid: number): Promise<void> {
    this.#events.crashed(pid);
    const wait = this.#restarts.exited(Date.now());
    if (wait === null) {
      this.#restarts.reset();
      const log = join(this.#gateways.layout(LOCAL).dataDir, GATEWAY_LOG);
      this.#events.failed(new CommandError('The gateway keeps ending.', `Its log says why: ${log}`));
      return;
    }
    await sleep(wait);
    try {
      await this.connect();
      this.#events.restarted();
    } catch (error) {
      this.#events.failed(error as Error);
    }
  }

  #surroundings(): Surroundings {
    const { env, platform, userData } = this.#shell;
    return { env, platform, cwd: userData };
  }

  #launcher(dataDir: string, port: number, token: string): Launcher {
    const { node, gatewayScript, env } = this.#shell;
    return {
      kind: 'desktop',
      another: `Move that folder away, and start again: ${dataDir}`,
      launch(log) {
        const child = spawn(node, [gatewayScript], { cwd: '/', env, detached: true, stdio: ['pipe', 'pipe', log] });
        child.stdin?.on('error', () => {});
        // Not as an argument and not in its environment, which the processes that it starts would have too.
        child.stdin?.end(JSON.stringify({ dataDir, port, token }));
        return child;
      },
    };
  }
}

function withToken({ client }: Found, token: string): Client {
  return new Client({ ...client.connection, token, tokenFrom: 'the desktop program' });
}

/** As it was noted when it was started, if it is that one. */
function processOf({ pid }: Found, dataDir: string): ProcessIdentity {
  const started = lastStarted(dataDir);
  return started?.pid === pid ? started : identityOf(pid);
}
