/**
 * Makes and checks the tokens of agents: a new one for each turn, valid only while that runs and for its app or draft. Guards
 * each tool that is called with one (specification, "Means of agents" and "Agents as callers"). Nothing is kept between turns.
 */
import { hash, randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { parseSessionKey } from '../../../protocol/agents/session-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { appOfKey, scopeKey } from '../../../protocol/ids.ts';
import type { ChatSql } from '../../../protocol/manifest.ts';
import type { HandlerCaller, HandlerUser } from '../../../protocol/wire/handler-caller.ts';
import { notConfirmed } from '../../dispatch/confirmation.ts';
import type { Confirm, Confirmation } from '../../dispatch/request.ts';
import type { Exchange } from '../../edge/edge.ts';
import { BEARER, unauthorized } from './access.ts';
import { type Caller, type Grant, may } from './grants.ts';

const PREFIX = 'svca_';

/** A turn of an agent, and what its token may do. */
export type AgentTurn = {
  /** The session key of its conversation. */
  readonly conversation: string;
  /** The agent's name in the configuration. */
  readonly runner: string;
  /** The key of the app whose tools the agent may use: the id of a live app, or the key of a draft. */
  readonly app: string;
  /** The session of that draft; null for a live app. */
  readonly draft: string | null;
  readonly may: readonly AgentCapability[];
  /** What the agent may do with the `svc_sql_*` tools, as far as `may` has it. */
  readonly sql: ChatSql;
  /** True for the agent of an automation, where there is nobody to ask. */
  readonly alone: boolean;
  /** The person whose turn it is, as handlers see them. It ends when they lose the role. */
  readonly user?: HandlerUser;
};

/** What an agent may call: tools that read, and tools that write. */
export type AgentCapability = 'read' | 'write';

type NewAgentTurn = Pick<AgentTurn, 'conversation' | 'runner'> &
  Partial<Pick<AgentTurn, 'draft' | 'may' | 'sql' | 'alone' | 'user'>>;

const BOTH = ['read', 'write'] as const;

/** `ended`: a token is good no more, so what was opened with it must end. */
export class AgentTokens extends EventEmitter<{ ended: [] }> {
  /** Maps the digest of a token to its rights, so that the time of a look-up does not reveal a token. */
  readonly #active = new Map<string, AgentTurn>();
  readonly #confirm: (conversation: string, ...asked: Parameters<Confirm>) => Promise<void>;

  /** `confirm` asks the person of a conversation before an action that wants it runs for the agent (`Confirm`). */
  constructor(confirm: (conversation: string, ...asked: Parameters<Confirm>) => Promise<void> = async () => {}) {
    super();
    this.#confirm = confirm;
  }

  /**
   * Makes the token of a turn of a conversation, which works until `end` is called. `draft` is the session in whose draft the
   * turn works. Throws for what is no session key.
   */
  begin({ conversation, runner, draft = null, may = BOTH, sql = 'write', alone = false, user }: NewAgentTurn): {
    token: string;
    end: () => void;
  } {
    const name = parseSessionKey(conversation);
    if (name === null) throw new TypeError(`"${conversation}" is no session key.`);
    const session = name.draft ?? draft;
    const token = PREFIX + randomBytes(32).toString('hex');
    const digest = hash('sha256', token);
    this.#active.set(digest, {
      conversation,
      runner,
      app: scopeKey(name.app, session),
      draft: session,
      may,
      sql,
      alone,
      ...(user && { user }),
    });
    const end = (): void => {
      if (this.#active.delete(digest)) this.emit('ended');
    };
    return { token, end };
  }

  /** Asks the person of the conversation. An automation has nobody to ask, so its actions run. Rejects with `NOT_CONFIRMED`. */
  async confirm({ conversation, alone }: AgentTurn, asked: Confirmation, signal?: AbortSignal): Promise<void> {
    if (!alone) await this.#confirm(conversation, asked, signal);
  }

  /** The rights of a presented token. They are undefined unless its turn runs. */
  find(token: string): AgentTurn | undefined {
    return token.startsWith(PREFIX) ? this.#active.get(hash('sha256', token)) : undefined;
  }
}

/**
 * The caller with the token of a turn. It may use the tools of one app or draft while its turn runs: each question asks anew.
 */
export class AgentCaller implements Caller {
  readonly kind = 'agent';
  readonly owner = null;
  readonly client: string;
  readonly identity: string;
  readonly grants: readonly Grant[];
  readonly turn: AgentTurn;
  /** Asks the person whose turn it is. */
  readonly confirm: Confirm;
  readonly #isGood: () => boolean;

  constructor(turn: AgentTurn, isGood: () => boolean, confirm: Confirm) {
    this.turn = turn;
    this.confirm = confirm;
    this.client = `agent ${turn.conversation}`;
    this.identity = this.client;
    this.#isGood = isGood;
    this.grants = [{ on: { key: turn.app }, rights: turn.may, expiresAt: null, isGood }];
  }

  shown(): HandlerCaller {
    const { runner: name, user } = this.turn;
    return { kind: 'agent', name, ...(user && { user }) };
  }

  get ended(): boolean {
    return !this.#isGood();
  }

  refusal(): string {
    const { app, may: rights } = this.turn;
    if (this.ended) return 'The turn of this agent has ended.';
    const own = `An agent may use the tools of its own app only, which is "${appOfKey(app)}".`;
    return rights.length === 2 ? own : `${own} Its automation lets it use those that "requires.tools" names.`;
  }

  /**
   * Checks the app that a tool names, before the tool runs. Throws `FORBIDDEN` unless it is the one of the agent's session key.
   */
  guard(app: string, capability: AgentCapability): void {
    const own = parseSessionKey(this.turn.conversation);
    if (own !== null && own.app === app && may(this, capability, this.turn.app)) return;
    throw new SvcError('FORBIDDEN', this.refusal());
  }

  /** Whether the agent has the SQL tools that read, or that write. */
  hasSql(capability: AgentCapability): boolean {
    const { sql } = this.turn;
    return sql === 'write' || sql === capability;
  }

  /** Checks the same before one of the SQL tools runs. Throws `FORBIDDEN` also where this chat has no such tool. */
  guardSql(app: string, capability: AgentCapability): void {
    this.guard(app, capability);
    if (this.hasSql(capability)) return;
    const why = `This chat may not ${capability} by SQL: "chat": { "sql": "${capability}" } in app.json of "${app}" would let it.`;
    throw new SvcError('FORBIDDEN', why);
  }
}

/** The caller of a request with an agent's token, or the error to answer. It is null for every other request. */
export function agentCaller(exchange: Exchange, tokens: AgentTokens): AgentCaller | SvcError | null {
  if (!isOfAgent(exchange)) return null;
  return callerOfTurn(BEARER.exec(exchange.header('authorization') ?? '')?.[1] ?? '', tokens);
}

/** Whether a request has an agent's token, good or not. */
export function isOfAgent(exchange: Pick<Exchange, 'header'>): boolean {
  return exchange.header('authorization')?.includes(PREFIX) === true;
}

/** The caller with the token of a turn, or the error to answer when the token is not good. */
export function callerOfTurn(token: string, tokens: AgentTokens): AgentCaller | SvcError {
  const turn = tokens.find(token);
  if (turn === undefined) return unauthorized('The token of an agent is good only while a turn of it runs.');
  const isGood = () => tokens.find(token) === turn;
  return new AgentCaller(turn, isGood, async (asked, signal) => {
    // A call may be asked for after its turn has ended: the next turn is not asked for it.
    if (!isGood()) throw notConfirmed(asked, 'unanswered');
    await tokens.confirm(turn, asked, signal);
  });
}
