/**
 * Runs one turn of an agent: sends its events within the contract, the limits and the supervisor's pace, and asks its
 * questions. No event follows the end. The supervisor pairs the events of tools, makes `final` the last event, and ends a turn
 * whose agent is silent.
 */
import type { PermissionOption, RunnerEvent, TurnOrder } from '../../protocol/agents/agents.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { EventSecrets, secretsOf } from './agent-secrets.ts';
import { boundedEvent, cutText } from './bounded-event.ts';
import type { Agent, Turn } from './runner.ts';

/** Sends an event to the supervisor, which later confirms its bytes. */
export type SendEvent = (event: RunnerEvent, bytes: number) => void;

/** Behind a text of which the rest is left out, and what there is before it. */
const ANSWER_CUT = `\n\n[The answer is cut here: it is longer than ${LIMITS.agentAnswerBytes} bytes.]`;
const ANSWER_BYTES = LIMITS.agentAnswerBytes - ANSWER_CUT.length;

type Question = Parameters<Turn['ask']>[0];

export class TurnRun implements Turn {
  readonly order: TurnOrder;
  /** The agent did not keep the rules. It must not be used again. */
  mustEndAgent = false;

  readonly #send: SendEvent;
  readonly #abort = new AbortController();
  readonly #questions = new Map<string, { optionIds: string[]; resolve(optionId: string | null): void }>();
  readonly #giveUp: Promise<never>;
  #rejectGiveUp: (error: SvcError) => void = () => {};
  /** Callers that wait until more is taken. */
  #waiting: (() => void)[] = [];
  #untaken = 0;
  #wholeBytes = 0;
  #reasoningBytes = 0;
  readonly #secrets: EventSecrets;
  #textBytes = 0;
  #failed = false;
  #cancelled = false;
  #isOver = false;
  #asked = 0;
  #graceTimer: NodeJS.Timeout | undefined;

  constructor(order: TurnOrder, send: SendEvent) {
    this.order = order;
    this.#send = send;
    this.#secrets = new EventSecrets(secretsOf(order.runner, order.gateway.token));
    this.#giveUp = new Promise((_resolve, reject) => {
      this.#rejectGiveUp = reject;
    });
    this.#giveUp.catch(() => {});
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The caller no longer waits for the turn. Its agent gets a while to stop. */
  cancel(): void {
    this.#cancelled = true;
    this.#abort.abort();
    this.#release();
    // The supervisor's own wait, `chatAbortMs`, knows nothing of the agent's programs, which are ended here.
    this.#graceTimer ??= setTimeout(() => {
      this.mustEndAgent = true;
      this.#rejectGiveUp(failed('The agent did not stop in time.'));
    }, LIMITS.agentAbortMs).unref();
  }

  /** This many bytes of its events are stored. */
  taken(bytes: number): void {
    this.#untaken -= bytes;
    if (this.#untaken < LIMITS.agentUntakenBytes) this.#release();
  }

  answer(requestId: string, optionId: string | null): void {
    const question = this.#questions.get(requestId);
    question?.resolve(optionId !== null && question.optionIds.includes(optionId) ? optionId : null);
  }

  /** Sends a phase of the gateway itself, such as that the turn waits. */
  phase(phase: string, detail: string): void {
    this.#put({ type: 'phase', phase, detail });
  }

  /** Runs the turn. Rejects as the agent does, and when it writes too much or does not stop. */
  async drive(agent: Agent): Promise<void> {
    const turn = agent.turn(this);
    // It may go on for a while after we gave it up.
    turn.catch(() => {});
    await Promise.race([turn, this.#giveUp]);
  }

  async emit(event: RunnerEvent): Promise<void> {
    if (!this.#isOver) for (const clean of this.#secrets.clean(event)) this.#take(clean);
    // An aborted turn has no back-pressure, but an agent that keeps writing must not block this process.
    if (this.signal.aborted) return await new Promise((resolve) => setImmediate(resolve));
    if (this.#untaken >= LIMITS.agentUntakenBytes) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  async ask({ toolName, detail, options }: Question): Promise<string | null> {
    const byKind = (...kinds: PermissionOption['kind'][]) =>
      kinds.map((kind) => options.find((option) => option.kind === kind)).find((option) => option)?.optionId ?? null;
    const requestId = String(++this.#asked);
    const question = { requestId, toolName, detail: detail.slice(0, LIMITS.errorMessageChars), options };
    const put = (more: { optionId?: string | null }) => {
      for (const clean of this.#secrets.clean({ type: 'permission', ...question, ...more })) this.#put(clean);
    };
    const decided = (optionId: string | null) => {
      put({ optionId });
      return optionId;
    };
    if (this.order.permission === 'allow') return decided(byKind('allow_once', 'allow_always'));
    if (this.order.permission === 'deny' || this.#isOver || this.signal.aborted) return decided(byKind('reject_once'));
    const chosen = await new Promise<string | null>((resolve) => {
      this.#questions.set(requestId, { optionIds: options.map(({ optionId }) => optionId), resolve });
      this.signal.addEventListener('abort', () => resolve(null), { once: true });
      put({});
    });
    this.#questions.delete(requestId);
    return chosen;
  }

  /** No event comes after this one: the error, if there is one. */
  end(error: unknown): void {
    if (this.#isOver) return;
    for (const held of this.#secrets.rest()) this.#take(held);
    const isFailure = error !== undefined && !this.#cancelled;
    if (isFailure && !this.#failed) {
      const events = this.#secrets.clean({ type: 'error', ...errorOf(error) });
      for (const clean of events) this.#put(clean);
    }
    this.#isOver = true;
    clearTimeout(this.#graceTimer);
    // Stops the agent if it still works.
    this.#abort.abort();
    this.#release();
  }

  #take(event: RunnerEvent): void {
    switch (event.type) {
      case 'assistant.delta':
        this.#delta(event.delta);
        break;
      case 'reasoning.delta': {
        const delta = cutText(event.delta, Math.max(0, LIMITS.agentAnswerBytes - this.#reasoningBytes));
        this.#reasoningBytes += Buffer.byteLength(event.delta);
        this.#count(Buffer.byteLength(event.delta));
        if (delta !== '') this.#put({ type: 'reasoning.delta', delta });
        break;
      }
      case 'permission':
        // Only `ask` can be answered.
        break;
      case 'error':
        if (this.#failed) break;
        this.#failed = true;
        this.#put(event);
        break;
      default:
        this.#put(event);
    }
  }

  #delta(whole: string): void {
    const bytes = Buffer.byteLength(whole);
    let delta = cutText(whole, Math.max(0, ANSWER_BYTES - this.#textBytes));
    // What of it is left out is said, once.
    if (delta !== whole && this.#textBytes <= ANSWER_BYTES) delta += ANSWER_CUT;
    this.#textBytes += bytes;
    this.#count(bytes);
    if (delta !== '') this.#put({ type: 'assistant.delta', delta });
  }

  #put(event: RunnerEvent): void {
    if (this.#isOver) return;
    const { event: bounded, bytes, wholeBytes } = boundedEvent(event);
    if (!event.type.endsWith('.delta')) this.#count(wholeBytes);
    this.#untaken += bytes;
    this.#send(bounded, bytes);
  }

  #count(bytes: number): void {
    this.#wholeBytes += bytes;
    if (this.#wholeBytes > LIMITS.agentTurnBytes && !this.mustEndAgent) {
      this.mustEndAgent = true;
      this.#rejectGiveUp(failed(`The agent wrote more than ${LIMITS.agentTurnBytes} bytes in one turn.`));
    }
  }

  #release(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

function failed(message: string): SvcError {
  return new SvcError('AGENT_FAILED', message);
}

function errorOf(error: unknown): { code: string; message: string } {
  if (error instanceof SvcError) return { code: error.code, message: error.message };
  return { code: 'AGENT_FAILED', message: `The agent failed: ${(error as Error | null)?.message ?? error}` };
}
