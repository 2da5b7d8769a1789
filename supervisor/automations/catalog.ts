/**
 * Keeps the automations of every active version as last read from their files, and finds them by ref and slug without a scan.
 */
import type { Logger } from 'pino';
import {
  type AutomationManifest,
  automationRef,
  flatAutomation,
  provisionedWebhook,
} from '../../protocol/automations/automation.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { FAULT } from '../../protocol/routes/automations/automations-rows.ts';
import type { Of } from '../../protocol/shapes/schema.ts';
import type { Registry } from '../../storage/apps/registry.ts';
import { listAutomations, readAutomation } from '../../storage/automations/automation-files.ts';
import { inParallel } from '../../storage/files/atomic-file.ts';
import type { Layout, VersionPaths } from '../../storage/layout.ts';

/** The members of a manifest kept in memory; the others are read from its file. */
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
 * A file that cannot be used. `code`: an `AutomationIssueCode`, `flat_file` for a file that is not read, `INTERNAL` for the
 * disk.
 */
export type AutomationFault = Of<typeof FAULT>;

type CatalogOptions = {
  layout: Layout;
  registry: Registry;
  log: Pick<Logger, 'warn' | 'error'>;
};

type AppAutomations = { live: LiveAutomation[]; faults: AutomationFault[] };

export class AutomationCatalog {
  readonly #options: CatalogOptions;
  /** Apps that have any. */
  readonly #apps = new Map<string, AppAutomations>();
  readonly #byRef = new Map<string, LiveAutomation>();
  /** Slug → those that claim it, sorted by ref. */
  readonly #bySlug = new Map<string, LiveAutomation[]>();
  /** Slug → the app that was released. */
  readonly #moved = new Map<string, string>();
  readonly #listeners: ((app: string) => void)[] = [];
  /** Loads of an app under way; only the latest one counts. */
  readonly #loads = new Map<string, symbol>();

  constructor(options: CatalogOptions) {
    this.#options = options;
  }

  /** Reads the active versions of these apps. Never rejects: what cannot be read is a fault. */
  async serve(apps: Iterable<string>): Promise<void> {
    await inParallel(apps, LIMITS.automationsAtOnce, (id) => this.load(id));
  }

  /** Another node has the app: senders to its webhooks are told to come back. */
  release(app: string): void {
    for (const slug of this.slugsOf(app)) this.#moved.set(slug, app);
    this.forget(app);
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
    // A later load, or the removal of the app, has replaced this one.
    if (this.#loads.get(app) !== load) return;
    this.#loads.delete(app);
    for (const [slug, holder] of this.#moved) if (holder === app) this.#moved.delete(slug);
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

  /** The first automation by ref whose webhook has this slug (specification, "Webhook requests"). */
  bySlug(slug: string): LiveAutomation | undefined {
    return this.#bySlug.get(slug)?.[0];
  }

  /** The slugs of an app's webhooks, also once it was released: a change that ends after that must not give them up. */
  slugsOf(app: string): string[] {
    const released = [...this.#moved].flatMap(([slug, holder]) => (holder === app ? slug : []));
    return [...this.list(app).flatMap(({ manifest }) => provisionedWebhook(manifest)?.id ?? []), ...released];
  }

  /** The app whose webhook has this slug, if another node has it now, too. */
  holderOf(slug: string): string | undefined {
    return this.bySlug(slug)?.app ?? this.#moved.get(slug);
  }

  /** `listener` is told synchronously after the automations of an app were read or forgotten; not of apps that had and have none. */
  onChange(listener: (app: string) => void): void {
    this.#listeners.push(listener);
  }

  async #read(app: string): Promise<AppAutomations> {
    const { layout, registry } = this.#options;
    if (!registry.has(app)) return { live: [], faults: [] };
    // A start waits for every app, and most have none.
    const seen = await registry.glance(app);
    if (seen !== null && seen.automations === 0 && !seen.flatAutomations?.length) return { live: [], faults: [] };
    const { active } = await registry.state(app);
    if (active === null) return { live: [], faults: [] };
    const { versionId, flatAutomations = [], automations } = active;
    const found: AppAutomations = { live: [], faults: flatAutomations.map((name) => flatFault(app, name)) };
    if (automations === 0) return found;
    const version = layout.app(app).version(versionId);
    // One after another: other apps are read meanwhile, and every wait lets the event loop get to its other work.
    for (const id of await listAutomations(version)) {
      const one = await this.#readOne(app, versionId, version, id);
      if (one === null) continue;
      if ('manifest' in one) found.live.push(one);
      else found.faults.push(one);
    }
    found.faults.sort(byRef);
    return found;
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

  #replace(app: string, found: AppAutomations): void {
    const isEmpty = found.live.length + found.faults.length === 0;
    // Most apps have no automations, and a start reads every one of them.
    if (isEmpty && !this.#apps.has(app)) return;
    for (const automation of this.#apps.get(app)?.live ?? []) {
      this.#byRef.delete(automation.ref);
      this.#claim(automation, (claimants) => claimants.filter((one) => one !== automation));
    }
    if (isEmpty) this.#apps.delete(app);
    else this.#apps.set(app, found);
    for (const automation of found.live) {
      this.#byRef.set(automation.ref, automation);
      this.#claim(automation, (claimants) => [...claimants, automation].sort(byRef));
    }
    for (const listener of this.#listeners) listener(app);
  }

  #claim({ manifest }: LiveAutomation, change: (claimants: LiveAutomation[]) => LiveAutomation[]): void {
    const slug = provisionedWebhook(manifest)?.id;
    if (slug === undefined) return;
    const claimants = change(this.#bySlug.get(slug) ?? []);
    if (claimants.length > 0) this.#bySlug.set(slug, claimants);
    else this.#bySlug.delete(slug);
  }
}

/** Shared by the many automations without requirements. */
const NO_REQUIREMENTS: LiveManifest['requires'] = {};
const UNKNOWN_ISSUE = { code: 'invalid_field', path: '', message: 'is not valid' };

function flatFault(app: string, name: string): AutomationFault {
  return { ref: automationRef(app, name), code: 'flat_file', ...flatAutomation(name) };
}

/** `app/*` where not even the list of them can be read. */
function unreadable(ref: string): AutomationFault {
  return { ref, code: 'INTERNAL', message: `"${ref}" cannot be read from the disk; the log says why.` };
}

/** There may be ten thousand: lists without spare capacity, and one shared object for those without requirements. */
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
