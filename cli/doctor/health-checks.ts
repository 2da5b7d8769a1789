/** The checks of `svc doctor`: each looks at one thing and says how to fix it. None throws. */
import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname } from 'node:path';
import { DEFAULTS, LIMITS } from '../../protocol/limits.ts';
import { Layout } from '../../storage/layout.ts';
import { closeToOthers, openToOthers } from '../../storage/private-tree.ts';
import type { SystemStatus } from '../../supervisor/operations/status.ts';
import { GatewayError } from '../failure.ts';
import { Client } from '../gateway/client.ts';
import {
  profileFile,
  readDaemonFile,
  readJsonFile,
  readTextFile,
  type Surroundings,
  shortPath,
} from '../gateway/data-directory.ts';
import { shellPath } from '../terminal/shell.ts';
import { formatBytes, formatDuration } from '../terminal/units.ts';

/** `warning`: it works, but not as well or as safely as it could. `problem`: it does not work. */
export type Check = { name: string; state: 'ok' | 'warning' | 'problem'; finding: string; fix?: string };

const MIN_NODE = [20, 19] as const;
/** Permission bits of everybody but the owner. */
const OTHERS = 0o077;

export function checkNode(version: string): Check {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const enough = major > MIN_NODE[0] || (major === MIN_NODE[0] && minor >= MIN_NODE[1]);
  const finding = `Node ${version}`;
  if (enough) return { name: 'Node', state: 'ok', finding };
  return { name: 'Node', state: 'problem', finding, fix: `Install Node ${MIN_NODE.join('.')} or newer.` };
}

export async function checkSqlite(): Promise<Check> {
  const name = 'SQLite';
  try {
    const { default: Database } = await import('better-sqlite3');
    const db = new Database(':memory:');
    const version = db.prepare('SELECT sqlite_version()').pluck().get() as string;
    db.close();
    return { name, state: 'ok', finding: `better-sqlite3 loads, SQLite ${version}` };
  } catch (error) {
    return {
      name,
      state: 'problem',
      finding: `better-sqlite3 does not load: ${firstLine(error)}`,
      fix: 'Run: npm rebuild better-sqlite3',
    };
  }
}

export async function checkEdge(): Promise<Check> {
  const name = 'edge';
  try {
    await import('uWebSockets.js');
    return { name, state: 'ok', finding: 'uWebSockets.js loads' };
  } catch {
    return {
      name,
      state: 'warning',
      finding: 'uWebSockets.js does not load here; node:http serves instead, which takes more CPU for each call',
      fix: 'Use Node 20, for which its binary is installed, or install a build for this Node.',
    };
  }
}

/** The folder and its token: writable by us, closed to others. */
export function checkDataDirectory(dataDirectory: string, surroundings: Surroundings): Check[] {
  const name = 'data directory';
  const shown = shortPath(dataDirectory, surroundings);
  if (!existsSync(dataDirectory)) {
    const parent = existingParent(dataDirectory);
    if (isWritable(parent)) return [{ name, state: 'ok', finding: `${shown} is made by the first svc serve` }];
    return [
      {
        name,
        state: 'problem',
        finding: `${shown} cannot be made: ${parent} is not writable`,
        fix: 'Choose another: --data-dir',
      },
    ];
  }
  if (!isWritable(dataDirectory)) {
    return [
      {
        name,
        state: 'problem',
        finding: `${shown} is not writable`,
        fix: `Give it to the user of the gateway: chown -R $USER ${shown}`,
      },
    ];
  }
  const token = new Layout(dataDirectory).token;
  return [
    closedToOthers(name, dataDirectory, `${shown} is writable`, `chmod 700 ${shown}`),
    ...(existsSync(token)
      ? [closedToOthers('token', token, 'token.bin is there', `chmod 600 ${shown}/token.bin`)]
      : []),
  ];
}

/** The files and folders in it, which older versions and other programs may have left open. `mend` closes them. */
export function checkPrivacy(dataDirectory: string, mend: boolean, surroundings: Surroundings): Check[] {
  const name = 'data files';
  if (!existsSync(dataDirectory)) return [];
  const shown = (path: string) => shortPath(path, surroundings);
  const open = openToOthers(dataDirectory);
  const first = open[0];
  if (first === undefined) return [{ name, state: 'ok', finding: 'closed to other users' }];
  const which = `${shown(first)}${open.length > 1 ? ` and ${open.length - 1} more` : ''}`;
  if (!mend) {
    const finding = `other users can open ${which}`;
    return [{ name, state: 'warning', finding, fix: 'Run: svc doctor --mend' }];
  }
  try {
    for (const path of open) closeToOthers(path);
  } catch (error) {
    const fix = `Run as the owner of the files: chmod -R go-rwx ${shown(dataDirectory)}`;
    return [{ name, state: 'problem', finding: `cannot be closed to other users: ${firstLine(error)}`, fix }];
  }
  return [{ name, state: 'ok', finding: `closed to other users now: ${which}` }];
}

function closedToOthers(name: string, path: string, finding: string, command: string): Check {
  if ((statSync(path).mode & OTHERS) === 0) return { name, state: 'ok', finding };
  return { name, state: 'warning', finding: `${finding}, but other users can open it`, fix: `Run: ${command}` };
}

export function checkDisk(dataDirectory: string, surroundings: Surroundings): Check {
  const disk = statfsSync(existingParent(dataDirectory));
  const free = disk.bavail * disk.bsize;
  const finding = `${formatBytes(free)} free`;
  if (free >= LIMITS.lowDiskBytes) return { name: 'disk', state: 'ok', finding };
  const shown = shortPath(dataDirectory, surroundings);
  return {
    name: 'disk',
    state: 'warning',
    finding: `only ${finding}`,
    fix: `Make room: removed apps wait in ${shown}/trash.`,
  };
}

export function checkProfile(surroundings: Surroundings): Check {
  const name = 'profile';
  const file = profileFile(surroundings);
  const shown = shortPath(file, surroundings);
  if (!existsSync(file)) return { name, state: 'ok', finding: 'none; commands talk to the local gateway' };
  try {
    const profile = readJsonFile(file) as { url?: unknown; token?: unknown } | null;
    if (typeof profile?.url !== 'string')
      return { name, state: 'problem', finding: `${shown} has no "url"`, fix: 'Add it, or remove the file.' };
    const finding = `${shown} points to ${profile.url}`;
    if (profile.token === undefined) return { name, state: 'ok', finding };
    return closedToOthers(name, file, finding, `chmod 600 ${shown}`);
  } catch {
    return { name, state: 'problem', finding: `${shown} is not valid JSON`, fix: 'Correct it, or remove it.' };
  }
}

/** States of a process that should run and does not. */
const DOWN = new Set(['backoff', 'failed']);

/** The gateway that says it runs on this directory: does it answer, and to our token? With its MCP servers that failed. */
export async function checkDaemon(dataDirectory: string, surroundings: Surroundings): Promise<Check[]> {
  const shown = shortPath(dataDirectory, surroundings);
  const daemon = readDaemonFile(dataDirectory);
  if (daemon === null) return [{ name: 'gateway', state: 'ok', finding: `none is running on ${shown}` }];
  const token = readTextFile(new Layout(dataDirectory).token) ?? undefined;
  const client = new Client({ url: daemon.url, urlFrom: shown, token, tokenFrom: 'token.bin' });
  try {
    const status = await client.get<SystemStatus>('/svc/_system', LIMITS.helloMs);
    return [judgeProcesses(daemon.url, status), ...judgeToolServers(status)];
  } catch (error) {
    return [judgeSilence(daemon, shown, error)];
  }
}

function judgeProcesses(url: string, status: SystemStatus): Check {
  const name = 'gateway';
  const down = status.processes.find(({ state, lastExit }) => lastExit !== null && DOWN.has(state));
  if (down !== undefined) {
    return {
      name,
      state: 'problem',
      finding: `${down.name} of ${url} does not stay up: ${down.lastExit}`,
      fix: 'The gateway logged the details where it runs (standard error of svc serve).',
    };
  }
  return {
    name,
    state: 'ok',
    finding: `${status.version} answers at ${url}, up ${formatDuration(status.uptimeMs)}, edge ${status.edge}`,
  };
}

/** Each is a warning: only automations that call its tools miss it. */
function judgeToolServers({ toolServers }: SystemStatus): Check[] {
  return toolServers
    .filter(({ state }) => state === 'failed')
    .map(({ name, lastError }) => ({
      name: 'MCP server',
      state: 'warning',
      finding: `${name} failed: ${lastError ?? 'it did not say why'}`,
      fix: `Look at mcpServers.${name} in the configuration. It is tried again when an automation calls it.`,
    }));
}

function judgeSilence(daemon: { url: string; pid: number }, shown: string, error: unknown): Check {
  const name = 'gateway';
  if (error instanceof GatewayError && error.status === 401) {
    return {
      name,
      state: 'problem',
      finding: `${daemon.url} does not take the token of ${shown}`,
      fix: 'Run: svc token rotate',
    };
  }
  if (error instanceof GatewayError) {
    return {
      name,
      state: 'problem',
      finding: `${daemon.url} answers ${error.body.code}: ${error.message}`,
      fix: 'The gateway logged the details where it runs (standard error of svc serve).',
    };
  }
  return {
    name,
    state: 'warning',
    finding: `${daemon.url} (pid ${daemon.pid}) does not answer; it has probably ended without a goodbye`,
    fix: `Start it again: svc serve --data-dir ${shellPath(shown)}`,
  };
}

export async function checkPort(port: number, dataDirectory: string): Promise<Check> {
  const name = 'port';
  const daemon = readDaemonFile(dataDirectory);
  const code = await listenOnce(port);
  if (code === null) return { name, state: 'ok', finding: `${port} is free` };
  if (daemon !== null && Number(new URL(daemon.url).port) === port)
    return { name, state: 'ok', finding: `${port} is the gateway's` };
  if (code !== 'EADDRINUSE')
    return {
      name,
      state: 'warning',
      finding: `${port} cannot be had (${code})`,
      fix: 'Choose another: svc serve --port 0',
    };
  return {
    name,
    state: 'warning',
    finding: `${port} is used by something else`,
    fix: 'Choose another: svc serve --port 0 takes any free one.',
  };
}

/** Null when the port can be had, else the error's code. */
function listenOnce(port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'unknown'));
    server.listen(port, DEFAULTS.host, () => server.close(() => resolve(null)));
  });
}

function existingParent(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : existingParent(dirname(path));
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function firstLine(error: unknown): string {
  return String((error as Error).message).split('\n')[0] as string;
}
