/** Finds the process that listens on a TCP port. All is read from `/proc`; where there is none, nothing is found. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** `command` is its command line, `cwd` and `env` as far as they are readable; `env` is empty for other users' processes. */
export type Listener = { pid: number; command: string[]; cwd: string; env: Record<string, string> };

const LISTENING = '0A';

/** Null when this user can see none. */
export function listenerOn(port: number): Listener | null {
  const sockets = new Set(['tcp', 'tcp6'].flatMap((table) => socketsIn(`/proc/net/${table}`, port)));
  if (sockets.size === 0) return null;
  const pid = namesIn('/proc').find((name) => /^\d+$/.test(name) && holdsAny(name, sockets));
  if (pid === undefined) return null;
  const env = read(`/proc/${pid}/environ`).split('\0').filter(Boolean);
  return {
    pid: Number(pid),
    command: read(`/proc/${pid}/cmdline`).split('\0').slice(0, -1),
    cwd: linkOf(`/proc/${pid}/cwd`),
    env: Object.fromEntries(env.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)])),
  };
}

/** What a link to such a socket says: `socket:[4026]`. */
function socketsIn(table: string, port: number): string[] {
  const wanted = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return read(table)
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, , state]) => local?.endsWith(wanted) && state === LISTENING)
    .map((fields) => `socket:[${fields[9]}]`);
}

function holdsAny(pid: string, sockets: ReadonlySet<string>): boolean {
  const folder = `/proc/${pid}/fd`;
  return namesIn(folder).some((fd) => sockets.has(linkOf(`${folder}/${fd}`)));
}

/** Empty for a process that ended or belongs to another user. */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}
