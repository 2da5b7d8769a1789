/** Finds the gateway that runs on a data directory of this machine, or starts one that outlives the command. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import { makeFolder } from '../../storage/files/make-folder.ts';
import { Layout } from '../../storage/layout.ts';
import { lockHolder } from '../../storage/processes/data-lock.ts';
import { compareIdentity, identityOf, type ProcessIdentity } from '../../storage/processes/process-identity.ts';
import { packageRoot } from '../../supervisor/tree/entry-points.ts';
import { CommandError, UnreachableError } from '../failure.ts';
import { shortPath } from '../terminal/paths.ts';
import { Client } from './client.ts';
import { daemonOf, readJsonFile, type Surroundings } from './connection.ts';

const LOG = 'gateway.log';
const POLL_MS = 50;
/** Hosts whose directories this command leaves alone, by `kind` in `profile.json`. */
const OTHER_HOSTS: Record<string, string> = {
  desktop: 'the desktop program',
  plugin: 'a gateway inside another program',
};

/** `started`: by this call. */
export type Found = { client: Client; pid: number; started: boolean };

/** `options` are those of `svc serve`, for a gateway that is started. Throws `CommandError` with what it said. */
export async function findOrStart(
  dataDirectory: string,
  options: string[],
  surroundings: Surroundings,
): Promise<Found> {
  checkKind(dataDirectory, surroundings);
  const { lock } = new Layout(dataDirectory);
  for (const until = Date.now() + LIMITS.childStartMs; ; await sleep(POLL_MS)) {
    const found = await running(dataDirectory, surroundings);
    if (found !== null) return { ...found, started: false };
    const holder = lockHolder(lock);
    if (holder !== null) {
      if (Date.now() < until) continue;
      throw new CommandError(
        `Another program (pid ${holder}) uses ${shortPath(dataDirectory, surroundings)}, and no gateway answers there.`,
        'Look what it is, or name another directory: svc desktop --data-dir <dir>',
      );
    }
    try {
      await start(dataDirectory, options, surroundings);
    } catch (error) {
      // Another command may have started one at the same moment.
      if (lockHolder(lock) === null) throw error;
      continue;
    }
    const own = await running(dataDirectory, surroundings);
    if (own !== null) return { ...own, started: true };
  }
}

/** Stops the gateway that `findOrStart` started; null where none runs. Throws `CommandError` for one that was started elsewhere. */
export async function stopStarted(dataDirectory: string, surroundings: Surroundings): Promise<number | null> {
  const found = await running(dataDirectory, surroundings);
  if (found === null) return null;
  const { pid } = found;
  const started = readJsonFile(new Layout(dataDirectory).startedDaemon) as ProcessIdentity | null;
  if (started?.pid !== pid || compareIdentity(started) === 'gone')
    throw new CommandError(
      `The gateway (pid ${pid}) was not started by svc desktop, and keeps running.`,
      'Stop it where it was started: Ctrl-C in its terminal, or with the service manager.',
    );
  process.kill(pid, 'SIGTERM');
  const until = Date.now() + LIMITS.drainMs + LIMITS.childStartMs;
  while (compareIdentity(started) !== 'gone') {
    if (Date.now() > until)
      throw new CommandError(`The gateway (pid ${pid}) has not ended.`, `End it now: kill -9 ${pid}`);
    await sleep(POLL_MS);
  }
  return pid;
}

async function running(dataDirectory: string, surroundings: Surroundings): Promise<Omit<Found, 'started'> | null> {
  const daemon = daemonOf(dataDirectory, surroundings);
  if (daemon === null) return null;
  const client = new Client(daemon);
  try {
    await client.get('/svc/_health', LIMITS.helloMs);
    return { client, pid: daemon.pid };
  } catch (error) {
    // The file of a gateway that was killed.
    if (error instanceof UnreachableError) return null;
    throw error;
  }
}

function checkKind(dataDirectory: string, surroundings: Surroundings): void {
  const { profile } = new Layout(dataDirectory);
  let kind: unknown;
  try {
    kind = (readJsonFile(profile) as { kind?: unknown } | null)?.kind;
  } catch {
    // A damaged profile says nothing; the gateway leaves it alone too.
  }
  const host = typeof kind === 'string' && Object.hasOwn(OTHER_HOSTS, kind) ? OTHER_HOSTS[kind] : undefined;
  if (host === undefined) return;
  throw new CommandError(
    `The data directory ${shortPath(dataDirectory, surroundings)} belongs to ${host}.`,
    'Open it there, or name another one: svc desktop --data-dir <dir>',
  );
}

/** Resolves when it accepts requests. */
async function start(dataDirectory: string, options: string[], surroundings: Surroundings): Promise<void> {
  makeFolder(dataDirectory);
  const log = openSync(join(dataDirectory, LOG), 'a', 0o600);
  const words = ['serve', '--json', '--data-dir', dataDirectory, ...options];
  const child = spawn(process.execPath, [join(packageRoot, 'bin', 'svc.js'), ...words], {
    cwd: [surroundings.env.HOME ?? homedir(), '/'].find((folder) => existsSync(folder)),
    env: surroundings.env,
    detached: true,
    stdio: ['ignore', 'pipe', log],
  });
  closeSync(log);
  const output = child.stdio[1] as Readable;
  const lines = createInterface({ input: output });
  const [line] = (await Promise.race([once(lines, 'line'), once(lines, 'close')])) as [string?];
  type Said = { event?: string; pid: number; error?: { message: string; hint?: string } };
  const { event, pid, error } = JSON.parse(line ?? '{}') as Said;
  output.destroy();
  child.unref();
  if (event === 'ready') {
    writeFileSync(new Layout(dataDirectory).startedDaemon, JSON.stringify(identityOf(pid)), { mode: 0o600 });
    return;
  }
  const { message, hint = '' } = error ?? {};
  if (message !== undefined) throw new CommandError(message, hint.replaceAll('svc serve', 'svc desktop').split('\n'));
  throw new CommandError(
    'The gateway ended before it was ready.',
    `Its log says why: ${shortPath(join(dataDirectory, LOG), surroundings)}`,
  );
}
