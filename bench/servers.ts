/** What the gateway is measured beside, each a process of its own: the bare edge, the plain server, the busy loop. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import type { NamedProcess } from '../testing/processes.ts';
import type { Durability } from './notes.ts';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));
const STOP_MS = 15_000;

export type Server = { readonly port: number; readonly processes: NamedProcess[] };

/** What the bare edge answers: a status line, headers without length and date, a body (base64); and what it sends to open streams. */
export type BareAnswer = {
  status: string;
  headers: [name: string, value: string][];
  body: string;
  event: string;
};

const REFERENCES = ['bare-edge', 'plain-server', 'busy-loop'] as const;
type Reference = (typeof REFERENCES)[number];
/** Below the checkout, so that packages are found from there. */
const COMPILED = join(ROOT, `bench/results/.references-${process.pid}`);
let compiling: Promise<unknown> | null = null;

/** The JavaScript of a reference: it starts as fast as what it is compared with, and runs no compiler of its own. */
async function compiled(name: Reference): Promise<string> {
  compiling ??= build({
    absWorkingDir: ROOT,
    entryPoints: REFERENCES.map((reference) => `bench/${reference}.ts`),
    outdir: COMPILED,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20.19',
    packages: 'external',
  }).then(() => process.once('exit', () => rmSync(COMPILED, { recursive: true, force: true })));
  await compiling;
  return join(COMPILED, `${name}.mjs`);
}

const alive = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of alive) child.kill();
});

type ProcessOptions = { input?: string; program?: string; env?: Record<string, string> };

/**
 * A child that has said its first line: Node with these arguments, or another `program`. Rejects, with what it wrote on
 * standard error, when it ends before.
 */
async function startProcess(
  command: string[],
  { input = '', program = process.execPath, env = {} }: ProcessOptions = {},
): Promise<{ child: ChildProcess; line: string }> {
  const child = spawn(program, command, { cwd: ROOT, stdio: 'pipe', env: { ...process.env, ...env } });
  alive.add(child);
  child.once('exit', () => alive.delete(child));
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
      throw new Error(`${program} ${command.join(' ')} ended with ${code} before it was ready:\n${errors}`);
    }),
  ])) as [string];
  child.stdout.resume();
  return { child, line };
}

/** Asks it to end, and kills it when it does not. */
async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  child.stdin?.end();
  child.kill('SIGTERM');
  await gone;
  clearTimeout(timer);
}

/** A reference that answers HTTP. */
export type ReferenceServer = Server & { stop(): Promise<void> };

export async function startBareEdge(answer: BareAnswer): Promise<ReferenceServer> {
  return startServer('bare edge', [await compiled('bare-edge')], { input: `${JSON.stringify(answer)}\n` });
}

/** Keeps its databases and files in `folder`. */
export async function startPlain(folder: string, durability: Durability, env = {}): Promise<ReferenceServer> {
  return startServer('plain server', [await compiled('plain-server'), folder, durability], { env });
}

/** A server that says on its first line, as JSON, at which `port` it is. */
export async function startServer(name: string, command: string[], options: ProcessOptions): Promise<ReferenceServer> {
  const { child, line } = await startProcess(command, options);
  const { port } = JSON.parse(line) as { port: number };
  return { port, processes: [{ name, pid: child.pid as number }], stop: () => stopProcess(child) };
}

/** Somebody else's program that computes, at the lowest priority: so many milliseconds in each `everyMs`. What it gives ends it. */
export async function startBusyLoop(busyMs: number, everyMs: number): Promise<() => Promise<void>> {
  const { child } = await startProcess([await compiled('busy-loop'), String(busyMs), String(everyMs)]);
  return () => stopProcess(child);
}
