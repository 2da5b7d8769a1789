/**
 * Makes the command lines of handler hosts and of the jobs process: Node's permission model, as far as this Node supports it.
 */

/** Names of each flag: the first one that this Node knows is used, so no version number decides. */
const CONFINED: string[][] = [
  // From 23.5 on it is called --permission; 20 has only the older name.
  ['--permission', '--experimental-permission'],
  ['--allow-worker'],
  // better-sqlite3 is native code.
  ['--allow-addons'],
  // From 25 on the network has a separate permission, which the sockets between our processes need too.
  ['--allow-net'],
];

/** Further flags of handler hosts. None is V8's own, see `no-code-of-text.ts`. */
const HANDLERS: string[][] = [
  // vm.SourceTextModule, with which handlers are loaded.
  ['--experimental-vm-modules'],
  // New memory may hold what another app in the process had; handlers see it in `Buffer.allocUnsafe`, `allocUnsafeSlow` and pools.
  ['--zero-fill-buffers'],
];

const QUIET: string[][] = [['--no-warnings']];

/**
 * The file in which Linux lists a process's libraries, `readable` for hosts and jobs: native packages choose their binaries by
 * it, and take much longer without it.
 */
export const OWN_LIBRARIES = '/proc/self/maps';

/** `readable` for hosts only: the counts of its threads, to find the one that uses the memory. */
export const OWN_PROCESS: readonly string[] = ['/proc/thread-self/stat', '/proc/self/task/*', OWN_LIBRARIES];

/**
 * Flags for `node <flags> dist/host.cjs`. The host can read the files and folders in `readable` (absolute paths, each with
 * what is under it) and nothing else, write nothing and start no process; SQLite's own file access is not affected.
 * `allowed` is `process.allowedNodeEnvironmentFlags` of the Node that will run it.
 */
export function hostFlags(readable: string[], allowed = process.allowedNodeEnvironmentFlags): string[] {
  return [...known([...CONFINED, ...HANDLERS, ...QUIET], allowed), ...readable.map(readFlag)];
}

/** The same for `dist/jobs.cjs`, which can write what is in `writable`, and makes code of strings as Ajv does. */
export function jobsFlags(
  { readable, writable }: { readable: string[]; writable: string[] },
  allowed = process.allowedNodeEnvironmentFlags,
): string[] {
  return [
    ...known([...CONFINED, ...QUIET], allowed),
    ...[...readable, ...writable].map(readFlag),
    ...writable.map((path) => `--allow-fs-write=${path}`),
  ];
}

function known(wanted: string[][], allowed: ReadonlySet<string>): string[] {
  return wanted.flatMap((names) => names.find((name) => allowed.has(name)) ?? []);
}

function readFlag(path: string): string {
  return `--allow-fs-read=${path}`;
}
