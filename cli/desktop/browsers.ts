/** Finds the installed browsers that can show a page as a window (`--app=`): Chrome, Chromium, Edge, Brave. */
import { hash } from 'node:crypto';
import { accessSync, constants, realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, delimiter, isAbsolute, join, resolve } from 'node:path';
import { Layout } from '../../storage/layout.ts';
import type { Surroundings } from '../gateway/connection.ts';

/** `program` is a path; `profile` the folder that keeps its windows and sign-ins apart from the user's own browser. */
export type Browser = { name: string; program: string; profile: string };

/** The programs of each browser, the likeliest first. A snap is looked for by its own path: the other name is a script. */
const LINUX: [name: string, programs: string[]][] = [
  ['Chrome', ['google-chrome-stable', 'google-chrome']],
  ['Chromium', ['/snap/bin/chromium', 'chromium', 'chromium-browser']],
  ['Edge', ['microsoft-edge-stable', 'microsoft-edge']],
  ['Brave', ['/snap/bin/brave', 'brave-browser', 'brave']],
];
const MAC: [name: string, app: string][] = [
  ['Chrome', 'Google Chrome'],
  ['Chromium', 'Chromium'],
  ['Edge', 'Microsoft Edge'],
  ['Brave', 'Brave Browser'],
];

/** The first that is installed, or the one that `wanted` names: `chrome`, `edge` and so on, or a program. Undefined for none. */
export function findBrowser(
  wanted: string | undefined,
  surroundings: Surroundings,
  dataDirectory: string,
): Browser | undefined {
  const known = surroundings.platform === 'darwin' ? macPrograms(surroundings) : LINUX;
  const named = known.filter(([name]) => wanted === undefined || name.toLowerCase() === wanted.toLowerCase());
  const programs =
    named.length === 0 && wanted !== undefined ? [[basename(wanted), [wanted]] as [string, string[]]] : named;
  for (const [name, candidates] of programs) {
    const program = candidates.map((one) => pathOf(one, surroundings)).find((path) => path !== undefined);
    if (program !== undefined) return { name, program, profile: profileOf(program, surroundings, dataDirectory) };
  }
  return undefined;
}

function macPrograms({ env }: Surroundings): [name: string, programs: string[]][] {
  const folders = ['/Applications', join(env.HOME ?? homedir(), 'Applications')];
  return MAC.map(([name, app]) => [name, folders.map((folder) => join(folder, `${app}.app/Contents/MacOS/${app}`))]);
}

/** Where a program is: its path, or a name on PATH. */
function pathOf(program: string, { env, cwd }: Surroundings): string | undefined {
  const places = isAbsolute(program)
    ? [program]
    : program.includes('/')
      ? [resolve(cwd, program)]
      : (env.PATH ?? '')
          .split(delimiter)
          .filter(Boolean)
          .map((folder) => resolve(cwd, folder, program));
  return places.find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** A snap may write to its own folder only, and not to hidden ones in the home directory. */
function profileOf(program: string, { env }: Surroundings, dataDirectory: string): string {
  if (basename(realpathSync(program)) !== 'snap') return new Layout(dataDirectory).browserDir;
  const own = `svc-${hash('sha256', dataDirectory).slice(0, 12)}`;
  return join(env.HOME ?? homedir(), 'snap', basename(program), 'common', own);
}
