/**
 * The gateway's own `ConversationRunner`: completes a turn with runner, folder, instructions and token, sends it to the agents
 * process, and yields its events (decisions, section 12).
 */
import { randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { RunnerEvent, TurnOrder } from '../../../protocol/agents/agents.ts';
import { sessionKey } from '../../../protocol/agents/session-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { ChatSql } from '../../../protocol/manifest.ts';
import type { Layout } from '../../../storage/layout.ts';
import { manifestOf } from '../../dispatch/describe.ts';
import type { Dispatcher } from '../../dispatch/dispatcher.ts';
import type { ConversationRunner, ConversationTurn } from '../../extension-points.ts';
import type { AgentCapability, AgentTokens } from '../../http/access/agent-tokens.ts';
import type { ChosenRunner } from '../turns/turn-lane.ts';
import type { AskedRunner } from '../turns/turns.ts';
import type { AgentProcess } from './agent-process.ts';
import type { RunnerCatalog } from './catalog.ts';
import { findingsText, type Grounding } from './grounding.ts';
import { chooseModel, providerOf } from './models.ts';
import type { Runners } from './runners.ts';

/** Where drafts are and work; null on the tarball backend. */
export type DraftPlaces = {
  sessions: { folder(session: string, app: string): Promise<string> };
  drafts: { dispatcher(session: string): Dispatcher };
} | null;

export type OwnRunnerOptions = {
  runners: Runners;
  known: Pick<RunnerCatalog, 'models' | 'tools'>;
  agents: Pick<AgentProcess, 'run'>;
  grounding: Pick<Grounding, 'of'>;
  tokens: Pick<AgentTokens, 'begin'>;
  dispatcher: Dispatcher;
  gitStore: DraftPlaces;
  layout: Layout;
  /** Where the gateway listens; null while it does not, or when a host owns the server and did not say. */
  listening(): { url: string } | null;
};

export class OwnRunner {
  readonly #options: OwnRunnerOptions;

  constructor(options: OwnRunnerOptions) {
    this.#options = options;
  }

  /** Rejects as `TurnRunner.choose` says; a turn that is not refused here may begin. */
  async choose(asked: AskedRunner): Promise<ChosenRunner> {
    const { runners, known } = this.#options;
    const provider = asked.model === undefined ? null : providerOf(asked.model);
    const runner = await runners.choose(
      asked.runner ?? (provider !== null && runners.has(provider) ? provider : undefined),
      asked,
    );
    const entry = runners.entry(runner);
    const model = chooseModel({ runner, entry, asked: asked.model, models: known.models(runner) });
    runners.spec(runner);
    this.#address();
    // Without one the runner decides.
    return { runner, ...(model === null ? {} : { model }) };
  }

  readonly run: ConversationRunner = (turn) => this.#run(turn);

  async *#run(turn: ConversationTurn): AsyncGenerator<RunnerEvent> {
    const { app, draft, windowId, signal } = turn;
    const { agents, tokens } = this.#options;
    const chosen = await this.choose(turn);
    const id = { app, id: windowId, ...(draft === undefined ? {} : { draft }) };
    const conversation = turn.conversation ?? sessionKey({ kind: 'window', ...id });
    const { token, end } = tokens.begin({
      conversation,
      runner: chosen.runner,
      draft: draft ?? null,
      sql: await this.#sqlOf(turn),
      ...limitOf(turn),
      alone: turn.run !== undefined,
    });
    // At once: until it has stopped, an agent does nothing more here.
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    try {
      const order = await this.#order(turn, chosen, conversation, token);
      yield* agents.run(order, { signal, answer: turn.answer });
    } finally {
      signal.removeEventListener('abort', end);
      end();
      if (turn.run) await rm(this.#emptyFolder(turn), { recursive: true, force: true });
    }
  }

  /** What the agent may do by SQL: where who asks does not manage the app, the app says so. */
  async #sqlOf({ app, draft, limited }: ConversationTurn): Promise<ChatSql> {
    if (limited !== true) return 'write';
    return (await manifestOf(this.#dispatcherOf(draft).apps, app)).chat?.sql ?? 'read';
  }

  /** Throws `NOT_FOUND`. */
  #dispatcherOf(draft: string | undefined): Dispatcher {
    const { dispatcher, gitStore } = this.#options;
    if (draft === undefined) return dispatcher;
    if (gitStore === null) throw new SvcError('NOT_FOUND', 'This gateway has no drafts.');
    return gitStore.drafts.dispatcher(draft);
  }

  async #order(
    turn: ConversationTurn,
    { runner, model }: ChosenRunner,
    conversation: string,
    token: string,
  ): Promise<TurnOrder> {
    const { runners, known, grounding } = this.#options;
    const { app, draft, mode = 'data' } = turn;
    const { cwd, ...spec } = runners.spec(runner);
    const path = draft === undefined ? `/svc/${app}/_mcp` : `/svc/_draft/${draft}/${app}/_mcp`;
    const hostTools = [...known.tools(runner)];
    const { resume = null, history = [] } = turn;
    return {
      turnId: randomUUID(),
      conversation,
      runner: spec,
      mode,
      app,
      ...(draft === undefined ? {} : { draft }),
      folder: await this.#folder(turn, cwd),
      instructions: await grounding.of({ mode, app, dispatcher: this.#dispatcherOf(draft), hostTools }),
      ...(turn.findings === undefined ? {} : { notice: findingsText(turn.findings) }),
      message: turn.message,
      attachments: turn.attachments ?? [],
      model: model ?? null,
      thinking: turn.thinking ?? null,
      resume,
      history,
      begins: resume === null && history.length === 0,
      gateway: { url: `${this.#address()}${path}`, token },
      permission: permissionOf(turn, spec.permission),
      ...(turn.run === undefined ? {} : { once: true }),
    };
  }

  /** The draft in mode `full`; else that of the configuration, or an empty one of the window. */
  async #folder(turn: ConversationTurn, cwd: string | undefined): Promise<string> {
    const { gitStore } = this.#options;
    const { app, draft, mode } = turn;
    if (mode === 'full' && draft !== undefined && gitStore) return await gitStore.sessions.folder(draft, app);
    if (cwd !== undefined) return resolve(cwd);
    const folder = this.#emptyFolder(turn);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return folder;
  }

  #emptyFolder({ app, windowId }: ConversationTurn): string {
    return this.#options.layout.agentFolder(app, windowId);
  }

  /** Where an agent on this machine reaches the gateway. Throws `NO_RUNNER`. */
  #address(): string {
    const listening = this.#options.listening();
    if (listening === null) {
      const message =
        'Agents cannot reach this gateway: its host did not say where it listens. The host must give a `conversationRunner`, or call `setListening`.';
      throw new SvcError('NO_RUNNER', message);
    }
    const url = new URL(listening.url);
    // A wildcard address cannot be called.
    if (url.hostname === '0.0.0.0' || url.hostname === '[::]') url.hostname = '127.0.0.1';
    return url.origin;
  }
}

/** `requires.tools` names the dispatcher's tools, of which the app's own are kinds. */
function limitOf({ run }: ConversationTurn): { may?: AgentCapability[] } {
  if (run?.tools === undefined) return {};
  const needed = { read: 'svc_read', write: 'svc_write' } as const;
  const all = Object.keys(needed) as AgentCapability[];
  return { may: all.filter((capability) => run.tools?.includes(needed[capability])) };
}

/**
 * An automation has no one to ask: allows what `requires.tools` names, and denies everything else. Who does not manage the app gets
 * nothing but its tools.
 */
function permissionOf({ run, answer, limited }: ConversationTurn, configured: TurnOrder['permission'] = 'ask') {
  if (answer === undefined || limited === true) return 'deny';
  return run !== undefined && configured === 'allow' ? 'ask' : configured;
}
