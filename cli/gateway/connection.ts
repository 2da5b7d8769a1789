/**
 * Which gateway a command talks to, with which token (specification, "Address and token"), and where a gateway of this machine
 * keeps its data.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { count, object, text, textOrNull } from '../../protocol/shapes/schema.ts';
import { type Fault, shape } from '../../protocol/shapes/shape.ts';
import { Layout } from '../../storage/layout.ts';
import { lockHolder } from '../../storage/processes/data-lock.ts';
import { ENCRYPTED } from '../../storage/token.ts';
import { CommandError, reasonOf, UnreachableError, UsageError } from '../failure.ts';
import { shellPath, shortPath } from '../terminal/paths.ts';

/** The inputs of the rules below, so that a test can replace the machine. */
export type Surroundings = { env: NodeJS.ProcessEnv; cwd: string; platform: NodeJS.Platform };

export type ConnectionFlags = { url?: string | undefined; token?: string | undefined; dataDir?: string | undefined };

/**
 * `urlFrom` and `tokenFrom` say where each was found; errors repeat it. `pid` is that of a gateway which was found in a data
 * directory of this machine.
 */
export type Connection = { url: string; urlFrom: string; token: string | undefined; tokenFrom: string; pid?: number };

const PROFILE = shape(object({}, { url: text, token: textOrNull, tokenFile: text }));
const DAEMON = shape(object({ url: text, pid: count, version: text }));

/** The data directory of the current folder, or of one above it, made by `svc serve --data-dir .svc`. */
const LOCAL_DIRECTORY = '.svc';

/**
 * The address: `--url`, a `--data-dir` on the command line, `SVC_URL`, the profile, then the daemon of the default data
 * directory. The token belongs to where the address came from: `--token` goes anywhere, `SVC_TOKEN` to an address from `--url` or
 * `SVC_URL`, one of a profile or a data directory to its own address only. Throws `UnreachableError` when no address is known.
 */
export function resolveConnection(flags: ConnectionFlags, surroundings: Surroundings): Connection {
  const { SVC_URL, SVC_TOKEN } = surroundings.env;
  const found = findAddress(flags, surroundings);
  if (flags.token !== undefined) return { ...found, token: flags.token, tokenFrom: '--token' };
  const isNamed = flags.url !== undefined || (flags.dataDir === undefined && Boolean(SVC_URL));
  return SVC_TOKEN && isNamed ? { ...found, token: SVC_TOKEN, tokenFrom: 'SVC_TOKEN' } : found;
}

/** Whether the gateway is looked for in a data directory of this machine, and nowhere else. */
export function resolvesToHere({ url, dataDir }: ConnectionFlags, surroundings: Surroundings): boolean {
  if (url !== undefined) return false;
  return dataDir !== undefined || (!surroundings.env.SVC_URL && profileOf(surroundings) === null);
}

function findAddress({ url, dataDir }: ConnectionFlags, surroundings: Surroundings): Connection {
  const { env, cwd } = surroundings;
  if (url !== undefined) return withOwnToken(url, '--url', surroundings);
  if (dataDir === undefined && env.SVC_URL) return withOwnToken(env.SVC_URL, 'SVC_URL', surroundings);
  const profile = dataDir === undefined ? profileOf(surroundings) : null;
  if (profile !== null) return profile;
  const dataDirectory = dataDir === undefined ? defaultDataDirectory(surroundings) : resolve(cwd, dataDir);
  const daemon = daemonOf(dataDirectory, surroundings);
  if (daemon !== null) return daemon;
  throw notFound(dataDirectory, dataDir !== undefined, surroundings);
}

/** Why no gateway is found on a data directory. */
function notFound(dataDirectory: string, isNamed: boolean, surroundings: Surroundings): UnreachableError {
  const shown = shortPath(dataDirectory, surroundings);
  const elsewhere = 'Or say where it is: --url, SVC_URL, or a profile.';
  const { lock, runDir } = new Layout(dataDirectory);
  let holder: number | null;
  try {
    for (const folder of [dataDirectory, runDir]) if (existsSync(folder)) readdirSync(folder);
    holder = lockHolder(lock);
  } catch (error) {
    return new UnreachableError(`It is unknown whether a gateway runs on ${shown}: ${reasonOf(error as Error)}.`, [
      'Run the command as the user of the gateway, or name another directory: --data-dir',
      elsewhere,
    ]);
  }
  if (holder !== null)
    return new UnreachableError(`The gateway on ${shown} is part of another program (pid ${holder}), or is starting.`, [
      'Name the address of that program with --url; the token is the one it uses.',
    ]);
  return new UnreachableError(`No gateway is running on ${shown}.`, [
    `Start one with: svc serve${isNamed ? ` --data-dir ${shellPath(shown)}` : ''}`,
    elsewhere,
  ]);
}

/** An address without a token: if the profile or the daemon here has this address, their token is used. */
function withOwnToken(text: string, urlFrom: string, surroundings: Surroundings): Connection {
  const url = checkUrl(text, urlFrom);
  const profile = profileOf(surroundings);
  const known = profile?.url === url ? profile : daemonOf(defaultDataDirectory(surroundings), surroundings);
  if (known?.url === url) return { ...known, urlFrom };
  return { url, urlFrom, token: undefined, tokenFrom: 'nowhere' };
}

/** Null without a profile, or if it names no gateway. */
function profileOf(surroundings: Surroundings): Connection | null {
  const file = profileFile(surroundings);
  const urlFrom = shortPath(file, surroundings);
  let profile: unknown;
  try {
    profile = readJsonFile(file);
  } catch {
    throw new CommandError(
      `The profile ${urlFrom} is not valid JSON.`,
      'Fix it, or remove it to use the local gateway.',
    );
  }
  if (profile === null) return null;
  if (!PROFILE.holds(profile)) {
    const { path, wanted } = PROFILE.fault(profile) as Fault;
    const what = `${path === '' ? '' : `"${path}" in `}the profile ${urlFrom}`;
    throw new CommandError(`${what} must be ${wanted}.`, 'Such as: { "url": "http://127.0.0.1:8787" }');
  }
  const { url, token, tokenFile } = profile;
  if (url === undefined) return null;
  const stored = tokenFile === undefined ? undefined : readTextFile(resolve(dirname(file), tokenFile));
  return { url: checkUrl(url, urlFrom), urlFrom, token: token ?? stored, tokenFrom: tokenFile ?? urlFrom };
}

/** The gateway that runs on a data directory, with its token. Null if no readable file names one. */
export function daemonOf(
  dataDirectory: string,
  surroundings: Surroundings,
): (Connection & { pid: number; version: string }) | null {
  const { runDir, token } = new Layout(dataDirectory);
  const file = join(runDir, 'daemon.json');
  let daemon: unknown;
  try {
    daemon = readJsonFile(file);
  } catch {
    return null;
  }
  if (!DAEMON.holds(daemon)) return null;
  const { url, pid, version } = daemon;
  const [urlFrom, tokenFrom] = [shortPath(file, surroundings), shortPath(token, surroundings)];
  const stored = readTextFile(token);
  return { url, urlFrom, token: stored?.startsWith(ENCRYPTED) ? undefined : stored, tokenFrom, pid, version };
}

/** The address without a trailing slash. */
function checkUrl(text: string, from: string): string {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new UsageError(`"${text}" (from ${from}) is not an address such as http://127.0.0.1:8787.`);
  }
  return text.replace(/\/+$/, '');
}

/**
 * `SVC_DATA_DIR`, else `.svc` in the current folder or the nearest one above it that has one, else the platform's place for
 * application data.
 */
export function defaultDataDirectory(surroundings: Surroundings): string {
  const { env, cwd } = surroundings;
  if (env.SVC_DATA_DIR) return resolve(cwd, env.SVC_DATA_DIR);
  for (let folder = cwd; ; folder = dirname(folder)) {
    const local = join(folder, LOCAL_DIRECTORY);
    if (existsSync(local) && (folder === cwd || isOurs(local))) return local;
    if (folder === dirname(folder)) return applicationData(surroundings);
  }
}

/** The platform's place for the data of applications. */
export function applicationData({ env, platform }: Surroundings): string {
  const home = env.HOME ?? homedir();
  if (platform === 'darwin') return join(home, 'Library', 'Application Support', 'svc');
  return join(env.XDG_DATA_HOME || join(home, '.local', 'share'), 'svc');
}

/** Another user may have put a `.svc` above the current folder, to get requests that are meant for ours. */
function isOurs(path: string): boolean {
  return statSync(path).uid === process.getuid?.();
}

/** `~/.config/svc/profile.json`, or its place under `XDG_CONFIG_HOME`. */
export function profileFile({ env }: Surroundings): string {
  return join(env.XDG_CONFIG_HOME || join(env.HOME ?? homedir(), '.config'), 'svc', 'profile.json');
}

/** A file's JSON, or null when there is no such file. Throws on JSON that is broken. */
export function readJsonFile(path: string): unknown {
  const text = readTextFile(path);
  return text === undefined ? null : JSON.parse(text);
}

/** A small file without the white space around it; undefined when it cannot be read. */
function readTextFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}
