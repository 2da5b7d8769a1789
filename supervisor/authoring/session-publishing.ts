/** Publishes apps out of sessions, and brings the sessions up to date with what they published, after a crash too. */
import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import type { MintedWebhook } from '../../protocol/automation.ts';
import type { GitFile } from '../../protocol/git-jobs.ts';
import { exists } from '../../storage/atomic-file.ts';
import type { CodeStorePaths } from '../../storage/layout.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { branchOf, type SessionFolders, type SessionRepository } from './session-folders.ts';

export type Published = {
  id: string;
  /** n of the tag `<id>/v<n>`. */
  version: number;
  tag: string;
  sha: string;
  migrationsApplied: number[];
  webhooks: MintedWebhook[];
};

/**
 * Publishes the app as `folder` has it; `base` is the commit that the folder was taken from. Waits for `committed`, which is
 * told the version's commit, before anything of it can become live.
 */
export type PublishFolder = (
  app: string,
  draft: {
    folder: string;
    base: string | null;
    message: string | null;
    origin: string;
    committed: (commit: string) => Promise<void>;
  },
) => Promise<Published>;

export type SessionPublishingOptions = {
  store: CodeStorePaths;
  folders: SessionFolders;
  repository: SessionRepository;
  jobs: Pick<Jobs, 'sessionFiles'>;
  publish: PublishFolder;
  log: Pick<Logger, 'warn'>;
};

/** In the app's turn. */
export class SessionPublishing {
  readonly #options: SessionPublishingOptions;

  constructor(options: SessionPublishingOptions) {
    this.#options = options;
  }

  /** Rejects with the errors of decisions, section 7, and leaves the session as it was. */
  async publish(
    id: string,
    app: string,
    { message, origin }: { message: string | null; origin: string },
  ): Promise<Published> {
    const { store, folders, jobs, publish } = this.#options;
    const folder = await folders.checkedOut(id, app);
    const base = await folders.baseOf(id, app);
    const before = await folders.entry(id, app);
    const files = fingerprint(await jobs.sessionFiles({ work: 'list', folder }));
    let noted = false;
    // So that after a crash it is known that what went live came from here.
    const committed = async (commit: string): Promise<void> => {
      await folders.remember(id, app, { ...before, publishing: { commit, files } });
      noted = true;
    };
    const result = await publish(app, { folder, base, message, origin, committed }).catch(async (error: unknown) => {
      // Unless it may still become live, when the app is next needed. A note that stays is judged at the next start.
      if (noted && !(await exists(store.publishing(app)))) await folders.remember(id, app, before).catch(() => {});
      throw error;
    });
    await this.#bringUpToDate(id, app, { commit: result.sha, files });
    return result;
  }

  /**
   * The session's files become those that were published, so that the next edit is one of them. `files` is the fingerprint of
   * those that were sent; what was edited since stays.
   */
  async #bringUpToDate(id: string, app: string, { commit, files }: { commit: string; files: string }): Promise<void> {
    const { store, folders, repository, jobs, log } = this.#options;
    try {
      const published = fingerprint((await repository.files(app, commit)).files ?? []);
      const entry = { base: commit, ...folders.since(app) };
      // The author's next change must not be in conflict with this one.
      if (published === files) await folders.rememberSurely(id, app, entry, commit);
      else if (fingerprint(await jobs.sessionFiles({ work: 'list', folder: store.session(id).app(app) })) !== files)
        throw new Error('its files were edited while it was published');
      else {
        await folders.replace(
          id,
          app,
          async (staged) => {
            await repository.checkout(app, commit, staged);
            return entry;
          },
          commit,
        );
      }
      await repository.branch(branchOf(id), commit);
    } catch (error) {
      // It is published. What the session has of it is older, and merges with it like any other change.
      log.warn({ session: id, app, err: error }, 'A session could not be updated after its publication.');
    }
  }

  /** After a crash: what went live from here is the base of the next edits. */
  async finish(id: string): Promise<void> {
    const { store, folders, repository } = this.#options;
    for (const [app, { publishing, ...before }] of Object.entries((await folders.record(id)).apps)) {
      if (publishing === undefined) continue;
      if (await repository.isPublished(app, publishing.commit)) await this.#bringUpToDate(id, app, publishing);
      // Else it never happened, or it is not decided yet.
      else if (!(await exists(store.publishing(app)))) await folders.remember(id, app, before);
    }
  }
}

/** The same for the same files. */
export function fingerprint(files: GitFile[]): string {
  const lines = files.map(({ path, sha }) => `${path}\0${sha}\n`).sort();
  return createHash('sha256').update(lines.join('')).digest('hex');
}
