/** Runs `svc serve` as a user would, in a data directory of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

export type Daemon = {
  url: string;
  token: string;
  /** Ends it and removes its data. */
  stop(): Promise<void>;
};

/** Resolves once it accepts requests; `examples` are folders below `examples/` that it installs. */
export async function startDaemon(examples: string[]): Promise<Daemon> {
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-browser-'));
  const install = examples.flatMap((name) => ['--with', join(root, 'examples', name)]);
  const child = spawn(
    process.execPath,
    [join(root, 'bin/svc.js'), 'serve', '--data-dir', dataDir, '--port', '0', '--json', ...install],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const stop = async (): Promise<void> => {
    await ended(child);
    await rm(dataDir, { recursive: true, force: true });
  };
  try {
    const { url, token } = await readyLine(child);
    return { url, token, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function readyLine(child: ChildProcess): Promise<{ url: string; token: string }> {
  for await (const line of createInterface({ input: child.stdout! })) {
    child.stdout!.resume();
    return JSON.parse(line) as { url: string; token: string };
  }
  throw new Error('The daemon ended before it was ready.');
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  await exit;
}
