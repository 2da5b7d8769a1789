/** Where a gateway keeps its data when nobody says so, and where a running one can be found. */
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { Layout } from '../../storage/layout.ts';

/** What the rules below depend on, so that a test can stand in for the machine. */
export type Surroundings = { env: NodeJS.ProcessEnv; cwd: string; platform: NodeJS.Platform };

/** Of the current folder, made by `svc serve --data-dir .svc`. */
const LOCAL_DIRECTORY = '.svc';

/** `run/daemon.json`, written by a running gateway. */
export type DaemonFile = { pid: number; url: string; startedAt: number; version: string };

/** `SVC_DATA_DIR`, else `.svc` in the current folder when there is one, else the platform's place for application data. */
export function defaultDataDirectory({ env, cwd, platform }: Surroundings): string {
  if (env.SVC_DATA_DIR) return resolve(cwd, env.SVC_DATA_DIR);
  const local = join(cwd, LOCAL_DIRECTORY);
  return existsSync(local) ? local : platformDataDirectory(env, platform);
}

function platformDataDirectory(env: NodeJS.ProcessEnv, platform: NodeJS.Platform): string {
  const home = env.HOME ?? homedir();
  if (platform === 'darwin') return join(home, 'Library', 'Application Support', 'svc');
  return join(env.XDG_DATA_HOME || join(home, '.local', 'share'), 'svc');
}

/** `~/.config/svc/profile.json`, or its place under `XDG_CONFIG_HOME`. */
export function profileFile({ env }: Surroundings): string {
  const home = env.HOME ?? homedir();
  const base = env.XDG_CONFIG_HOME || join(home, '.config');
  return join(base, 'svc', 'profile.json');
}

/** The gateway that runs on this directory, or null when none has said so in a way that can be read. */
export function readDaemonFile(dataDirectory: string): DaemonFile | null {
  try {
    return readJsonFile(join(new Layout(dataDirectory).runDir, 'daemon.json')) as DaemonFile | null;
  } catch {
    return null;
  }
}

/** A file's JSON, or null when there is no such file. Throws on JSON that is broken. */
export function readJsonFile(path: string): unknown {
  const text = readTextFile(path);
  return text === null ? null : JSON.parse(text);
}

/** A small file without the white space around it, or null when there is none that can be read. */
export function readTextFile(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return null;
  }
}

/** A path as a person would write it: relative to the current folder, or with `~`. */
export function shortPath(path: string, { env, cwd }: Surroundings): string {
  const home = env.HOME ?? homedir();
  for (const [folder, name] of [
    [cwd, '.'],
    [home, '~'],
  ] as const) {
    if (path === folder) return name;
    if (path.startsWith(join(folder, '/')))
      return name === '.' ? path.slice(folder.length + 1) : join(name, path.slice(folder.length));
  }
  return path;
}
