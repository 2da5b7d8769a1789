/** Sends turns to a model server and runs the tools that the model calls (runner `model`). It needs no program. */
import type { FinishReason, LanguageModelUsage, ModelMessage, TextStreamPart, ToolSet } from 'ai';
import type { ModelApi, RunnerEvent, ThinkingLevel, TurnOrder, TurnUsage } from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { listModels } from '../model-list.ts';
import { sqlOf, textResult } from '../own-tools.ts';
import { fileText, promptFile, recentHistory } from '../prompt-parts.ts';
import type { Agent, Runner, Turn } from '../runner.ts';
import { FILE_TOOLS } from './file-tools.ts';
import { modelError, modelOf } from './model-server.ts';
import { modelTools, toolErrorText } from './model-tools.ts';

/** `retries`: how often it tries again when a server refuses or cannot be reached. */
export const modelRunnerWith = (retries: number): Runner => ({
  open: () => Promise.resolve(new ModelAgent(retries)),
  async probe({ runner: { name, baseUrl, apiKey }, want }, _host, signal) {
    if (baseUrl === undefined) throw new SvcError('NO_RUNNER', `The runner ${name} has no baseUrl.`);
    if (want === 'models') return { models: await listModels(baseUrl, apiKey, signal) };
    if (want === 'tools') return { tools: FILE_TOOLS.map(({ name, description }) => ({ name, description })) };
    // There is no program that has one.
    return {};
  },
});

export const modelRunner: Runner = modelRunnerWith(LIMITS.modelRetries);

/** Keeps nothing between turns: the history comes with each. */
class ModelAgent implements Agent {
  isAlive = true;
  readonly #retries: number;

  constructor(retries: number) {
    this.#retries = retries;
  }

  async turn(turn: Turn): Promise<void> {
    const { order, signal } = turn;
    const answer = new Answer(turn);
    try {
      const model = await modelIdOf(order, signal);
      const [language, { stepCountIs, streamText }, { tools, close }] = await Promise.all([
        modelOf(order.runner, model, (why, attempt) => this.#retrying(turn, why, attempt)),
        import('ai'),
        modelTools(order, signal),
      ]);
      try {
        // Keeps the library's hints for developers out of this process's standard error.
        globalThis.AI_SDK_LOG_WARNINGS = false;
        const { fullStream } = streamText({
          model: language,
          system: [order.instructions, todayLine()].filter((text) => text !== '').join('\n\n'),
          messages: await messagesOf(turn),
          tools,
          stopWhen: stepCountIs(LIMITS.modelSteps),
          maxRetries: this.#retries,
          abortSignal: signal,
          providerOptions: optionsOf(order),
          // It comes in the stream, too.
          onError: () => {},
        });
        for await (const part of fullStream) await answer.take(part);
        if (!signal.aborted) await answer.end();
      } finally {
        await answer.account(model);
        await close();
      }
    } catch (error) {
      if (!signal.aborted) throw modelError(error);
    }
  }

  /** Told when the server failed and will be asked again. */
  async #retrying(turn: Turn, why: string, attempt: number): Promise<void> {
    if (attempt > this.#retries) return;
    await turn.emit({
      type: 'phase',
      phase: 'retrying',
      detail: `The model server ${why}: ${attempt} of ${this.#retries}.`,
    });
  }

  end(): Promise<void> {
    this.isAlive = false;
    return Promise.resolve();
  }
}

/** The model to use: the turn's, the runner's, else the first of the server. */
async function modelIdOf({ model, runner }: TurnOrder, signal: AbortSignal): Promise<string> {
  const wanted = model ?? runner.model;
  if (wanted !== undefined) return wanted;
  const [first] = runner.baseUrl === undefined ? [] : await listModels(runner.baseUrl, runner.apiKey, signal);
  if (first === undefined) throw new SvcError('AGENT_FAILED', `Name the model of the runner ${runner.name}.`);
  return first.id;
}

/** A model does not know the date. The line is the same all day, so that servers may keep what they read up to the messages. */
function todayLine(): string {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const date = new Intl.DateTimeFormat('en-GB', { dateStyle: 'full' }).format();
  return `Today is ${date}. The time zone is ${timeZone}.`;
}

/** Earlier messages and answers, each with the calls of tools before it. */
function earlierMessages(history: TurnOrder['history']): ModelMessage[] {
  return recentHistory(history).flatMap(({ role, text, tools = [] }, at): ModelMessage[] => {
    const said: ModelMessage[] = text === '' ? [] : [{ role, content: text }];
    if (tools.length === 0) return said;
    const idOf = (nth: number) => `earlier_${at}_${nth}`;
    const calls = tools.map(({ toolName, args }, nth) => {
      return { type: 'tool-call' as const, toolCallId: idOf(nth), toolName, input: args };
    });
    const results = tools.map(({ toolName, ok, result: value }, nth) => {
      const output = { type: ok ? ('text' as const) : ('error-text' as const), value };
      return { type: 'tool-result' as const, toolCallId: idOf(nth), toolName, output };
    });
    return [{ role: 'assistant', content: calls }, { role: 'tool', content: results }, ...said];
  });
}

async function messagesOf(turn: Turn): Promise<ModelMessage[]> {
  const { history, attachments, notice, message } = turn.order;
  const content: Exclude<Extract<ModelMessage, { role: 'user' }>['content'], string> = [];
  for (const attachment of attachments) {
    const file = await promptFile(attachment);
    if (file.kind === 'text') content.push({ type: 'text', text: fileText(file.name, file.text) });
    else if (file.kind === 'left')
      await turn.emit({
        type: 'phase',
        phase: 'attachment',
        detail: `The model does not get ${file.name}: ${file.why}.`,
      });
    else if (file.type.startsWith('image/')) content.push({ type: 'image', image: file.bytes, mediaType: file.type });
    else content.push({ type: 'file', data: file.bytes, mediaType: file.type, filename: file.name });
  }
  if (notice !== undefined) content.push({ type: 'text', text: notice });
  content.push({ type: 'text', text: message });
  return [...earlierMessages(history), { role: 'user', content }];
}

type ProviderOptions = NonNullable<Parameters<typeof import('ai')['streamText']>[0]['providerOptions']>;

/** Thinking budgets of the Messages protocol, in tokens; a larger one leaves some models no room for the answer. */
const THINKING_TOKENS: Record<ThinkingLevel, number> = {
  ...{ low: 2048, medium: 8192, high: 24_576 },
  ...{ xhigh: 24_576, max: 24_576 },
};

function optionsOf({ runner: { api }, thinking }: TurnOrder): ProviderOptions {
  const effort = thinking === null ? {} : { reasoningEffort: thinking };
  // Otherwise the library drops options that it believes a model of this name does not take.
  const forced = thinking === null ? {} : { forceReasoning: true, systemMessageMode: 'system' };
  const options: Record<ModelApi, ProviderOptions> = {
    chat: { openaiCompatible: effort },
    // The gateway stores the conversation; the server must not.
    responses: { openai: { store: false, ...effort, ...forced } },
    messages:
      thinking === null
        ? {}
        : { anthropic: { thinking: { type: 'enabled', budgetTokens: THINKING_TOKENS[thinking] } } },
  };
  return options[api ?? 'chat'];
}

/** Translates a model's answers in one turn into events. */
class Answer {
  readonly #turn: Turn;
  readonly #usage: TurnUsage = {};
  #step = 0;
  /** The text since the last tools. */
  #text = '';
  #finished: { reason: FinishReason; raw: string | undefined } | null = null;

  constructor(turn: Turn) {
    this.#turn = turn;
  }

  /** Throws the library's error. */
  async take(part: TextStreamPart<ToolSet>): Promise<void> {
    switch (part.type) {
      case 'start-step':
        this.#step++;
        this.#text = '';
        break;
      case 'text-delta':
        if (part.text === '') break;
        this.#text += part.text;
        await this.#emit({ type: 'assistant.delta', delta: part.text });
        break;
      case 'reasoning-delta':
        if (part.text !== '') await this.#emit({ type: 'reasoning.delta', delta: part.text });
        break;
      case 'tool-call':
        await this.#emit({
          type: 'tool.start',
          ...this.#call(part),
          args: part.input,
          ...sqlOf(part.toolName, part.input),
        });
        break;
      case 'tool-result':
        await this.#emit({ type: 'tool.result', ...this.#call(part), ok: true, result: textResult(part.output) });
        break;
      case 'tool-error':
        await this.#emit({ type: 'tool.result', ...this.#call(part), ok: false, errorText: toolErrorText(part.error) });
        break;
      case 'finish-step':
        this.#count(part.usage);
        this.#finished = { reason: part.finishReason, raw: part.rawFinishReason };
        break;
      case 'error':
        throw part.error;
    }
  }

  /** The final text; rejects when the model did not finish by itself. */
  async end(): Promise<void> {
    const { reason, raw } = this.#finished ?? { reason: 'other', raw: undefined };
    if (reason === 'tool-calls')
      throw failed(`The model called tools ${LIMITS.modelSteps} times without an answer; the turn ends here.`);
    if (reason === 'length') {
      await this.#emit({
        type: 'assistant.delta',
        delta: '\n\n[The answer is cut here: it reached the limit of tokens.]',
      });
      throw failed('The model stopped: its answer reached the limit of tokens.');
    }
    if (reason === 'content-filter') throw failed('The model stopped: its server does not let the answer through.');
    if (reason === 'error') throw failed('The model server broke off with an error.');
    if (reason === 'other' && raw === undefined)
      throw failed('The model server broke off before the end of its answer.');
    await this.#emit({ type: 'final', text: this.#text });
  }

  /** Emits the usage of all answers, once. */
  async account(model: string): Promise<void> {
    if (Object.keys(this.#usage).length === 0) return;
    await this.#emit({ type: 'usage', model, provider: this.#turn.order.runner.name, ...this.#usage });
  }

  #count({ inputTokens, outputTokens, inputTokenDetails }: LanguageModelUsage): void {
    const { cacheReadTokens, cacheWriteTokens } = inputTokenDetails;
    const counts = { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens };
    for (const name of Object.keys(counts) as (keyof typeof counts)[]) {
      const count = counts[name];
      if (count !== undefined) this.#usage[name] = (this.#usage[name] ?? 0) + count;
    }
  }

  /** Some servers restart the numbering of calls in each answer. */
  #call({ toolCallId, toolName }: { toolCallId: string; toolName: string }): { toolCallId: string; toolName: string } {
    return { toolCallId: this.#step <= 1 ? toolCallId : `${toolCallId}.${this.#step}`, toolName };
  }

  async #emit(event: RunnerEvent): Promise<void> {
    await this.#turn.emit(event);
  }
}

function failed(message: string): SvcError {
  return new SvcError('AGENT_FAILED', message);
}
