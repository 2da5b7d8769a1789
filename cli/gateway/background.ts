/** Finds the gateway that runs on a data directory of this machine, or starts one that outlives the command. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import { makeFolder } from '../../storage/files/make-folder.ts';
import { Layout } from '../../storage/layout.ts';
import { lockHolder } from '../../storage/processes/data-lock.ts';
import { compareIdentity, identityOf, type ProcessIdentity } from '../../storage/processes/process-identity.ts';
import { CommandError, UnreachableError } from '../failure.ts';
import { shortPath } from '../terminal/paths.ts';
import { Client } from './client.ts';
import { daemonOf, readJsonFile, type Surroundings } from './connection.ts';

/** The log of a gateway that no terminal shows, in its data directory. */
export const GATEWAY_LOG = 'gateway.log';
const POLL_MS = 50;
/** Whose a data directory is, by `kind` in `profile.json`. */
const HOSTS = {
  daemon: 'svc serve',
  desktop: 'the desktop program',
  plugin: 'a gateway inside another program',
};

/** `started`: by this call. `version` is that of the gateway's package. */
export type Found = { client: Client; pid: number; version: string; started: boolean };

/** How a host starts its gateways. */
export type Launcher = {
  kind: 'daemon' | 'desktop';
  /** Starts one that says on its standard output what `svc serve --json` does. `log` is a file for its standard error. */
  launch(log: number): ChildProcess;
  /** What to do where the data directory cannot be used. */
  another: string;
};

/** What a gateway said that could not start; `code` is its own. */
export class StartError extends CommandError {
  override readonly code: string;

  constructor(message: string, hint: string[], code: string) {
    super(message, hint);
    this.code = code;
  }
}

/** The gateway of a data directory. Throws `CommandError` with what it said where it does not start. */
export async function findOrStart(
  dataDirectory: string,
  launcher: Launcher,
  surroundings: Surroundings,
): Promise<Found> {
  checkKind(dataDirectory, launcher, surroundings);
  const { lock } = new Layout(dataDirectory);
  for (const until = Date.now() + LIMITS.childStartMs; ; await sleep(POLL_MS)) {
    const found = await running(dataDirectory, surroundings);
    if (found !== null) return { ...found, started: false };
    const holder = lockHolder(lock);
    if (holder !== null) {
      if (Date.now() < until) continue;
      throw new CommandError(
        `Another program (pid ${holder}) uses ${shortPath(dataDirectory, surroundings)}, and no gateway answers there.`,
        `Look what it is. ${launcher.another}`,
      );
    }
    try {
      await start(dataDirectory, launcher, surroundings);
    } catch (error) {
      // Another program may have started one at the same moment.
      if (lockHolder(lock) === null) throw error;
      continue;
    }
    const own = await running(dataDirectory, surroundings);
    if (own !== null) return { ...own, started: true };
  }
}

/** The one that runs and answers; null for none. */
export async function running(
  dataDirectory: string,
  surroundings: Surroundings,
): Promise<Omit<Found, 'started'> | null> {
  const daemon = daemonOf(dataDirectory, surroundings);
  if (daemon === null) return null;
  const client = new Client(daemon);
  try {
    await client.call('GET /svc/_health', {}, { timeoutMs: LIMITS.helloMs });
    return { client, pid: daemon.pid, version: daemon.version };
  } catch (error) {
    // The file of a gateway that was killed.
    if (error instanceof UnreachableError) return null;
    throw error;
  }
}

/** The gateway that `findOrStart` started here last, whether or not it runs. */
export function lastStarted(dataDirectory: string): ProcessIdentity | null {
  return readJsonFile(new Layout(dataDirectory).startedDaemon) as ProcessIdentity | null;
}

/** Asks a gateway to stop, and resolves when its process has ended. Throws `CommandError` when that takes too long. */
export async function stopAndWait(gateway: ProcessIdentity): Promise<void> {
  const { pid } = gateway;
  if (compareIdentity(gateway) === 'gone') return;
  process.kill(pid, 'SIGTERM');
  const until = Date.now() + LIMITS.drainMs + LIMITS.childStartMs;
  while (compareIdentity(gateway) !== 'gone') {
    if (Date.now() > until)
      throw new CommandError(`The gateway (pid ${pid}) has not ended.`, `End it now: kill -9 ${pid}`);
    await sleep(POLL_MS);
  }
}

function checkKind(dataDirectory: string, { kind, another }: Launcher, surroundings: Surroundings): void {
  let found: unknown;
  try {
    found = (readJsonFile(new Layout(dataDirectory).profile) as { kind?: unknown } | null)?.kind;
  } catch {
    // A damaged profile says nothing; the gateway leaves it alone too.
  }
  if (found === kind || typeof found !== 'string' || !Object.hasOwn(HOSTS, found)) return;
  const host = HOSTS[found as keyof typeof HOSTS];
  throw new CommandError(`The data directory ${shortPath(dataDirectory, surroundings)} belongs to ${host}.`, another);
}

/** Resolves when it accepts requests. */
async function start(dataDirectory: string, { launch }: Launcher, surroundings: Surroundings): Promise<void> {
  makeFolder(dataDirectory);
  const logFile = join(dataDirectory, GATEWAY_LOG);
  const log = openSync(logFile, 'a', 0o600);
  const child = launch(log);
  closeSync(log);
  const output = child.stdio[1] as Readable;
  const lines = createInterface({ input: output });
  const [line] = (await Promise.race([once(lines, 'line'), once(lines, 'close'), once(child, 'error')])) as [unknown];
  if (line instanceof Error) throw line;
  type Said = { event?: string; pid: number; error?: { code: string; message: string; hint?: string } };
  const { event, pid, error } = said(line) as Said;
  output.destroy();
  child.unref();
  if (event === 'ready') {
    writeFileSync(new Layout(dataDirectory).startedDaemon, JSON.stringify(identityOf(pid)), { mode: 0o600 });
    return;
  }
  if (error !== undefined)
    throw new StartError(error.message, (error.hint ?? '').split('\n').filter(Boolean), error.code);
  throw new CommandError(
    'The gateway ended before it was ready.',
    `Its log says why: ${shortPath(logFile, surroundings)}`,
  );
}

/** Its first line, unless that is something else. */
function said(line: unknown): object {
  try {
    return JSON.parse(String(line)) as object;
  } catch {
    return {};
  }
}
