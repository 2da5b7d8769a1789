/**
 * What creates and changes apps without an editor: a blank app, a template, new names, automations (decisions, section 7). All
 * of it is done in a session, the caller's or one of its own, and published at once when the caller says so.
 */

import { freeId, freeName, nameFromId } from '../../protocol/app-names.ts';
import type { MintedWebhook } from '../../protocol/automation.ts';
import { SvcError } from '../../protocol/errors.ts';
import { checkAppId, unknownSession } from '../../protocol/ids.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { SerialByKey } from '../serial.ts';
import { type AutomationDraft, createAutomation, deleteAutomation, updateAutomation } from './automation-files.ts';
import { editManifest, readName } from './manifest-file.ts';
import type { Published } from './session-publishing.ts';
import type { Sessions } from './sessions.ts';
import type { Templates } from './templates.ts';

export type AuthoringOptions = {
  sessions: Sessions;
  templates: Templates;
  jobs: Pick<Jobs, 'layOut'>;
  /** The folder of the blank app. */
  blank: string;
  /** The apps that are registered, by id, with their names. */
  live(): Promise<ReadonlyMap<string, string>>;
  now(): number;
};

/** `sessionId` names an open session; without one, a new one is made. `origin` is where the gateway is reached. */
export type Where = { sessionId?: string; publish?: boolean; origin: string };

/**
 * `sessionId` is where the change is staged; null when it was published from a session that was made for it and is closed
 * again. `staged`: it is not published yet.
 */
export type Staged = { app: string; sessionId: string | null; staged: boolean; published?: Published };

const CLONES = 'clones';

export class Authoring {
  readonly #options: AuthoringOptions;
  readonly #clones = new SerialByKey();

  constructor(options: AuthoringOptions) {
    this.#options = options;
  }

  /** A blank app. Rejects with `CONFLICT` when the id is taken. */
  async create(id: string, name: string | undefined, where: Where): Promise<Staged> {
    checkAppId(id);
    await this.#checkFree(id);
    return this.#inSession(id, where, async (sessionId) => {
      const { jobs, sessions, blank } = this.#options;
      await sessions.add(sessionId, id, async (to) => {
        await jobs.layOut({ source: { blank }, to, id, name: name ?? nameFromId(id) });
      });
    });
  }

  /** An app like a template, under an id and a name that are free. Rejects with `UNKNOWN_TEMPLATE`, `CONFLICT`. */
  async clone(
    templateId: string,
    { id: wanted, name: wantedName }: { id?: string | undefined; name?: string | undefined },
    where: Where,
  ): Promise<Staged> {
    const template = await this.#options.templates.source(templateId);
    // One after the other, so that no two choose the same id.
    return this.#clones.run(CLONES, () => this.#clone(template, wanted, wantedName, where));
  }

  async #clone(
    { row, source }: Awaited<ReturnType<Templates['source']>>,
    wanted: string | undefined,
    wantedName: string | undefined,
    where: Where,
  ): Promise<Staged> {
    const { sessions, jobs, live } = this.#options;
    if (wanted !== undefined) {
      checkAppId(wanted);
      await this.#checkFree(wanted);
    }
    const apps = await live();
    const staged = await this.#staged(apps);
    const ids = new Set(staged.map((one) => one.app));
    const id = wanted ?? freeId(row.id, (candidate) => apps.has(candidate) || ids.has(candidate));
    const names = new Set([...apps.values(), ...staged.map((one) => one.name)]);
    const name = wantedName ?? freeName(row.name, (candidate) => names.has(candidate));
    return this.#inSession(id, where, (sessionId) =>
      sessions.add(sessionId, id, async (to) => {
        await jobs.layOut({ source, to, id, name: name === row.name ? null : name });
      }),
    );
  }

  /** The apps that are in sessions only. One whose session goes meanwhile, or whose `app.json` is damaged, has no name. */
  async #staged(live: ReadonlyMap<string, string>): Promise<{ app: string; name: string | null }[]> {
    const { sessions } = this.#options;
    const found = (await sessions.list()).flatMap(({ sessionId, apps }) =>
      apps.filter((app) => !live.has(app)).map((app) => ({ sessionId, app })),
    );
    return Promise.all(
      found.map(async ({ sessionId, app }) => ({ app, name: await readName(sessions.pathOf(sessionId, app)) })),
    );
  }

  /** Another name or description; an empty description removes it. */
  rename(app: string, change: { name?: string; description?: string }, where: Where): Promise<Staged> {
    return this.#inSession(app, where, (sessionId) =>
      this.#options.sessions.edit(sessionId, app, (folder) => editManifest(folder, change)),
    );
  }

  /** Rejects with `CONFLICT` when there is one of this id, and with `INVALID_AUTOMATION`. */
  async createAutomation(app: string, draft: AutomationDraft & { id: string }, where: Where): Promise<Staged> {
    return this.#inSession(app, where, (sessionId) =>
      this.#options.sessions.edit(sessionId, app, (folder, tools) =>
        createAutomation(folder, draft, this.#options.now(), tools),
      ),
    );
  }

  /** Rejects with `UNKNOWN_AUTOMATION`, `INVALID_AUTOMATION`. */
  updateAutomation(app: string, draft: AutomationDraft & { id: string }, where: Where): Promise<Staged> {
    return this.#inSession(app, where, (sessionId) =>
      this.#options.sessions.edit(sessionId, app, (folder, tools) =>
        updateAutomation(folder, draft, this.#options.now(), tools),
      ),
    );
  }

  /** Rejects with `UNKNOWN_AUTOMATION`. */
  deleteAutomation(app: string, id: string, where: Where): Promise<Staged> {
    return this.#inSession(app, where, (sessionId) =>
      this.#options.sessions.edit(sessionId, app, (folder, tools) => deleteAutomation(folder, id, tools)),
    );
  }

  /** Live apps only: `Sessions.add` looks at the session and at `main`. */
  async #checkFree(id: string): Promise<void> {
    if ((await this.#options.live()).has(id))
      throw new SvcError('CONFLICT', `An app "${id}" already exists; choose another id.`, { path: 'id' });
  }

  /** A session that was made for the work goes again when the work fails, or when it was published. */
  async #inSession(
    app: string,
    { sessionId: given, publish = false, origin }: Where,
    work: (sessionId: string) => Promise<void>,
  ): Promise<Staged> {
    const { sessions } = this.#options;
    if (given !== undefined && !(await sessions.has(given))) throw unknownSession(given);
    const sessionId = given ?? (await sessions.create(undefined, { unfinished: true })).sessionId;
    let keep = given !== undefined;
    try {
      await work(sessionId);
      if (!publish) {
        if (!keep) await sessions.keep(sessionId);
        keep = true;
        return { app, sessionId, staged: true };
      }
      const published = await sessions.publish(sessionId, { app, origin });
      return { app, sessionId: keep ? sessionId : null, staged: false, published };
    } finally {
      if (!keep) await sessions.remove(sessionId);
    }
  }
}

/** The webhooks of what was published. */
export function webhooksOf({ published }: Staged): MintedWebhook[] {
  return published?.webhooks ?? [];
}
