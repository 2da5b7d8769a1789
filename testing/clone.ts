/** A folder like a clone of the project with the gateway of `npm start` running on it, for the documents. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { COMMAND_SCRIPT } from './command-server.ts';
import { ENDS_WITH_PARENT, root } from './gateway.ts';
import type { ModelStub } from './model-stub.ts';
import { inTime, LONG_MS } from './waiting.ts';

export const PROGRAMS_FOLDER: string = join(root, 'scripts/agents/node_modules/.bin');
/** Environment variables of the documents. */
const ADDRESS = '127.0.0.1:8787';
/** That of `npm start`. */
const DATA_DIR = '.svc';
export const MODEL_ADDRESS = '127.0.0.1:11434';
/** Documents run programs of other vendors, unless this run of the tests leaves them out (scripts/parts.mjs). */
export const RUNS_PROGRAMS: boolean = !process.env.SVC_TEST_LEAVE_OUT?.split(',').includes('agents');
const packageJson = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** Commands that work on the clone as a whole: they do not run here, but the things that they name must exist. */
const CLONE_COMMANDS: [pattern: RegExp, check: (script: string) => void][] = [
  [/^npm (?:ci|link)$/, () => {}],
  [/^npm (start|test)$/, isScript],
  [/^npm run ([\w-]+)(?: -- .*)?$/, isScript],
];

function isScript(name: string): void {
  assert.ok(Object.hasOwn(packageJson.scripts, name), `package.json has no script "${name}"`);
}

/** Whether a line is made of such commands; checks them. */
function isAboutClone(line: string): boolean {
  return line.split(' && ').every((command) =>
    CLONE_COMMANDS.some(([pattern, check]) => {
      const match = pattern.exec(command.replace(/\s*#.*$/, '').trim());
      if (match) check(match[1] ?? '');
      return match !== null;
    }),
  );
}

const EXECUTABLE = '#!/bin/sh\nexec node $NODE_FLAGS "$(dirname "$0")/../bin/svc.js" "$@"\n';

/** A folder in which the documents' commands work as written. */
export class Clone {
  readonly folder = mkdtempSync(join(tmpdir(), 'svc-docs-'));
  readonly #env: NodeJS.ProcessEnv;
  readonly #host: Clone | null;
  #daemon: ChildProcess | null = null;
  #address = ADDRESS;
  #modelAddress = MODEL_ADDRESS;

  /** Its agents ask this server instead of their vendors'. */
  useModel({ url }: ModelStub): void {
    this.#modelAddress = new URL(url).host;
    Object.assign(this.#env, {
      OPENAI_BASE_URL: `${url}/v1`,
      OPENAI_API_KEY: 'key',
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: 'key',
    });
  }

  /**
   * Its commands use the gateway of `host`, if there is one. `svc` runs in the process of the test, or is a program, as where other
   * programs run it.
   */
  constructor(host: Clone | null = null, isProgram = false) {
    this.#host = host;
    if (host) symlinkSync(join(host.folder, DATA_DIR), join(this.folder, DATA_DIR));
    symlinkSync(join(root, 'bin'), join(this.folder, 'bin'));
    // A push writes into the folder of an app.
    for (const name of ['examples', 'templates'])
      cpSync(join(root, name), join(this.folder, name), {
        recursive: true,
        filter: (path) => !path.endsWith('.svc-app'),
      });
    mkdirSync(join(this.folder, 'node_modules'));
    symlinkSync(root, join(this.folder, 'node_modules', packageJson.name));
    const commands = join(this.folder, '.commands');
    mkdirSync(commands);
    writeFileSync(join(commands, 'svc'), isProgram ? EXECUTABLE : COMMAND_SCRIPT, { mode: 0o755 });
    // The daemon's sockets are in the folder too, and are removed with it.
    this.#env = {
      PATH: `${commands}:${dirname(process.execPath)}:${PROGRAMS_FOLDER}:${process.env.PATH}`,
      HOME: this.folder,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      TMPDIR: this.folder,
    };
  }

  /** Runs `npm start` without its build. */
  async start(): Promise<void> {
    const [build, serve, ...rest] = packageJson.scripts.start.split(' && ');
    assert.deepEqual([build, rest], ['npm run --silent build', []]);
    await this.#serve(serve);
  }

  /** Runs the gateway that a document starts, instead of the previous one. */
  async serve(script: string): Promise<void> {
    const lines = script.trim().split('\n');
    const command = lines.pop() ?? '';
    assert.match(command, /^svc serve( |$)/);
    for (const line of lines) {
      const [, name, value] = /^export (\w+)=(\S+)$/.exec(line) ?? [];
      if (name === undefined) await this.run(line);
      else this.#env[name] = value;
    }
    await this.#stop();
    await this.#serve(command);
  }

  /** On any free port. */
  async #serve(command: string): Promise<void> {
    this.#daemon = spawn('bash', ['-c', `exec ${command.replace(/^node /, 'node $NODE_FLAGS ')} --port 0 --json`], {
      cwd: this.folder,
      env: { ...this.#env, NODE_FLAGS: ENDS_WITH_PARENT },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    const lines = createInterface({ input: this.#daemon.stdout! })[Symbol.asyncIterator]();
    const { value, done } = await inTime(lines.next(), `the start of ${command}`, LONG_MS);
    assert.ok(!done, `${command} did not start a gateway`);
    this.#address = new URL(JSON.parse(value).url).host;
  }

  async #stop(): Promise<void> {
    if (!this.#daemon) return;
    const exit = once(this.#daemon, 'exit');
    this.#daemon.kill('SIGTERM');
    assert.deepEqual(
      await inTime(exit, 'the end of the gateway', LONG_MS),
      [0, null],
      'the gateway did not stop cleanly',
    );
    this.#daemon = null;
  }

  write(path: string, text: string): void {
    const file = join(this.folder, path);
    assert.ok(file.startsWith(join(this.folder, '/')), `${path} leads out of the folder`);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, this.#here(text));
  }

  /**
   * Runs the lines that are not about the clone itself; resolves with their output, fails with everything that they
   * printed.
   */
  async run(script: string): Promise<string> {
    const lines = script.split('\n').filter((line) => line.trim() !== '' && !isAboutClone(line));
    if (lines.length === 0) return '';
    const shell = spawn('bash', ['-euo', 'pipefail', '-c', this.#here(lines.join('\n'))], {
      cwd: this.folder,
      env: this.#env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [printed, answered] = ['', ''];
    shell.stdout.on('data', (chunk) => (answered += chunk));
    for (const output of [shell.stdout, shell.stderr]) output.on('data', (chunk) => (printed += chunk));
    const [code] = (await inTime(once(shell, 'close'), lines.join('\n'), LONG_MS)) as [number | null];
    assert.equal(code, 0, printed);
    return answered;
  }

  #here(text: string): string {
    return text.replaceAll(ADDRESS, (this.#host ?? this).#address).replaceAll(MODEL_ADDRESS, this.#modelAddress);
  }

  /** Leaves the gateway of its host with the apps that it had when it started. */
  async #clean(): Promise<void> {
    for (const { id } of JSON.parse(await this.run('svc apps --json')) as { id: string }[])
      await this.run(`svc rm ${id} --yes && svc trash empty ${id} --yes`);
    await this.run('svc push templates/todos');
  }

  async remove(): Promise<void> {
    if (this.#host) await this.#clean();
    await this.#stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
