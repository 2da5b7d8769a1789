/**
 * The automations of every active version, in memory only: the files are the truth, and this is what they said when they were
 * last read. Resolves refs and slugs without a scan.
 */
import type { Logger } from 'pino';
import { type AutomationManifest, automationRef, provisionedWebhook } from '../../protocol/automation.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { flatAutomation } from '../../protocol/rules/automation-issues.ts';
import { listAutomations, readAutomation } from '../../storage/automations.ts';
import type { Layout, VersionPaths } from '../../storage/layout.ts';
import type { Registry } from '../../storage/registry.ts';

/** What is kept of a manifest: not what only its file is asked for. */
export type LiveManifest = Omit<AutomationManifest, 'prompt' | 'outputSchema' | 'costEstimate' | 'generated'> & {
  hasOutputSchema?: true;
};

/** One automation of an active version; replaced, never changed. */
export type LiveAutomation = {
  readonly ref: string;
  readonly app: string;
  readonly id: string;
  readonly versionId: string;
  readonly manifest: LiveManifest;
};

/**
 * An automation whose file cannot be used. `code` is one of `AutomationIssueCode`, `flat_file` for one that lies where nothing reads
 * it, or `INTERNAL` for a disk that fails.
 */
export type AutomationFault = { ref: string; code: string; message: string; path?: string };

export type CatalogOptions = {
  layout: Layout;
  registry: Pick<Registry, 'ids' | 'has' | 'state'>;
  log: Pick<Logger, 'warn' | 'error'>;
};

type AppAutomations = { live: LiveAutomation[]; faults: AutomationFault[] };

/** Apps that are read at a time when all of them are. */
const APPS_AT_ONCE = 16;

export class AutomationCatalog {
  readonly #options: CatalogOptions;
  /** Apps that have any. */
  readonly #apps = new Map<string, AppAutomations>();
  readonly #byRef = new Map<string, LiveAutomation>();
  /** Slug → those that claim it, sorted by ref. */
  readonly #bySlug = new Map<string, LiveAutomation[]>();
  readonly #listeners: ((app: string) => void)[] = [];
  /** Loads of an app under way; only the latest one counts. */
  readonly #loads = new Map<string, symbol>();
  #reading = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(options: CatalogOptions) {
    this.#options = options;
  }

  /** Reads the active version of every app that has automations. Never rejects: what cannot be read is a fault. */
  async loadAll(): Promise<void> {
    const ids = this.#options.registry.ids();
    for (let at = 0; at < ids.length; at += APPS_AT_ONCE) {
      await Promise.all(ids.slice(at, at + APPS_AT_ONCE).map((id) => this.load(id)));
    }
  }

  /** Reads the active version of an app again, after it or one of its files changed. Never rejects. */
  async load(app: string): Promise<void> {
    const load = Symbol(app);
    this.#loads.set(app, load);
    let found: AppAutomations;
    try {
      found = await this.#read(app);
    } catch (error) {
      this.#options.log.error({ app, err: error }, 'The automations of an app could not be read.');
      found = { live: [], faults: [unreadable(`${app}/*`)] };
    }
    // A later load, or the removal of the app, knows better.
    if (this.#loads.get(app) !== load) return;
    this.#loads.delete(app);
    for (const { ref, message } of found.faults) this.#options.log.warn({ automation: ref }, `Left out: ${message}`);
    this.#replace(app, found);
  }

  /** The app is gone, or has no active version any more. */
  forget(app: string): void {
    this.#loads.delete(app);
    this.#replace(app, { live: [], faults: [] });
  }

  get(ref: string): LiveAutomation | undefined {
    return this.#byRef.get(ref);
  }

  /** Sorted by ref. */
  list(app?: string): LiveAutomation[] {
    if (app !== undefined) return [...(this.#apps.get(app)?.live ?? [])];
    return [...this.#byRef.values()].sort(byRef);
  }

  /** How many there are, and how many of them are on. */
  get counts(): { registered: number; enabled: number } {
    let enabled = 0;
    for (const { manifest } of this.#byRef.values()) if (manifest.enabled) enabled++;
    return { registered: this.#byRef.size, enabled };
  }

  /** Sorted by ref. */
  faults(app?: string): AutomationFault[] {
    if (app !== undefined) return [...(this.#apps.get(app)?.faults ?? [])];
    return [...this.#apps.values()].flatMap(({ faults }) => faults).sort(byRef);
  }

  /** Of those whose webhook has this slug the first by ref (specification, "Webhook route"). */
  bySlug(slug: string): LiveAutomation | undefined {
    return this.#bySlug.get(slug)?.[0];
  }

  /** `listener` is told synchronously after the automations of an app were read or forgotten; not of apps that had and have none. */
  onChange(listener: (app: string) => void): void {
    this.#listeners.push(listener);
  }

  async #read(app: string): Promise<AppAutomations> {
    const { layout, registry } = this.#options;
    if (!registry.has(app)) return { live: [], faults: [] };
    const { active } = await registry.state(app);
    // An app without automations costs no look at the disk.
    if (active === null) return { live: [], faults: [] };
    const { versionId, flatAutomations = [] } = active;
    const flat = flatAutomations.map((name) => flatFault(app, name));
    if (active.automations === 0) return { live: [], faults: flat };
    const version = layout.app(app).version(versionId);
    const ids = await listAutomations(version);
    const found: (LiveAutomation | AutomationFault | null)[] = ids.map(() => null);
    const queue = ids.entries();
    // A few that take one after another: a thousand promises that wait would outlive young collections, and stay as garbage.
    const takeTurns = async (): Promise<void> => {
      for (const [at, id] of queue) found[at] = await this.#inTurn(() => this.#readOne(app, versionId, version, id));
    };
    await Promise.all(Array.from({ length: Math.min(LIMITS.automationsAtOnce, ids.length) }, takeTurns));
    return {
      live: found.filter((one): one is LiveAutomation => one !== null && 'manifest' in one),
      faults: [...found.filter((one): one is AutomationFault => one !== null && 'code' in one), ...flat].sort(byRef),
    };
  }

  async #readOne(
    app: string,
    versionId: string,
    version: VersionPaths,
    id: string,
  ): Promise<LiveAutomation | AutomationFault | null> {
    const ref = automationRef(app, id);
    try {
      const stored = await readAutomation(version, id);
      if (stored === null) return null;
      if ('manifest' in stored) return { ref, app, id, versionId, manifest: compact(stored.manifest) };
      const [{ code, path, message } = UNKNOWN_ISSUE] = stored.issues;
      return { ref, code, message: `${path === '' ? 'automation.json' : path} ${message}.`, path };
    } catch (error) {
      this.#options.log.error({ automation: ref, err: error }, 'The file of an automation could not be read.');
      return unreadable(ref);
    }
  }

  /** At most `LIMITS.automationsAtOnce` files are open, and the event loop gets to its other work between them. */
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#reading >= LIMITS.automationsAtOnce) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#reading++;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#reading--;
      else setImmediate(next);
    }
  }

  #replace(app: string, found: AppAutomations): void {
    const isEmpty = found.live.length + found.faults.length === 0;
    // Most apps have no automations, and a start reads every one of them.
    if (isEmpty && !this.#apps.has(app)) return;
    for (const automation of this.#apps.get(app)?.live ?? []) {
      this.#byRef.delete(automation.ref);
      this.#unclaim(automation);
    }
    if (isEmpty) this.#apps.delete(app);
    else this.#apps.set(app, found);
    for (const automation of found.live) {
      this.#byRef.set(automation.ref, automation);
      this.#claim(automation);
    }
    for (const listener of this.#listeners) listener(app);
  }

  #claim(automation: LiveAutomation): void {
    const slug = provisionedWebhook(automation.manifest)?.id;
    if (slug === undefined) return;
    const claimants = this.#bySlug.get(slug) ?? [];
    this.#bySlug.set(slug, [...claimants, automation].sort(byRef));
  }

  #unclaim(automation: LiveAutomation): void {
    const slug = provisionedWebhook(automation.manifest)?.id;
    if (slug === undefined) return;
    const claimants = (this.#bySlug.get(slug) ?? []).filter((claimant) => claimant !== automation);
    if (claimants.length === 0) this.#bySlug.delete(slug);
    else this.#bySlug.set(slug, claimants);
  }
}

/** Shared by the many that need nothing. */
const NO_REQUIREMENTS: LiveManifest['requires'] = {};
const UNKNOWN_ISSUE = { code: 'invalid_field', path: '', message: 'is not valid' };

function flatFault(app: string, name: string): AutomationFault {
  return { ref: automationRef(app, name), code: 'flat_file', ...flatAutomation(name) };
}

/** `app/*` where not even the list of them can be read. */
function unreadable(ref: string): AutomationFault {
  return { ref, code: 'INTERNAL', message: `"${ref}" cannot be read from the disk; the log says why.` };
}

/** Ten thousand may be registered: lists without room to grow, and one object for all that need nothing. */
function compact(manifest: AutomationManifest): LiveManifest {
  const { name, version, description, enabled, apps, onFailure, history } = manifest;
  const triggers = manifest.triggers.slice();
  const requires = Object.keys(manifest.requires).length === 0 ? NO_REQUIREMENTS : manifest.requires;
  const kept: LiveManifest = { name, version, enabled, triggers, requires, history };
  if (description !== undefined) kept.description = description;
  if (apps !== undefined) kept.apps = apps;
  if (onFailure !== undefined) kept.onFailure = onFailure;
  if (manifest.outputSchema !== undefined) kept.hasOutputSchema = true;
  return kept;
}

function byRef(a: { ref: string }, b: { ref: string }): number {
  return a.ref < b.ref ? -1 : Number(a.ref > b.ref);
}
