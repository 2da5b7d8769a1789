/**
 * Opens a workspace with a draft of the app for each conversation in mode `full`, and reports the files that a turn changes there
 * (specification, "Modes").
 */
import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import type { ConversationName } from '../../../protocol/agents/session-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { FolderChanges } from '../../../storage/files/folder-changes.ts';
import { checkDraft, type DraftFinding } from '../../authoring/draft-check.ts';
import type { Workspaces } from '../../authoring/workspaces.ts';
import type { AutomationCatalog } from '../../automations/catalog.ts';
import { type PendingWebhookOf, pendingWebhooks } from '../../automations/pending-webhooks.ts';
import type { Drafts } from '../../drafts/drafts.ts';
import { SerialByKey } from '../../serial.ts';

type TurnDraftsOptions = {
  workspaces: Workspaces;
  drafts: Drafts;
  /** The live version. */
  catalog: AutomationCatalog;
  log: Pick<Logger, 'warn'>;
};

/** `leave` is called before the last events of the turn. */
export type EnteredDraft = { findings: DraftFinding[]; leave(): Promise<void> };

const WORKSPACE_CHARS = 64;
const HASH_CHARS = 16;

/** The workspace in which a conversation or window works. Where the id is too long for its name, the end is a hash. */
export function workspaceOf({ kind, app, draft, id }: ConversationName): string {
  if (draft !== undefined) return draft;
  const whole = kind === 'conversation' ? `conversation-${id}` : `window-${id}`;
  // Apps may have windows of the same id: these names always end in a hash.
  if (kind === 'conversation' && whole.length <= WORKSPACE_CHARS) return whole;
  const hash = createHash('sha256').update(`${app}/${id}`).digest('hex').slice(0, HASH_CHARS);
  return `${whole.slice(0, WORKSPACE_CHARS - HASH_CHARS - 1)}-${hash}`;
}

export class TurnDrafts {
  readonly #options: TurnDraftsOptions;
  readonly #serial = new SerialByKey();

  constructor(options: TurnDraftsOptions) {
    this.#options = options;
  }

  has(workspace: string): Promise<boolean> {
    return this.#options.workspaces.has(workspace);
  }

  /** Opens the workspace, of this name, with the app in it, unless it is open. Removes it again when that fails. Rejects as workspaces do. */
  async ensure(workspace: string, app: string, name?: string): Promise<void> {
    const { workspaces } = this.#options;
    await this.#serial.run(workspace, async () => {
      if (await workspaces.has(workspace)) {
        await workspaces.folder(workspace, app);
        return;
      }
      await workspaces.create(workspace, { unfinished: true, name });
      try {
        await workspaces.folder(workspace, app);
        await workspaces.keep(workspace);
      } catch (error) {
        await workspaces.remove(workspace).catch(() => {});
        throw error;
      }
    });
  }

  /** Closes the workspace of a deleted conversation, unless it is closed already. */
  async close(workspace: string): Promise<void> {
    try {
      await this.#serial.run(workspace, () => this.#options.workspaces.remove(workspace));
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== 'UNKNOWN_SESSION') throw error;
    }
  }

  /**
   * Begins a turn: `tell` gets an event for each file that changes in the draft. Resolves with what is wrong with the draft, and
   * with a function for the end of the turn, which reports the last changes and never rejects. Rejects as `ensure` does.
   */
  async enter(workspace: string, app: string, tell: (event: TurnEvent) => void): Promise<EnteredDraft> {
    await this.ensure(workspace, app);
    const { catalog, log, workspaces } = this.#options;
    const findings = await this.#findings(workspace, app);
    const folder = workspaces.pathOf(workspace, app);
    let automationsChanged = false;
    const changes = await FolderChanges.begin(folder, this.#options.drafts.budget, (change) => {
      if (change.path.startsWith('automations/')) automationsChanged = true;
      tell({ type: 'file', ...change });
    });
    const leave = async () => {
      await changes.end();
      await workspaces.share(workspace, app).catch((error: unknown) => {
        log.warn({ err: error, workspace, app }, 'What a turn changed in a draft is not with the other nodes yet.');
      });
      if (!automationsChanged) return;
      const pending = await pendingWebhooks(folder, app, catalog).catch((error): PendingWebhookOf[] => {
        log.warn({ err: error, app }, 'The automations of a draft could not be read.');
        return [];
      });
      if (pending.length > 0) tell({ type: 'webhooks', minted: [], pending });
    };
    return { findings, leave };
  }

  /** What its files have that an agent can repair; what others published since is for a person to take in. Never rejects. */
  async #findings(workspace: string, app: string): Promise<DraftFinding[]> {
    try {
      const { findings } = await checkDraft(this.#options, workspace, app);
      return findings.filter(({ code }) => code !== 'MERGE_CONFLICT');
    } catch (error) {
      this.#options.log.warn({ err: error, app }, 'A draft could not be checked before a turn.');
      return [];
    }
  }
}
