/**
 * The gateway's own `ConversationRunner`: completes a turn with runner, folder, instructions and token, sends it to the agents
 * process, and yields its events (specification, "Runners").
 */
import { randomUUID } from 'node:crypto';
import type { RunnerEvent, TurnOrder } from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { Layout } from '../../../storage/layout.ts';
import type { ConversationRunner, ConversationTurn } from '../../extension-points.ts';
import type { AskedRunner, ChosenRunner } from '../turns/turns.ts';
import type { AgentProcess } from './agent-process.ts';
import { findingsText } from './grounding.ts';
import { chooseModel, providerOf } from './models.ts';
import type { RunnerCatalog } from './runner-catalog.ts';
import type { Runners } from './runners.ts';
import { TurnMeans, type TurnMeansOptions } from './turn-means.ts';

export type OwnRunnerOptions = TurnMeansOptions & {
  layout: Layout;
  runners: Runners;
  known: Pick<RunnerCatalog, 'models' | 'tools'>;
  agents: Pick<AgentProcess, 'run'>;
  /** Where the gateway listens; null while it does not, or when a host owns the server and did not say. */
  listening(): { url: string } | null;
};

export class OwnRunner {
  readonly #options: OwnRunnerOptions;
  readonly #means: TurnMeans;

  constructor(options: OwnRunnerOptions) {
    this.#options = options;
    this.#means = new TurnMeans(options);
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
    const chosen = await this.choose(turn);
    const { conversation, token, end } = await this.#means.begin(turn, chosen.runner);
    try {
      const order = await this.#order(turn, chosen, conversation, token);
      yield* this.#options.agents.run(order, { signal: turn.signal, answer: turn.answer });
    } finally {
      end();
      await this.#means.clear(turn);
    }
  }

  async #order(
    turn: ConversationTurn,
    { runner, model }: ChosenRunner,
    conversation: string,
    token: string,
  ): Promise<TurnOrder> {
    const { runners, known } = this.#options;
    const { app, draft, mode = 'data' } = turn;
    const { cwd, ...spec } = runners.spec(runner);
    const path = draft === undefined ? `/svc/${app}/_mcp` : `/svc/_draft/${draft}/${app}/_mcp`;
    const { resume = null, history = [] } = turn;
    return {
      turnId: randomUUID(),
      conversation,
      runner: spec,
      mode,
      app,
      ...(draft === undefined ? {} : { draft }),
      folder: await this.#means.folder(turn, cwd),
      instructions: await this.#means.instructions(turn, [...known.tools(runner)]),
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

/**
 * An automation has no one to ask: allows what `requires.tools` names, and denies everything else. Who does not manage the app gets
 * nothing but its tools.
 */
function permissionOf({ run, answer, limited }: ConversationTurn, configured: TurnOrder['permission'] = 'ask') {
  if (answer === undefined || limited === true) return 'deny';
  return run !== undefined && configured === 'allow' ? 'ask' : configured;
}
