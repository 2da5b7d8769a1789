/** Which gateway a command talks to, and with which token (decisions, section 9). */
import { resolve } from 'node:path';
import { Layout } from '../../storage/layout.ts';
import type { Arguments } from '../arguments.ts';
import { CommandError, UnreachableError, UsageError } from '../failure.ts';
import { shellPath } from '../terminal/shell.ts';
import {
  defaultDataDirectory,
  profileFile,
  readDaemonFile,
  readJsonFile,
  readTextFile,
  type Surroundings,
  shortPath,
} from './data-directory.ts';

export type ConnectionFlags = { url?: string | undefined; token?: string | undefined; dataDir?: string | undefined };

/** `urlFrom` and `tokenFrom` say where each was found; errors repeat it. */
export type Connection = { url: string; urlFrom: string; token: string | undefined; tokenFrom: string };

type Profile = { url?: string; token?: string; tokenFile?: string };
type Found = { url: string; from: string; token: string | undefined; tokenFrom: string };

/**
 * The address: `--url`, a `--data-dir` on the command line, `SVC_URL`, the profile, then the daemon of the default data
 * directory. The token belongs to where the address came from: `--token` goes anywhere, `SVC_TOKEN` to an address from `--url` or
 * `SVC_URL`, one of a profile or a data directory to its own address only. Throws `UnreachableError` when no address is known.
 */
export function resolveConnection(flags: ConnectionFlags, surroundings: Surroundings): Connection {
  const { env } = surroundings;
  const found = findAddress(flags, surroundings);
  const base = { url: checkUrl(found.url, found.from), urlFrom: found.from };
  if (flags.token !== undefined) return { ...base, token: flags.token, tokenFrom: '--token' };
  const isNamed = flags.url !== undefined || (flags.dataDir === undefined && Boolean(env.SVC_URL));
  if (env.SVC_TOKEN && isNamed) return { ...base, token: env.SVC_TOKEN, tokenFrom: 'SVC_TOKEN' };
  return { ...base, token: found.token, tokenFrom: found.tokenFrom };
}

/** Whether the gateway is looked for in a data directory of this machine, and nowhere else. */
export function resolvesToHere({ args, ...surroundings }: Surroundings & { args: Arguments }): boolean {
  if (args.has('url')) return false;
  return args.has('data-dir') || (!surroundings.env.SVC_URL && profileOf(surroundings) === null);
}

function findAddress(flags: ConnectionFlags, surroundings: Surroundings): Found {
  const { env, cwd } = surroundings;
  if (flags.url !== undefined) return withOwnToken(flags.url, '--url', surroundings);
  if (flags.dataDir !== undefined) return daemonOf(resolve(cwd, flags.dataDir), surroundings, true);
  if (env.SVC_URL) return withOwnToken(env.SVC_URL, 'SVC_URL', surroundings);
  return profileOf(surroundings) ?? daemonOf(defaultDataDirectory(surroundings), surroundings);
}

/** An address that came alone: it may still be the one of the profile or of the daemon here, whose token then fits. */
function withOwnToken(url: string, from: string, surroundings: Surroundings): Found {
  const wanted = checkUrl(url, from);
  const profile = profileOf(surroundings);
  if (profile !== null && checkUrl(profile.url, profile.from) === wanted) return { ...profile, url: wanted, from };
  const dataDirectory = defaultDataDirectory(surroundings);
  if (readDaemonFile(dataDirectory)?.url === wanted) {
    const file = new Layout(dataDirectory).token;
    return { url: wanted, from, token: readTextFile(file) ?? undefined, tokenFrom: shortPath(file, surroundings) };
  }
  return { url: wanted, from, token: undefined, tokenFrom: 'nowhere' };
}

function profileOf(surroundings: Surroundings): Found | null {
  const file = profileFile(surroundings);
  const from = shortPath(file, surroundings);
  let profile: Profile | null;
  try {
    profile = readJsonFile(file) as Profile | null;
  } catch {
    throw new CommandError(`The profile ${from} is not valid JSON.`, 'Fix it, or remove it to use the local gateway.');
  }
  if (profile?.url === undefined) return null;
  if (typeof profile.url !== 'string') throw new CommandError(`"url" in the profile ${from} must be a text.`);
  const token =
    profile.token ??
    (profile.tokenFile === undefined ? undefined : readTextFile(resolve(file, '..', profile.tokenFile)));
  return { url: profile.url, from, token: token ?? undefined, tokenFrom: profile.tokenFile ?? from };
}

/** `named`: the directory was given, not found. */
function daemonOf(dataDirectory: string, surroundings: Surroundings, named = false): Found {
  const shown = shortPath(dataDirectory, surroundings);
  const daemon = readDaemonFile(dataDirectory);
  if (daemon === null) {
    throw new UnreachableError(`No gateway is running on ${shown}.`, [
      `Start one with: ${named ? `svc serve --data-dir ${shellPath(shown)}` : 'svc serve'}`,
      'Or say where it is: --url, SVC_URL, or a profile.',
    ]);
  }
  const file = new Layout(dataDirectory).token;
  return {
    url: daemon.url,
    from: `${shown}/run/daemon.json`,
    token: readTextFile(file) ?? undefined,
    tokenFrom: shortPath(file, surroundings),
  };
}

/** The address without a trailing slash. */
function checkUrl(text: string, from: string): string {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new UsageError(`"${text}" (from ${from}) is not an address such as http://127.0.0.1:8787.`);
  }
  return text.replace(/\/+$/, '');
}
