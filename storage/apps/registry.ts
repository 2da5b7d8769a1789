/** The registered apps (`_registry.json`). An app's own files are read, and repaired, when it is first needed. */
import { stat } from 'node:fs/promises';
import { isDiskFull, movedError, SvcError } from '../../protocol/errors.ts';
import { isAppId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import { formatted, listOf, object, text } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import type { AppDirectory } from '../cluster/app-directory.ts';
import { exists, mkdirDurable, moveDir, namesIn, readJson, writeFileAtomic } from '../files/atomic-file.ts';
import type { Layout } from '../layout.ts';
import { cutLog, damagedData, lostData } from './app-data.ts';
import { Damages } from './damages.ts';
import { openJournal } from './earlier-notes.ts';
import { readVersionIntent } from './journal.ts';
import { findLive, type RepairOptions } from './live-version.ts';
import { sweepTemporary } from './trash.ts';
import { readCurrent, readVersion } from './versions.ts';

/**
 * The record of one app; replaced, never changed in place. Times are milliseconds since the epoch; `updatedAt` is when the
 * active version became it, or when the app was registered.
 */
export type AppState = Readonly<{
  id: string;
  registeredAt: number;
  updatedAt: number;
  active: VersionSummary | null;
}>;

type RegistryOptions = Pick<RepairOptions, 'layout' | 'userVersion' | 'makeDurable' | 'log'> &
  Partial<RepairOptions> & {
    /** Whether SQLite finds nothing wrong with a database; without it, damage that was met is noted until the next start. */
    isWhole?(file: string): Promise<boolean>;
    /** Where a cluster lists its apps: told of each change, before the file. */
    listed?: Pick<AppDirectory, 'put'> | null;
    /** Called once the data of an app is known to be lost. */
    onLost?(id: string): void;
  };
type Options = RepairOptions & Pick<RegistryOptions, 'isWhole' | 'onLost' | 'listed'>;

/** id → time of registration. */
type Entries = ReadonlyMap<string, number>;
/** Content of the file; `removed` lists ids of removed apps, which a new app may have now. */
type Content = { entries: Entries; removed: ReadonlySet<string>; makers: Makers };
/** id → the person who made the app, where one did. */
type Makers = ReadonlyMap<string, string>;

/** Apps whose files are read at a time when all of them are asked for. */
const LOADING_AT_ONCE = 16;

export class Registry {
  readonly #options: Options;
  readonly #loaded = new Map<string, AppState>();
  readonly #loading = new Map<string, Promise<AppState>>();
  /** Apps whose log was looked at: since then processes may have the database open. */
  readonly #seen = new Set<string>();
  readonly damages: Damages;
  /** Apps that take no calls here: `false` while another node has their files, `true` while they are put right, or given away. */
  readonly #away = new Map<string, boolean>();
  #entries: Entries;
  #removed: ReadonlySet<string>;
  #makers: Makers;
  /** The ids of `#entries` that are served here, once they were asked for. */
  #ids: readonly string[] | null = null;
  #writing: Promise<unknown> = Promise.resolve();

  /** Reads the registry; one that is missing or damaged is rebuilt from the apps' folders, which is logged. */
  static async open(options: RegistryOptions): Promise<Registry> {
    const { layout, log } = options;
    for (const dir of [layout.appsDir, layout.tmpDir, layout.trashDir]) await mkdirDurable(dir);
    for (const dir of [layout.dataDir, layout.runDir, layout.appsDir, layout.trashDir]) await sweepTemporary(dir);
    await openJournal(layout);
    const known = await readContent(layout.registry);
    const registry = new Registry(
      { now: Date.now, prepareAnew: async () => false, restoreFiles: async () => false, ...options },
      known ?? { entries: await entriesFromFolders(layout), removed: new Set(), makers: new Map() },
    );
    if (known === null) {
      if (await exists(layout.registry)) {
        await moveDir(layout.registry, `${layout.registry}.damaged-${registry.#options.now()}`);
        log.error(
          { apps: registry.#entries.size },
          '_registry.json was damaged. It was put aside and rebuilt from the folders of the apps.',
        );
      } else if (registry.#entries.size > 0) {
        log.warn(
          { apps: registry.#entries.size },
          '_registry.json was missing. It was rebuilt from the folders of the apps.',
        );
      }
      try {
        await registry.#save(registry.#entries, registry.#removed, registry.#makers);
      } catch (error) {
        if (!isDiskFull(error)) throw error;
        log.warn({ err: error }, '_registry.json could not be written: the disk is full. The next start rebuilds it.');
      }
    }
    return registry;
  }

  private constructor(options: Options, { entries, removed, makers }: Content) {
    this.#options = options;
    this.damages = new Damages(options);
    this.#entries = entries;
    this.#removed = removed;
    this.#makers = makers;
  }

  /** Those that are served here, sorted. */
  ids(): readonly string[] {
    this.#ids ??= this.registered().filter((id) => !this.#away.has(id));
    return this.#ids;
  }

  /** All that are known, sorted: another node may serve them. */
  registered(): string[] {
    return [...this.#entries.keys()].sort();
  }

  /** Whether it is registered, wherever it is served. */
  has(id: string): boolean {
    return this.#entries.has(id);
  }

  /** When it was registered, in milliseconds since the epoch; null when it is not. */
  registeredAt(id: string): number | null {
    return this.#entries.get(id) ?? null;
  }

  /** The id of the person who made the app; null when none did, undefined when it is not registered. */
  makerOf(id: string): string | null | undefined {
    return this.has(id) ? (this.#makers.get(id) ?? null) : undefined;
  }

  /** Whether another app had this id before: browsers may still hold what its pages stored. */
  wasRemoved(id: string): boolean {
    return this.#removed.has(id);
  }

  /** Whether another node has its files. */
  isElsewhere(id: string): boolean {
    return this.#away.get(id) === false;
  }

  /** `STORAGE_UNAVAILABLE` for an app that takes no calls here, registered or not; null for others. */
  refusalOf(id: string): SvcError | null {
    return this.#away.has(id) ? movedError() : null;
  }

  /** Throws `UNKNOWN_APP`, and as `refusalOf` says. */
  demand(id: string): void {
    if (!this.has(id)) throw unknownApp(id);
    const refusal = this.refusalOf(id);
    if (refusal !== null) throw refusal;
  }

  /** Takes no more calls for these. Their files are still read: they are put right, or given away. */
  refuse(ids: Iterable<string>): void {
    for (const id of ids) this.#away.set(id, true);
    this.#ids = null;
  }

  /** Forgets what was read of their files, which another node has from now on. Resolves when nothing is being read. */
  async leave(ids: readonly string[]): Promise<void> {
    for (const id of ids) this.#away.set(id, false);
    this.#ids = null;
    await Promise.allSettled(ids.map((id) => this.#loading.get(id)));
    for (const id of ids) {
      this.forget(id);
      // Who has the file next may leave a log that was cut.
      this.#seen.delete(id);
    }
  }

  /** Takes calls for these. */
  serve(ids: Iterable<string>): void {
    for (const id of ids) this.#away.delete(id);
    this.#ids = null;
  }

  /** The same for apps that other nodes serve. Which of them this one gets meanwhile does not matter. */
  async learnElsewhere(
    apps: readonly { id: string; registeredAt: number; maker: string | null }[],
    removed: readonly string[],
  ): Promise<void> {
    for (const { id } of apps) if (!this.has(id) && !this.#away.has(id)) this.#away.set(id, false);
    await this.learn(apps, removed);
    // One of this id may come to be here.
    for (const id of removed) if (!this.has(id) && this.isElsewhere(id)) this.#away.delete(id);
  }

  /**
   * Takes what a cluster knows of apps, before they are served here; those in `removed` are registered no more. Durable once it
   * resolves.
   */
  async learn(
    apps: readonly { id: string; registeredAt: number; maker: string | null }[],
    removed: readonly string[] = [],
  ): Promise<void> {
    const news = apps.filter(
      ({ id, registeredAt, maker }) => this.registeredAt(id) !== registeredAt || this.makerOf(id) !== maker,
    );
    const gone = removed.filter((id) => this.has(id));
    if (news.length + gone.length === 0) return;
    await this.#change((entries, before, makers) => {
      for (const id of gone) remove(id, entries, before, makers);
      for (const { id, registeredAt, maker } of news) {
        entries.set(id, registeredAt);
        if (maker === null) makers.delete(id);
        else makers.set(id, maker);
      }
    });
  }

  /** The record in memory; undefined before the app's first use. */
  loaded(id: string): AppState | undefined {
    return this.#loaded.get(id);
  }

  /**
   * What the live version of an app says of itself, without a look whether its files are whole; null where only that look can tell, which
   * `state` takes.
   */
  async glance(id: string): Promise<VersionSummary | null> {
    const loaded = this.#loaded.get(id);
    if (loaded !== undefined) return loaded.active;
    const { layout } = this.#options;
    const app = layout.app(id);
    if ((await readVersionIntent(layout, id)) !== null) return null;
    const current = await readCurrent(app);
    return current === null || current === 'damaged' ? null : readVersion(app, current.activeVersion);
  }

  /** The record of an app; repairs its files on first use. Rejects with `UNKNOWN_APP`, and with `STORAGE_UNAVAILABLE` while another node has them. */
  async state(id: string): Promise<AppState> {
    const loaded = this.#loaded.get(id);
    if (loaded !== undefined) return loaded;
    const registeredAt = this.#entries.get(id);
    if (registeredAt === undefined) throw unknownApp(id);
    if (this.isElsewhere(id)) throw movedError();
    let loading = this.#loading.get(id);
    if (loading === undefined) {
      loading = this.#load(id, registeredAt).finally(() => this.#loading.delete(id));
      this.#loading.set(id, loading);
    }
    return loading;
  }

  /** These apps, by default every one that is served here, sorted by id. One whose files cannot be read has no active version here. */
  async states(ids: readonly string[] = this.ids()): Promise<AppState[]> {
    const states: AppState[] = [];
    for (let at = 0; at < ids.length; at += LOADING_AT_ONCE) {
      const some = ids
        .slice(at, at + LOADING_AT_ONCE)
        .map((id) => this.#loaded.get(id) ?? this.state(id).catch((error: unknown) => this.#unreadable(id, error)));
      const found = some.some((state) => state instanceof Promise) ? await Promise.all(some) : (some as AppState[]);
      for (const state of found) if (state !== null) states.push(state);
    }
    return states;
  }

  /** Durable once it resolves. `maker` is the id of the person who made the app, null for none. */
  async register(id: string, maker: string | null = null): Promise<void> {
    const registeredAt = this.#options.now();
    await this.#options.listed?.put({ id, registeredAt, maker });
    await this.#change((entries, _removed, makers) => {
      entries.set(id, registeredAt);
      if (maker !== null) makers.set(id, maker);
    });
  }

  /** Durable once it resolves; the app's record is dropped from memory. */
  async deregister(id: string): Promise<void> {
    await this.#options.listed?.put({ id, registeredAt: null, maker: null });
    await this.#change((entries, removed, makers) => remove(id, entries, removed, makers));
    this.forget(id);
  }

  /** Keeps the new record in memory. */
  setActive(id: string, active: VersionSummary | null, activatedAt: number): void {
    const registeredAt = this.#entries.get(id) ?? activatedAt;
    this.#loaded.set(id, { id, registeredAt, updatedAt: Math.max(activatedAt, registeredAt), active });
  }

  /** The app's files are read and repaired again when it is next needed. */
  forget(id: string): void {
    this.#loaded.delete(id);
    this.damages.forget(id);
  }

  /** Looks again whether the data of an app is lost. Rejects with `STORE_DAMAGED`, and with `UNKNOWN_APP`. */
  async checkData(id: string): Promise<void> {
    const { active } = await this.state(id);
    const what = active && (await lostData(this.#options.layout.app(id), active));
    if (what !== null) this.damages.note(id, { what, lost: true });
    const damage = this.damages.of(id);
    if (damage?.lost) throw damagedData(id, damage);
  }

  async #load(id: string, registeredAt: number): Promise<AppState> {
    const { layout, now } = this.#options;
    // Before anyone opens it.
    const cut = this.#seen.has(id) ? null : await cutLog(layout.app(id), now());
    this.#seen.add(id);
    const found = await findLive(id, this.#options);
    if (found !== null && found.lost !== null) this.damages.note(id, { what: found.lost, lost: true });
    else if (cut !== null) this.damages.note(id, { what: cut, lost: false });
    const updatedAt = Math.max(found?.activatedAt ?? 0, registeredAt);
    // An activation may have set a newer record meanwhile.
    const state = this.#loaded.get(id) ?? { id, registeredAt, updatedAt, active: found?.active ?? null };
    if (this.#entries.has(id)) this.#loaded.set(id, state);
    return state;
  }

  #unreadable(id: string, error: unknown): AppState | null {
    const registeredAt = this.#entries.get(id);
    if (registeredAt === undefined) return null;
    this.#options.log.error({ app: id, err: error }, 'The files of an app cannot be read.');
    return { id, registeredAt, updatedAt: registeredAt, active: null };
  }

  /** One change at a time; memory follows the file, so that a full disk changes neither. */
  #change(
    change: (entries: Map<string, number>, removed: Set<string>, makers: Map<string, string>) => void,
  ): Promise<void> {
    const changed = this.#writing.then(async () => {
      const entries = new Map(this.#entries);
      const removed = new Set(this.#removed);
      const makers = new Map(this.#makers);
      change(entries, removed, makers);
      await this.#save(entries, removed, makers);
      this.#entries = entries;
      this.#removed = removed;
      this.#makers = makers;
      this.#ids = null;
    });
    this.#writing = changed.catch(() => {});
    return changed;
  }

  async #save(entries: Entries, removed: ReadonlySet<string>, makers: Makers): Promise<void> {
    const apps = Object.fromEntries(
      [...entries].map(([id, at]) => [id, { registeredAt: new Date(at).toISOString(), madeBy: makers.get(id) }]),
    );
    await writeFileAtomic(
      this.#options.layout.registry,
      `${JSON.stringify({ apps, removed: [...removed] }, null, 2)}\n`,
    );
  }
}

function remove(id: string, entries: Map<string, number>, removed: Set<string>, makers: Map<string, string>): void {
  entries.delete(id);
  makers.delete(id);
  // Only the latest ones: the oldest belong to forgotten apps.
  removed.delete(id);
  removed.add(id);
  for (const oldest of removed) if (removed.size > LIMITS.removedIds) removed.delete(oldest);
}

export function unknownApp(id: string): SvcError {
  return new SvcError('UNKNOWN_APP', `No app "${id.slice(0, 80)}" is registered.`);
}

/** What the file says, or where it is missing or damaged the folders of the apps. Changes nothing. */
export async function readRegistry(layout: Layout): Promise<Content> {
  const known = await readContent(layout.registry);
  if (known !== null) return known;
  return { entries: await entriesFromFolders(layout), removed: new Set(), makers: new Map() };
}

/** id → time of registration, in milliseconds since the epoch. Null when the file is missing or is no registry. */
export async function readEntries(path: string): Promise<Entries | null> {
  return (await readContent(path))?.entries ?? null;
}

const ENTRY = shape(object({}, { registeredAt: text, madeBy: text }));
const CONTENT = shape(object({ apps: { type: 'object' } }, { removed: listOf(formatted('app id', 'an app id')) }));

async function readContent(path: string): Promise<Content | null> {
  const content = CONTENT.part(await readJson(path, null));
  if (content === null) return null;
  const entries = new Map<string, number>();
  const makers = new Map<string, string>();
  for (const [id, entry] of Object.entries(content.apps)) {
    if (!isAppId(id)) continue;
    const { registeredAt = '', madeBy } = ENTRY.part(entry) ?? {};
    const at = Date.parse(registeredAt);
    entries.set(id, Number.isNaN(at) ? 0 : at);
    if (madeBy !== undefined) makers.set(id, madeBy);
  }
  return { entries, removed: new Set(content.removed), makers };
}

/** The folders that hold an app: they have versions. Registered when the folder was made, as far as the system knows. */
async function entriesFromFolders(layout: Layout): Promise<Entries> {
  const entries = new Map<string, number>();
  for (const name of await namesIn(layout.appsDir)) {
    if (!isAppId(name) || !(await exists(layout.app(name).versionsDir))) continue;
    const { birthtimeMs } = await stat(layout.app(name).dir);
    entries.set(name, Math.floor(birthtimeMs));
  }
  return entries;
}
