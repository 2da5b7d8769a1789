/**
 * Gives the agent of a turn what it has of the gateway while the turn runs: the token of its tools, its instructions, and the
 * folder that it works in (specification, "Means of agents").
 */
import { mkdir, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { HostTool } from '../../../protocol/agents/agents.ts';
import { sessionKey } from '../../../protocol/agents/session-key.ts';
import type { ChatSql } from '../../../protocol/manifest.ts';
import type { Layout } from '../../../storage/layout.ts';
import { manifestOf } from '../../dispatch/describe.ts';
import type { Scope, ScopesOf } from '../../dispatch/scope.ts';
import type { ConversationTurn } from '../../extension-points.ts';
import type { AgentCapability, AgentTokens } from '../../http/access/agent-tokens.ts';
import type { Grounding } from './grounding.ts';

export type TurnMeansOptions = {
  grounding: Pick<Grounding, 'of'>;
  tokens: Pick<AgentTokens, 'begin'>;
  scopes: ScopesOf;
  /** Null on the tarball backend. */
  gitStore: { workspaces: { folder(workspace: string, app: string): Promise<string> } } | null;
  layout: Pick<Layout, 'agentFolder'>;
};

export class TurnMeans {
  readonly #options: TurnMeansOptions;

  constructor(options: TurnMeansOptions) {
    this.#options = options;
  }

  /** The session key of the turn's conversation, and the token of its agent, good until `end` or the turn's signal. */
  async begin(turn: ConversationTurn, runner: string): Promise<{ conversation: string; token: string; end(): void }> {
    const { app, draft, windowId, signal, user } = turn;
    const id = { app, id: windowId, ...(draft === undefined ? {} : { draft }) };
    const conversation = turn.conversation ?? sessionKey({ kind: 'window', ...id });
    const { token, end } = this.#options.tokens.begin({
      conversation,
      runner,
      draft: draft ?? null,
      sql: await this.#sqlOf(turn),
      ...limitOf(turn),
      alone: turn.run !== undefined,
      ...(user && { user }),
    });
    // At once: until it has stopped, an agent does nothing more here.
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    return {
      conversation,
      token,
      end: () => {
        signal.removeEventListener('abort', end);
        end();
      },
    };
  }

  /** The text before the first message. Rejects as `Grounding.of`. */
  async instructions(turn: ConversationTurn, hostTools: HostTool[]): Promise<string> {
    const { mode = 'data' } = turn;
    return await this.#options.grounding.of({ mode, scope: this.#scopeOf(turn), hostTools });
  }

  /** The draft in mode `full`; else `cwd`, or an empty one of the window. */
  async folder(turn: ConversationTurn, cwd?: string): Promise<string> {
    const { gitStore } = this.#options;
    const { app, draft, mode } = turn;
    if (mode === 'full' && draft !== undefined && gitStore) return await gitStore.workspaces.folder(draft, app);
    if (cwd !== undefined) return resolve(cwd);
    const folder = this.#emptyFolder(turn);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return folder;
  }

  /** Removes what only a turn of an automation had. */
  async clear(turn: ConversationTurn): Promise<void> {
    if (turn.run) await rm(this.#emptyFolder(turn), { recursive: true, force: true });
  }

  /** What the agent may do by SQL: where who asks does not manage the app, the app says so. */
  async #sqlOf(turn: ConversationTurn): Promise<ChatSql> {
    if (turn.limited !== true) return 'write';
    return (await manifestOf(this.#scopeOf(turn))).chat?.sql ?? 'read';
  }

  #scopeOf({ app, draft }: ConversationTurn): Scope {
    return this.#options.scopes(draft).of(app);
  }

  #emptyFolder({ app, windowId }: ConversationTurn): string {
    return this.#options.layout.agentFolder(app, windowId);
  }
}

/** `requires.tools` names the dispatcher's tools, of which the app's own are kinds. */
function limitOf({ run }: ConversationTurn): { may?: AgentCapability[] } {
  if (run?.tools === undefined) return {};
  const needed = { read: 'svc_read', write: 'svc_write' } as const;
  const all = Object.keys(needed) as AgentCapability[];
  return { may: all.filter((capability) => run.tools?.includes(needed[capability])) };
}
