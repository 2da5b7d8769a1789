/** Runs PostgreSQL servers of this machine's own installation for tests and benches, each in a temporary folder. */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { freePort } from './free-port.ts';
import { childrenOf, isRunning } from './processes.ts';
import { eventually, LONG_MS } from './waiting.ts';

const DEBIAN = '/usr/lib/postgresql';
const USER = 'svc';
const DATABASE = 'svc';
const FROM_THIS_NETWORK = 'host all all samenet trust\nhost replication all samenet trust\n';
/** What a cluster needs of its database, and little memory. */
const SETTINGS = ['fsync=on', 'synchronous_commit=on', 'shared_buffers=32MB', 'max_connections=100'];

export type Postgres = {
  /** Of an empty database. */
  readonly url: string;
  /** Of its first process, while it runs. */
  readonly pid: number | undefined;
  /** Ends it in order and removes its folder. */
  stop(): Promise<void>;
  /** Ends all of its processes with SIGKILL; what it had acknowledged is in its folder. */
  kill(): Promise<void>;
  /** Starts it again at the same address; resolves when it takes connections. */
  start(): Promise<void>;
  /** Ends it in order, and starts it as a standby, which is read and takes no writes until `pg_promote()`. */
  standBy(): Promise<void>;
};

/** Why no server can be started here; null where one can. With `CI=true` it is null, so that the tests fail instead. */
export function whyNoPostgres(): string | null {
  if (process.env.CI === 'true' || binaries() !== null) return null;
  return 'PostgreSQL is not installed (Debian: apt install postgresql)';
}

/** Where a server listens, and the words of a command that starts programs there, such as those of a network namespace. */
export type Place = { host: string; port: number; within: readonly string[] };

/** The folder of `initdb` and `postgres`. */
function binaries(): string | null {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...versions.map((version) => join(DEBIAN, version, 'bin')),
    ...(process.env.PATH ?? '').split(delimiter),
  ];
  return folders.find((folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres'))) ?? null;
}

/** PostgreSQL refuses root, so there it runs as the user that its package made. */
function account(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const idOf = (option: string) => Number(execFileSync('id', [option, 'postgres'], { encoding: 'utf8' }));
  return { uid: idOf('-u'), gid: idOf('-g') };
}

/** How the servers end that run when this process ends. */
const left = new Set<() => void>();
let isWatched = false;

/** A test that fails before it stops a server, or is ended because it takes too long, leaves none behind. */
function endWithThisProcess(end: () => void): void {
  left.add(end);
  if (isWatched) return;
  isWatched = true;
  process.once('SIGTERM', () => process.exit(1));
  process.once('exit', () => {
    for (const one of left) one();
  });
}

/**
 * Starts a server of its own, on a free port of 127.0.0.1 where no place is given. Every caller stops it. With a `primary`, it is a
 * standby that the primary waits for from then on with each commit.
 */
export async function postgres(primary?: Postgres, place?: Place): Promise<Postgres> {
  const bin = binaries();
  if (bin === null) throw new Error('PostgreSQL is not installed.');
  const folder = mkdtempSync(join(tmpdir(), 'svc-postgres-'));
  const as = account();
  if (as !== undefined) chownSync(folder, as.uid, as.gid);
  const data = join(folder, 'data');
  const [program, ...making] =
    primary === undefined
      ? ['initdb', '-U', USER, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync']
      : ['pg_basebackup', '-d', primary.url, '-R', '-c', 'fast', '--no-sync'];
  execFileSync(join(bin, program as string), [...making, '-D', data], { ...as, cwd: folder, stdio: 'ignore' });
  const { host, port, within } = place ?? { host: '127.0.0.1', port: await freePort(), within: [] };
  if (primary === undefined) appendFileSync(join(data, 'pg_hba.conf'), FROM_THIS_NETWORK);
  const urlOf = (name: string) => `postgres://${USER}@${host}:${port}/${name}`;
  const options = [...SETTINGS, `port=${port}`, `listen_addresses=${host}`, `unix_socket_directories=${folder}`];
  // Who enters a namespace has to be root there.
  const asThem = as === undefined ? [] : ['setpriv', `--reuid=${as.uid}`, `--regid=${as.gid}`, '--clear-groups'];
  const [command = '', ...words] = [...within, ...asThem, join(bin, 'postgres')];
  let server: ChildProcess | null = null;

  const start = async (): Promise<void> => {
    const args = [...words, '-D', data, ...options.flatMap((option) => ['-c', option])];
    server = spawn(command, args, { cwd: folder, stdio: 'ignore' });
    // The test process ends without waiting for it, and ends it.
    server.unref();
    const isUp = await eventually(LONG_MS, () => answers(urlOf('postgres')));
    if (!isUp) throw new Error('PostgreSQL did not start.');
  };
  const end = async (how: (pid: number) => void): Promise<void> => {
    if (server === null || server.exitCode !== null || server.signalCode !== null) return;
    server.ref();
    const exit = once(server, 'exit');
    how(server.pid as number);
    await exit;
    server = null;
  };

  /** It ends the sessions that are left. */
  const fast = (pid: number): void => void process.kill(pid, 'SIGINT');

  await start();
  if (primary === undefined) await run(urlOf('postgres'), `CREATE DATABASE ${DATABASE}`);
  else {
    await run(primary.url, "ALTER SYSTEM SET synchronous_standby_names = '*'");
    await run(primary.url, 'SELECT pg_reload_conf()');
  }
  const endNow = (): void => {
    if (server?.pid !== undefined && server.exitCode === null) killAll(server.pid);
    rmSync(folder, { recursive: true, force: true });
  };
  endWithThisProcess(endNow);
  return {
    url: urlOf(DATABASE),
    get pid() {
      return server?.pid;
    },
    start,
    kill: async () => {
      let children: number[] = [];
      await end((pid) => {
        children = killAll(pid);
      });
      // A backend that is left could still commit and answer.
      await eventually(LONG_MS, () => !children.some(isRunning), 5);
    },
    standBy: async () => {
      await end(fast);
      writeFileSync(join(data, 'standby.signal'), '');
      await start();
    },
    stop: async () => {
      await end(fast);
      rmSync(folder, { recursive: true, force: true });
      left.delete(endNow);
    },
  };
}

/** Kills the server and its processes, each of which has a group of its own. Answers their ids. */
function killAll(server: number): number[] {
  const children = childrenOf(server).map(({ pid }) => pid);
  for (const pid of [server, ...children]) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It ended meanwhile.
    }
  }
  return children;
}

let shared: Promise<Postgres> | null = null;
let databases = 0;

/** The URL of a fresh, empty database in a server that this process shares, and which ends with it. */
export async function database(): Promise<string> {
  shared ??= postgres();
  const { url } = await shared;
  const name = `fresh_${++databases}`;
  await run(url, `CREATE DATABASE ${name}`);
  return Object.assign(new URL(url), { pathname: `/${name}` }).href;
}

/** The URL of a new database in the same server, made of a copy of this one by `pg_dump` and `pg_restore`, while it is in use. */
export async function dumpAndRestore(from: string): Promise<string> {
  const to = await database();
  const folder = mkdtempSync(join(tmpdir(), 'svc-dump-'));
  try {
    const program = (name: string) => join(binaries() as string, name);
    const file = join(folder, 'cluster.dump');
    await promisify(execFile)(program('pg_dump'), ['--format=custom', `--file=${file}`, from]);
    await promisify(execFile)(program('pg_restore'), [`--dbname=${to}`, '--exit-on-error', file]);
    return to;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function run(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    await run(url, 'SELECT 1');
    return true;
  } catch {
    return false;
  }
}
