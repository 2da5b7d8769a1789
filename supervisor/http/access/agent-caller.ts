/** Decides what an agent with the token of its turn may do, and guards each of its tools (decisions, sections 8 and 11). */

import { parseSessionKey } from '../../../protocol/agents/session-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { appOfKey } from '../../../protocol/ids.ts';
import type { HandlerCaller } from '../../../protocol/wire/handler-caller.ts';
import { notConfirmed } from '../../dispatch/confirmation.ts';
import type { Confirm } from '../../dispatch/request.ts';
import type { Exchange } from '../../edge/edge.ts';
import { BEARER, type Caller, unauthorized } from './access.ts';
import type { AgentCapability, AgentGrant, AgentTokens } from './agent-tokens.ts';
import type { Capability } from './grants.ts';

/** May use the tools of one app or draft, as long as its turn runs: each question asks anew. */
export class AgentCaller implements Caller {
  readonly kind = 'agent';
  readonly owner = null;
  readonly client: string;
  readonly identity: string;
  readonly expiresAt = null;
  readonly grant: AgentGrant;
  /** Asks the person whose turn it is. */
  readonly confirm: Confirm;
  readonly #isGood: () => boolean;

  constructor(grant: AgentGrant, isGood: () => boolean, confirm: Confirm) {
    this.grant = grant;
    this.confirm = confirm;
    this.client = `agent ${grant.conversation}`;
    this.identity = this.client;
    this.#isGood = isGood;
  }

  shown(): HandlerCaller {
    return { kind: 'agent', name: this.grant.runner };
  }

  get ended(): boolean {
    return !this.#isGood();
  }

  may(capability: Capability, app: string | null): boolean {
    return this.grant.may.some((one) => one === capability) && app === this.grant.app && this.#isGood();
  }

  refusal(): string {
    const { app, may } = this.grant;
    if (!this.#isGood()) return 'The turn of this agent has ended.';
    const own = `An agent may use the tools of its own app only, which is "${appOfKey(app)}".`;
    return may.length === 2 ? own : `${own} Its automation lets it use those that "requires.tools" names.`;
  }

  /** Before a tool of this agent runs that names an app. Throws `FORBIDDEN` unless it is the one of its session key. */
  guard(app: string, capability: AgentCapability): void {
    const own = parseSessionKey(this.grant.conversation);
    if (own !== null && own.app === app && this.may(capability, this.grant.app)) return;
    throw new SvcError('FORBIDDEN', this.refusal());
  }

  /** Whether it has the SQL tools that read, or write. */
  hasSql(capability: AgentCapability): boolean {
    const { sql } = this.grant;
    return sql === 'write' || sql === capability;
  }

  /** As `guard`, before one of the SQL tools runs. */
  guardSql(app: string, capability: AgentCapability): void {
    this.guard(app, capability);
    if (this.hasSql(capability)) return;
    const why = `This chat may not ${capability} by SQL: "chat": { "sql": "${capability}" } in app.json of "${app}" would let it.`;
    throw new SvcError('FORBIDDEN', why);
  }
}

/** The caller with an agent's token; null for every other request. */
export function agentCaller(exchange: Exchange, tokens: AgentTokens): AgentCaller | SvcError | null {
  const authorization = exchange.header('authorization');
  if (authorization === undefined || !authorization.includes('svca_')) return null;
  return callerOfTurn(BEARER.exec(authorization)?.[1] ?? '', tokens);
}

/** The caller with the token of a turn; the error to answer when it is not good. */
export function callerOfTurn(token: string, tokens: AgentTokens): AgentCaller | SvcError {
  const grant = tokens.find(token);
  if (grant === undefined) return unauthorized('The token of an agent is good only while a turn of it runs.');
  const isGood = () => tokens.find(token) === grant;
  return new AgentCaller(grant, isGood, async (asked, signal) => {
    // A call may be asked for after its turn has ended: the next turn is not asked for it.
    if (!isGood()) throw notConfirmed(asked, 'unanswered');
    await tokens.confirm(grant, asked, signal);
  });
}
