/** The built daemon as the scenarios use it: over HTTP, with a look at its processes. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SystemStatus } from '../protocol/routes/operations/system-rows.ts';
import type { Config } from '../supervisor/config.ts';
import type { EventLoopDelay } from '../supervisor/operations/event-loop.ts';
import { TestGateway } from '../testing/gateway.ts';
import type { NamedProcess } from '../testing/processes.ts';
import { ROOT, type Server } from './servers.ts';

export type DaemonOptions = {
  /** Kept when the daemon stops, so that another one can be started over it. */
  dataDir: string;
  config?: Partial<Config>;
  /** A free one by default. */
  port?: number;
  /** The checkout whose build is started; this one by default. */
  root?: string;
  /** Where the supervisor leaves a CPU profile when it stops. */
  profileDir?: string | undefined;
  /** Further flags of Node for the supervisor. */
  flags?: string[];
  /** What is run in place of `bin/svc.js`, with the same arguments. */
  script?: string;
  /** Added to the environment of the bench. */
  env?: Record<string, string>;
};

/** Ended before a bench that is interrupted removes their folders; their pipe closes only after that. */
const running = new Set<Daemon>();
process.once('exit', () => {
  for (const daemon of running) void daemon.kill();
});

export class Daemon extends TestGateway implements Server {
  processes: NamedProcess[] = [];

  static async start({
    dataDir,
    config = {},
    port = 0,
    root = ROOT,
    profileDir,
    flags = [],
    script,
    env = {},
  }: DaemonOptions): Promise<Daemon> {
    const configFile = join(dataDir, 'bench-config.json');
    writeFileSync(configFile, JSON.stringify({ log: 'warn', ...config }));
    const profile = profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDir}`];
    const build = { root, nodeFlags: [...flags, ...profile], ...(script === undefined ? {} : { script }) };
    const store = script === undefined && config.appsStoreRoot === undefined ? ['--store', 'tarball'] : [];
    const daemon = new Daemon(dataDir, ['--config', configFile, ...store], env, build);
    running.add(daemon);
    await daemon.start(String(port));
    await daemon.refresh();
    return daemon;
  }

  override async stop(): Promise<number | null> {
    const code = await super.stop();
    running.delete(this);
    return code;
  }

  /** One call; throws for any answer but 2xx and 304. */
  async request(
    method: string,
    path: string,
    body?: string | Buffer,
    type = 'application/json',
    headers: Record<string, string> = {},
  ): Promise<Response> {
    const response = await fetch(this.url + path, {
      method,
      headers: {
        authorization: `Bearer ${this.token}`,
        'content-type': type,
        'accept-encoding': 'identity',
        ...headers,
      },
      ...(body === undefined ? {} : { body }),
    });
    if (!response.ok && response.status !== 304)
      throw new Error(`${method} ${path} was answered ${response.status}: ${await response.text()}`);
    return response;
  }

  async readNote(app: string): Promise<void> {
    const body = JSON.stringify({ app, query: 'get', input: { id: 1 } });
    await (await this.request('POST', '/svc/_tool/svc_read', body)).text();
  }

  async writeNote(app: string): Promise<void> {
    const body = JSON.stringify({ app, action: 'put', input: { id: 1, title: 'Milk', body: 'Half a litre' } });
    await (await this.request('POST', '/svc/_tool/svc_write', body)).text();
  }

  async status(): Promise<SystemStatus> {
    return (await (await this.request('GET', '/svc/_system')).json()) as SystemStatus;
  }

  /** The delays of its event loop since the last time they were taken. */
  async takeEventLoop(): Promise<EventLoopDelay | null> {
    // A build from before the delay was shown has none.
    const { eventLoop }: { eventLoop?: EventLoopDelay } = await this.status();
    return eventLoop ?? null;
  }

  /** Learns which processes the tree has now. */
  async refresh(): Promise<SystemStatus> {
    const status = await this.status();
    this.processes = status.processes.flatMap(({ name, pid }) => (pid === null ? [] : [{ name, pid }]));
    return status;
  }
}
