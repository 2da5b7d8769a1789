/**
 * Makes and checks the tokens of agents: a new one for each turn, valid only while that runs and for its app or draft (decisions,
 * section 12). Nothing is kept between turns.
 */
import { hash, randomBytes } from 'node:crypto';
import { parseSessionKey } from '../../../protocol/agents/session-key.ts';
import { draftKey } from '../../../protocol/ids.ts';
import type { ChatSql } from '../../../protocol/manifest.ts';
import type { Confirm, Confirmation } from '../../dispatch/request.ts';

const PREFIX = 'svca_';

/** The rights of an agent's token. */
export type AgentGrant = {
  /** The session key of its conversation. */
  readonly conversation: string;
  /** The agent's name in the configuration. */
  readonly runner: string;
  /** The key of the app whose tools it may use: the id of a live app, or the key of a draft. */
  readonly app: string;
  /** The session of that draft; null for a live app. */
  readonly draft: string | null;
  readonly may: readonly AgentCapability[];
  /** What it may do with the `svc_sql_*` tools, as far as `may` has it. */
  readonly sql: ChatSql;
  /** An automation's: there is nobody to ask. */
  readonly alone: boolean;
};

/** To call what reads, and what writes. */
export type AgentCapability = 'read' | 'write';

type AgentTurn = Pick<AgentGrant, 'conversation' | 'runner'> &
  Partial<Pick<AgentGrant, 'draft' | 'may' | 'sql' | 'alone'>>;

const BOTH = ['read', 'write'] as const;

export class AgentTokens {
  /** By the token's digest, so that the time of a look-up does not reveal its text. */
  readonly #active = new Map<string, AgentGrant>();
  #onEnded: () => void = () => {};
  #confirm: (conversation: string, ...asked: Parameters<Confirm>) => Promise<void> = async () => {};

  /**
   * A turn of a conversation begins: its token works until `end` is called. `draft` is the session in whose draft the turn works.
   * Throws for what is no session key.
   */
  begin({ conversation, runner, draft = null, may = BOTH, sql = 'write', alone = false }: AgentTurn): {
    token: string;
    end: () => void;
  } {
    const name = parseSessionKey(conversation);
    if (name === null) throw new TypeError(`"${conversation}" is no session key.`);
    const session = name.draft ?? draft;
    const app = session === null ? name.app : draftKey(session, name.app);
    const token = PREFIX + randomBytes(32).toString('hex');
    const digest = hash('sha256', token);
    this.#active.set(digest, { conversation, runner, app, draft: session, may, sql, alone });
    const end = (): void => {
      if (this.#active.delete(digest)) this.#onEnded();
    };
    return { token, end };
  }

  /** Called when a token is good no more: what was opened with it must end. */
  whenEnded(call: () => void): void {
    this.#onEnded = call;
  }

  /** Called before an action that wants a confirmation runs for the agent of a conversation; see `Confirm`. */
  confirmWith(call: (conversation: string, ...asked: Parameters<Confirm>) => Promise<void>): void {
    this.#confirm = call;
  }

  /** Asks the person of its conversation. An automation has nobody to ask: its actions run. Rejects with `NOT_CONFIRMED`. */
  async confirm({ conversation, alone }: AgentGrant, asked: Confirmation, signal?: AbortSignal): Promise<void> {
    if (!alone) await this.#confirm(conversation, asked, signal);
  }

  /** The rights of a presented token; undefined unless its turn runs. */
  find(token: string): AgentGrant | undefined {
    return token.startsWith(PREFIX) ? this.#active.get(hash('sha256', token)) : undefined;
  }
}
