/** The two servers under load, each a process of its own: the gateway's daemon and the bare edge. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { NamedProcess } from './process-usage.ts';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));
const STOP_MS = 15_000;

export type Server = { readonly port: number; readonly processes: NamedProcess[] };

/** What the bare edge answers: a status line, headers without length and date, a body; and what it sends to open streams. */
export type BareAnswer = { status: string; headers: [name: string, value: string][]; body: string; event: string };

/** A child that has said its first line. Rejects, with what it wrote on standard error, when it ends before. */
export async function startProcess(
  command: string[],
  input = '',
): Promise<{ child: ChildProcess; line: string; readyMs: number }> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, command, { cwd: ROOT, stdio: 'pipe' });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors = (errors + chunk).slice(-4096);
  });
  // A child that ended already breaks the pipe; its exit is what is reported.
  child.stdin.on('error', () => {});
  child.stdin.write(input);
  const lines = createInterface(child.stdout);
  const [line] = (await Promise.race([
    once(lines, 'line'),
    once(child, 'exit').then(([code]) => {
      throw new Error(`node ${command.join(' ')} ended with ${code} before it was ready:\n${errors}`);
    }),
  ])) as [string];
  const readyMs = performance.now() - startedAt;
  child.stdout.resume();
  return { child, line, readyMs };
}

/** Asks it to end, and kills it when it does not. */
export async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  child.stdin?.end();
  child.kill('SIGTERM');
  await gone;
  clearTimeout(timer);
}

export class BareEdge implements Server {
  readonly port: number;
  readonly processes: NamedProcess[];
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
    this.processes = [{ name: 'bare edge', pid: child.pid as number }];
  }

  static async start(answer: BareAnswer): Promise<BareEdge> {
    const command = ['--import', 'tsx', join(ROOT, 'bench/bare-edge.ts')];
    const { child, line } = await startProcess(command, `${JSON.stringify(answer)}\n`);
    return new BareEdge(child, (JSON.parse(line) as { port: number }).port);
  }

  stop(): Promise<void> {
    return stopProcess(this.#child);
  }
}
