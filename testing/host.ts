/** A user's server with an embedded gateway, in a process started as its owner would. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { ENDS_WITH_PARENT, root, TestGateway } from './gateway.ts';
import { inTime, LONG_MS } from './waiting.ts';

/** A running host. */
export class Host {
  /** Client of the gateway inside it. */
  readonly gateway: TestGateway;
  readonly #folder = mkdtempSync(join(tmpdir(), 'svc-host-'));
  readonly #child: ChildProcess;
  /** On standard error. */
  #said = '';

  /** `program` is the command line before the data directory and the port, `env` what it gets beside our environment. */
  constructor(program: string[], env: NodeJS.ProcessEnv = {}, port = '0') {
    const dataDir = join(this.#folder, 'data');
    this.gateway = new TestGateway(dataDir, []);
    this.#child = spawn(process.execPath, [ENDS_WITH_PARENT, ...program, dataDir, port], {
      cwd: root,
      env: { ...process.env, ...env, TMPDIR: this.#folder },
      // Also said where the tests run.
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child.stderr?.on('data', (text: Buffer) => {
      this.#said += text.toString();
      process.stderr.write(text);
    });
  }

  /** Waits for the line with its address. `hasToken` if the gateway checks one. */
  async listening(hasToken: boolean): Promise<void> {
    const [url] = (await inTime(
      once(createInterface({ input: this.#child.stdout! }), 'line'),
      'the address of the host',
      LONG_MS,
    )) as [string];
    this.gateway.url = url;
    if (hasToken) this.gateway.token = readFileSync(join(this.gateway.dataDir, 'token.bin'), 'utf8').trim();
  }

  /** Resolves with its exit code. */
  async end(signal: NodeJS.Signals): Promise<number | null> {
    const exit = once(this.#child, 'exit');
    this.#child.kill(signal);
    const [code] = (await inTime(exit, `the end of the host after ${signal}`, LONG_MS)) as [number | null];
    return code;
  }

  /** For one that cannot start: waits for its end. */
  async failed(): Promise<{ code: number | null; said: string }> {
    const [code] = (await inTime(once(this.#child, 'close'), 'the end of the host', LONG_MS)) as [number | null];
    return { code, said: this.#said };
  }

  async remove(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) await this.end('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
