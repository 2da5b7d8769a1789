/**
 * Creates and changes apps without an editor: a blank app, a template, new names, automations (specification,
 * "Changes without an editor"). It works in the caller's workspace or in a new one, and publishes at once when the caller says
 * so.
 */
import type { NewWebhook } from '../../protocol/automations/automation.ts';
import { SvcError } from '../../protocol/errors.ts';
import { checkAppId, freeId, freeName, nameFromId, unknownWorkspace } from '../../protocol/ids.ts';
import type { LayOutJob } from '../../protocol/wire/jobs.ts';
import type { Registry } from '../../storage/apps/registry.ts';
import type { PublishOptions } from '../deployments/deploy.ts';
import type { PublishResult } from '../deployments/deployed.ts';
import type { Apps } from '../dispatch/apps.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { SerialByKey } from '../serial.ts';
import { templateFolder } from '../tree/entry-points.ts';
import {
  type AppChange,
  type AutomationDraft,
  changeApp,
  createAutomation,
  deleteAutomation,
  readName,
  updateAutomation,
} from './app-edits.ts';
import type { Templates } from './templates.ts';
import type { ReplaceAutomation, Workspaces } from './workspaces.ts';

type AuthoringOptions = {
  workspaces: Workspaces;
  templates: Templates;
  jobs: Jobs;
  registry: Registry;
  apps: Apps;
  /** Whether this node serves an app of this id. */
  serves(id: string): boolean;
};

/**
 * Where a change is staged, and for whom. `sessionId` names an open workspace; without one, a new one is made. `origin` is where the gateway is reached, `maker` and `by` say
 * who asks, `message` is that of the publication.
 */
export type StagingOptions = Pick<PublishOptions, 'maker' | 'by' | 'message'> & {
  sessionId?: string;
  publish?: boolean;
  origin: string;
};

/**
 * `sessionId` is where the change is staged; null when it was published from a workspace that was made for it and is closed
 * again. `staged`: it is not published yet.
 */
export type Staged = { app: string; sessionId: string | null; staged: boolean; published?: PublishResult };

const CLONES = 'clones';

export class Authoring {
  readonly #options: AuthoringOptions;
  readonly #clones = new SerialByKey();

  constructor(options: AuthoringOptions) {
    this.#options = options;
  }

  /** A blank app. Rejects with `CONFLICT` when the id is taken. */
  async create(id: string, name: string | undefined, where: StagingOptions): Promise<Staged> {
    this.#checkFree(id);
    return this.#layOut(id, { blank: templateFolder('_blank') }, name ?? nameFromId(id), where);
  }

  /** An app like a template, under an id of this node and a name that are free. Rejects with `UNKNOWN_TEMPLATE`, `CONFLICT`. */
  async clone(
    templateId: string,
    { id: wanted, name: wantedName }: { id?: string | undefined; name?: string | undefined },
    where: StagingOptions,
  ): Promise<Staged> {
    const template = await this.#options.templates.source(templateId);
    // One after the other, so that no two choose the same id.
    return this.#clones.run(CLONES, () => this.#clone(template, wanted, wantedName, where));
  }

  async #clone(
    { row, source }: Awaited<ReturnType<Templates['source']>>,
    wanted: string | undefined,
    wantedName: string | undefined,
    where: StagingOptions,
  ): Promise<Staged> {
    if (wanted !== undefined) this.#checkFree(wanted);
    const { registry, serves } = this.#options;
    const states = await registry.states();
    const apps = new Map(states.map((state) => [state.id, state.active?.name ?? state.id]));
    const staged = await this.#staged(apps);
    const ids = new Set(staged.map((one) => one.app));
    const isFree = (candidate: string) => !registry.has(candidate) && !ids.has(candidate) && serves(candidate);
    const id = wanted ?? freeId(row.id, (candidate) => !isFree(candidate));
    const names = new Set([...apps.values(), ...staged.map((one) => one.name)]);
    const name = wantedName ?? freeName(row.name, (candidate) => names.has(candidate));
    return this.#layOut(id, source, name === row.name ? null : name, where);
  }

  #layOut(id: string, source: LayOutJob['source'], name: string | null, where: StagingOptions): Promise<Staged> {
    const { workspaces, jobs, apps } = this.#options;
    return this.#inWorkspace(id, where, async (sessionId) => {
      if ((await workspaces.holders(id)).length === 0) await apps.forgetChats(id);
      await workspaces.add(sessionId, id, async (to) => void (await jobs.layOut({ source, to, id, name })));
    });
  }

  /** The apps that are in workspaces only. One whose workspace goes meanwhile, or whose `app.json` is damaged, has no name. */
  async #staged(live: ReadonlyMap<string, string>): Promise<{ app: string; name: string | null }[]> {
    const { workspaces } = this.#options;
    const found = (await workspaces.list()).flatMap(({ sessionId, apps }) =>
      apps.filter((app) => !live.has(app)).map((app) => ({ sessionId, app })),
    );
    return Promise.all(
      found.map(async ({ sessionId, app }) => ({ app, name: await readName(workspaces.pathOf(sessionId, app)) })),
    );
  }

  /** Rejects as `changeApp` does. */
  change(app: string, change: AppChange, where: StagingOptions): Promise<Staged> {
    return this.#edit(app, where, (folder) => changeApp(folder, change));
  }

  /** Rejects with `CONFLICT` when there is one of this id, and with `INVALID_AUTOMATION`. */
  createAutomation(app: string, draft: AutomationDraft & { id: string }, where: StagingOptions): Promise<Staged> {
    return this.#edit(app, where, (folder, replace) => createAutomation(folder, draft, replace));
  }

  /** Rejects with `UNKNOWN_AUTOMATION`, `INVALID_AUTOMATION`. */
  updateAutomation(app: string, draft: AutomationDraft & { id: string }, where: StagingOptions): Promise<Staged> {
    return this.#edit(app, where, (folder, replace) => updateAutomation(folder, draft, replace));
  }

  /** Rejects with `UNKNOWN_AUTOMATION`. */
  deleteAutomation(app: string, id: string, where: StagingOptions): Promise<Staged> {
    return this.#edit(app, where, (folder, replace) => deleteAutomation(folder, id, replace));
  }

  #edit(
    app: string,
    where: StagingOptions,
    work: (folder: string, replace: ReplaceAutomation) => Promise<void>,
  ): Promise<Staged> {
    return this.#inWorkspace(app, where, (sessionId) => this.#options.workspaces.edit(sessionId, app, work));
  }

  /** Live apps only: `Workspaces.add` looks at the workspace and at `main`. */
  #checkFree(id: string): void {
    checkAppId(id);
    if (this.#options.registry.has(id))
      throw new SvcError('CONFLICT', `An app "${id}" already exists; choose another id.`, { path: 'id' });
  }

  /** A workspace that was made for the work goes again when the work fails, or when it was published. */
  async #inWorkspace(
    app: string,
    { sessionId: given, publish = false, ...options }: StagingOptions,
    work: (sessionId: string) => Promise<void>,
  ): Promise<Staged> {
    const { workspaces } = this.#options;
    if (given !== undefined && !(await workspaces.has(given))) throw unknownWorkspace(given);
    const sessionId = given ?? (await workspaces.create(undefined, { unfinished: true })).sessionId;
    let keep = given !== undefined;
    try {
      await work(sessionId);
      if (!publish) {
        if (!keep) await workspaces.keep(sessionId);
        keep = true;
        return { app, sessionId, staged: true };
      }
      const published = await workspaces.publish(sessionId, { app, ...options });
      return { app, sessionId: keep ? sessionId : null, staged: false, published };
    } finally {
      if (!keep) await workspaces.remove(sessionId);
    }
  }
}

/** The webhooks of what was published. */
export function webhooksOf({ published }: Staged): NewWebhook[] {
  return published?.webhooks ?? [];
}
