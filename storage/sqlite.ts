/**
 * Chooses the SQLite binding for the running Node and loads it: better-sqlite3 13, whose binaries are in its package, from
 * Node 22 on; better-sqlite3 12, compiled for each version of Node, on 20, where 13 crashes.
 */

import { readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { compileFunction } from 'node:vm';
import type BetterSqlite from 'better-sqlite3';

/** Each under the name that package.json gives it. */
const COMPILED = 'better-sqlite3-12';
const PREBUILT = 'better-sqlite3-13';
/** In the package that users install (scripts/release/package.mjs): the one of both that fits their Node. */
const FITTING = 'better-sqlite3';
/** From this version on the binaries are in the package, */
const PREBUILT_MAJOR = 13;
/** and this is the first Node that runs it. */
const PREBUILT_SINCE = 22;

type Require = NodeJS.Require;
/** The package, by its name in package.json, and what it exports. */
type Binding = { readonly name: string; readonly Sqlite: typeof BetterSqlite };

const ours = createRequire(import.meta.url);

/** Names of the packages for a version of Node, such as `22.1.0`; the best one first. */
export function bindingsFor(version: string): string[] {
  return Number.parseInt(version, 10) < PREBUILT_SINCE ? [COMPILED] : [PREBUILT, COMPILED];
}

/** The same for this Node, as they are called where this code is installed. */
export function bindingsHere(require: Require = ours): string[] {
  const names = bindingsFor(process.versions.node);
  return names.some((name) => manifestOf(name, require) !== null) ? names : [FITTING];
}

/** Paths of the installed bindings for this Node, and every folder that is searched. */
export function bindingFolders(): { packages: string[]; searched: string[] } {
  const packages = bindingsHere().flatMap((name) => {
    const file = manifestOf(name, ours);
    return file === null ? [] : [dirname(file)];
  });
  return { packages, searched: ours.resolve.paths(PREBUILT) ?? [] };
}

function manifestOf(name: string, require: Require): string | null {
  try {
    return require.resolve(`${name}/package.json`);
  } catch {
    return null;
  }
}

/** NaN where the package does not say it. */
function majorOf(name: string, require: Require): number {
  const { version = '' } = JSON.parse(readFileSync(require.resolve(`${name}/package.json`), 'utf8'));
  return Number.parseInt(version, 10);
}

/** The first of the packages that loads. Throws, with what to do, when none does. */
export function loadBinding(names: string[], require: Require = ours): Binding {
  const failures: string[] = [];
  for (const name of names) {
    if (manifestOf(name, require) === null) {
      failures.push(`${name} is not installed`);
      continue;
    }
    try {
      const Sqlite = require(name) as typeof BetterSqlite;
      // Its native code is loaded with the first database.
      new Sqlite(':memory:').close();
      if (majorOf(name, require) >= PREBUILT_MAJOR) makeRowsWithoutEval(name, Sqlite, require);
      return { name, Sqlite };
    } catch (error) {
      failures.push(`${name} ${whyNot(error as Error)}`);
    }
  }
  throw new BindingError(failures);
}

/** No binding loads. The message ends with `nextStep`, what to do about it. */
export class BindingError extends Error {
  /** The message without the next step. */
  readonly finding: string;
  readonly nextStep: string;

  constructor(failures: string[]) {
    const finding = `SQLite cannot be loaded on Node ${process.versions.node}: ${failures.join('; ')}.`;
    const nextStep = adviceFor(process.versions.node);
    super(`${finding} ${nextStep}`);
    this.finding = finding;
    this.nextStep = nextStep;
  }
}

function whyNot({ message }: Error): string {
  if (message.includes('NODE_MODULE_VERSION')) return 'was compiled for another version of Node';
  return `does not load: ${message.split('\n')[0]}`;
}

function adviceFor(version: string): string {
  const again = 'run npm ci again, or where svc is installed: npm install -g svc-gateway';
  if (Number.parseInt(version, 10) >= PREBUILT_SINCE) return `With this Node, ${again}.`;
  return `Install Node 24, or Python and a C++ compiler with make; then ${again}.`;
}

type Addon = { initialize(...factories: unknown[]): void };

/**
 * Better-sqlite3 13 makes the function that builds the rows of a statement with `new Function`, which is forbidden where
 * handlers run (`host-flags.ts`). The compiler of node:vm makes the same function there.
 */
function makeRowsWithoutEval(name: string, Sqlite: typeof BetterSqlite, require: Require): void {
  const folder = dirname(require.resolve(`${name}/package.json`));
  const file = Object.keys(require.cache).find((path) => path.startsWith(folder) && path.endsWith('.node'));
  if (file === undefined) throw new Error('its native code is not where it is expected.');
  const addon = require(file) as Addon;
  addon.initialize(
    Sqlite.SqliteError,
    (...values: unknown[]) => values,
    (array: unknown[], ...values: unknown[]) => array.push(...values),
    rowFactory,
    (value: unknown) => ({ value, done: false }),
  );
}

/** The function that makes a row of the values of these columns. */
function rowFactory(...columns: string[]): (...values: unknown[]) => object {
  // As a literal it would set the prototype.
  if (columns.includes('__proto__'))
    return (...values) => Object.fromEntries(columns.map((key, i) => [key, values[i]]));
  const members = columns.map((column, i) => `${JSON.stringify(column)}:v${i}`);
  const names = columns.map((_, i) => `v${i}`);
  return compileFunction(`return {${members.join(',')}}`, names) as (...values: unknown[]) => object;
}

/** The binding loaded in this thread. */
let loaded: Binding | null = null;

/** Loads the binding, so that the first database need not. Throws as `loadBinding` does. */
export function loadSqlite(): Binding {
  loaded ??= loadBinding(bindingsHere());
  return loaded;
}

/**
 * Opens a file, `:memory:`, or the bytes of a database, as better-sqlite3 does. Throws `SQLITE_NOTADB` for a file of no bytes with a log
 * beside it: SQLite takes it for a new database and deletes the log, also when it only reads.
 */
export function openSqlite(file: string | Buffer, options?: BetterSqlite.Options): BetterSqlite.Database {
  const { Sqlite } = loaded ?? loadSqlite();
  if (typeof file === 'string' && sizeOf(file) === 0 && sizeOf(`${file}-wal`) > 0)
    throw Object.assign(new Error('the file is empty, and the log beside it is not'), { code: 'SQLITE_NOTADB' });
  const db = new Sqlite(file, options);
  // With bound parameters SQLite's own reads and sets addresses in memory. Full text search does not call it.
  db.function('fts3_tokenizer', (_name: unknown) => refuse());
  db.function('fts3_tokenizer', (_name: unknown, _address: unknown) => refuse());
  return db;
}

/** -1 for what is not there or cannot be looked at: SQLite says why. */
function sizeOf(path: string): number {
  try {
    return statSync(path, { throwIfNoEntry: false })?.size ?? -1;
  } catch {
    return -1;
  }
}

function refuse(): never {
  throw new Error('fts3_tokenizer is refused.');
}
