/**
 * Does the work of one turn, as a run of the `RunEngine`: reads its runner's events at the pace of their storage, asks what its agent
 * asks, and gives up a runner that is silent or does not stop.
 */
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type { PermissionOption, TurnEvent } from '../../../protocol/agents/agents.ts';
import { type ConversationName, sessionKey } from '../../../protocol/agents/session-key.ts';
import { CHAT_RUNS, type RunRecord } from '../../../protocol/automations/runs.ts';
import { type ErrorBody, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { Redactor } from '../../../protocol/text/redactor.ts';
import type { NamedPerson } from '../../../protocol/wire/handler-caller.ts';
import { notConfirmed } from '../../dispatch/confirmation.ts';
import type { Confirmation } from '../../dispatch/request.ts';
import type { Asker } from '../../edge/edge.ts';
import type { ConversationRunner, ConversationTurn } from '../../extension-points.ts';
import { toSvcError } from '../../http/answers.ts';
import type { Outcome, Run, RunKind, Work } from '../../runs/run.ts';
import type { LiveTurn } from './live-turn.ts';
import { Permissions } from './permissions.ts';
import { soundEvent } from './sound-event.ts';
import { TurnContract } from './turn-contract.ts';
import type { EnteredDraft } from './turn-drafts.ts';
import { TurnNodes } from './turn-nodes.ts';

/** Called when the turn begins. */
export type Enter = (tell: (event: TurnEvent) => void) => Promise<EnteredDraft>;

/** A turn whose message is stored. */
export type BegunTurn = {
  live: LiveTurn;
  model: string | undefined;
  /** The workspace whose draft it works in, or talks about. */
  draft: string | undefined;
  /** For a turn that works in a draft. */
  enter: Enter | null;
  /** What its runner gets. */
  turn(): Promise<Omit<ConversationTurn, 'signal' | 'answer' | 'findings'>>;
};

type TurnWorkOptions = {
  name: ConversationName;
  /** The person who sent its message. */
  by?: NamedPerson;
  runner: ConversationRunner;
  /** Stores its message with the run, and calls `begin`. */
  store(run: Run): Promise<void>;
  permissionMs: number;
  log: Logger;
};

const TURNS: RunKind = {
  name: 'chat',
  waiting: LIMITS.chatQueue,
  all: LIMITS.chatTurns,
  tooMany: (lane) =>
    lane === null
      ? `${LIMITS.chatTurns} messages to agents are being answered or wait for that; try again later.`
      : `${LIMITS.chatQueue} messages wait in this conversation; wait for an answer.`,
  stopped: 'The gateway stopped before the turn had ended.',
  endMs: LIMITS.chatAbortMs + LIMITS.runEndTries * LIMITS.runEndWaitMs,
};
/** What agents say was redacted in their process. */
const NO_SECRETS = new Redactor();

/** Events of a runner that are read before everything else has its turn. */
const EVENTS_AT_ONCE = 256;

/** Somebody who wants the turn to go on. `asker` is null where no right of theirs could end. */
type WaitingAsker = { readonly asker: Asker | null };
/** Answers to the question whether an action may run. */
const RUN = 'run';
const CONFIRMATION: PermissionOption[] = [
  { optionId: RUN, kind: 'allow_once', label: 'Run it' },
  { optionId: 'refuse', kind: 'reject_once', label: 'Do not run it' },
];

type Yielded = { type: string; [member: string]: unknown };
/** How a turn ends, but for its text. */
type Ending = Pick<Outcome, 'state' | 'error'>;

export class TurnWork implements Work {
  readonly kind = TURNS;
  readonly name: ConversationName;
  readonly lane: string;
  readonly about: Work['about'];
  readonly redactor = NO_SECRETS;
  readonly keep = { count: LIMITS.chatRuns };
  /** Those who sent its message, or sent it again, and have not left. */
  readonly #askers = new Set<WaitingAsker>();
  readonly #options: TurnWorkOptions;
  readonly #controller = new AbortController();
  readonly #permissions: Permissions;
  /** Questions of `confirm`, by their request. */
  readonly #confirmations = new Set<string>();
  readonly #contract = new TurnContract();
  #run!: Run;
  #begun: BegunTurn | null = null;
  #nodes!: TurnNodes;
  /** How it ends, once it was stopped. */
  #stopped: Outcome | null = null;
  /** Nothing is taken of its runner any more. */
  #isOver = false;
  #silenceTimer: NodeJS.Timeout | undefined;
  #onSilent: () => void = () => {};
  #graceTimer: NodeJS.Timeout | undefined;
  #giveUp: () => void = () => {};
  /** Resolves when its runner is no longer waited for. */
  readonly #givenUp = new Promise<void>((resolve) => {
    this.#giveUp = resolve;
  });

  constructor(options: TurnWorkOptions) {
    const { name, by } = options;
    this.#options = options;
    this.name = name;
    this.lane = sessionKey(name);
    const trigger = { kind: 'chat', origin: name.id } as const;
    this.about = { app: name.app, automation: CHAT_RUNS, trigger, parentRunId: null, ...(by && { by }) };
    this.#permissions = new Permissions(options.permissionMs, (_question, result) => {
      this.#add([result]);
      this.#restartSilence();
    });
  }

  /** Null until its message is stored. */
  get begun(): BegunTurn | null {
    return this.#begun;
  }

  get model(): string | null {
    return this.#nodes.model;
  }

  store(run: Run): Promise<void> {
    this.#run = run;
    return this.#options.store(run);
  }

  begin(begun: BegunTurn): void {
    this.#begun = begun;
    this.#nodes = new TurnNodes(this.#run.nodes, begun.model ?? null);
  }

  /** Resolves when the turn has ended and that is stored; never rejects. */
  get ended(): Promise<RunRecord> {
    return this.#run.ended;
  }

  /** Ends the turn as `aborted`; resolves as `ended` does. */
  abort(): Promise<RunRecord> {
    this.#run.stop('aborted', new SvcError('RUN_ABORTED', 'The turn was aborted.'));
    return this.ended;
  }

  /** What its agent says until it has stopped is kept. */
  stop(state: 'aborted' | 'interrupted', error: SvcError): Outcome {
    const outcome = { state, error: state === 'aborted' ? null : error.toBody(), summary: null, output: null };
    if (this.#stopped !== null || this.#isOver) return outcome;
    this.#stopped = outcome;
    this.#permissions.close();
    this.#controller.abort(error);
    if (this.#run.phase === 'running') this.#beginGrace();
    return outcome;
  }

  /** Adds somebody who wants the turn to go on, until `leave` is called or their right has ended. After the last one the turn is aborted. */
  addAsker(asker: Asker | null): { leave(): void } {
    const waiting: WaitingAsker = { asker };
    this.#askers.add(waiting);
    this.endRefused();
    return { leave: () => this.#drop(waiting) };
  }

  /** Removes those whose session or token has ended. */
  endRefused(): void {
    for (const waiting of [...this.#askers]) if (waiting.asker?.ended === true) this.#drop(waiting);
  }

  #drop(waiting: WaitingAsker): void {
    if (this.#askers.delete(waiting) && this.#askers.size === 0) void this.abort();
  }

  /** A person answers a question of the agent. Throws as `Permissions.choose` does. */
  choose(requestId: string, optionId: string): { ok: boolean } {
    const { kind } = this.#permissions.choose(requestId, optionId);
    return { ok: kind === 'allow_once' || kind === 'allow_always' };
  }

  /**
   * Asks the person before an action runs that the agent called. Rejects with `NOT_CONFIRMED` for a "no", without an answer in
   * time, when the agent gives the call up (`signal`), and when the turn ends first.
   */
  async confirm(asked: Confirmation, signal?: AbortSignal): Promise<void> {
    const requestId = randomUUID();
    const { action: toolName, detail } = asked;
    if (this.#run.phase !== 'running' || this.isEnding) throw notConfirmed(asked, 'unanswered');
    const question = { type: 'permission', requestId, toolName, detail, options: CONFIRMATION } as const;
    this.#confirmations.add(requestId);
    this.#add([question]);
    this.#permissions.ask(question);
    const withdraw = () => this.#permissions.withdraw(requestId);
    if (signal?.aborted) withdraw();
    signal?.addEventListener('abort', withdraw, { once: true });
    const chosen = await this.#permissions.answer(requestId);
    signal?.removeEventListener('abort', withdraw);
    if (chosen !== RUN) throw notConfirmed(asked, chosen === null ? 'unanswered' : 'refused');
  }

  /** Whether it is a question of `confirm`. */
  isConfirmation(requestId: string): boolean {
    return this.#confirmations.has(requestId);
  }

  async perform(): Promise<Outcome> {
    const { enter, turn } = this.#begun as BegunTurn;
    const { signal } = this.#controller;
    let iterator: AsyncIterator<Yielded> | null = null;
    let ending: Ending;
    const answer = (requestId: string) => this.#permissions.answer(requestId);
    let entered: EnteredDraft | undefined;
    try {
      entered = await enter?.((event) => this.#add([event]));
      const { findings = [] } = entered ?? {};
      const known = findings.length === 0 ? {} : { findings };
      iterator = this.#options.runner({ ...(await turn()), ...known, answer, signal })[Symbol.asyncIterator]();
      ending = await this.#read(iterator);
    } catch (error) {
      ending = { state: 'error', error: this.#failure(error) };
    }
    this.#isOver = true;
    const { state, error } = this.#stopped ?? ending;
    await this.#leave(iterator);
    await entered?.leave();
    const text = state === 'ok' ? this.#contract.answer : this.#contract.text;
    return { state, error, summary: text === '' ? null : text, output: null };
  }

  /** Stores its last events, with the end of its run. */
  async end({ state, error }: Outcome): Promise<void> {
    this.#isOver = true;
    this.#permissions.close();
    this.#controller.abort(new SvcError('RUN_ABORTED', 'The turn has ended.'));
    const events = this.#contract.rest(state);
    if (error !== null) events.push({ type: 'error', code: error.code, message: error.message });
    if (state === 'aborted') events.push({ type: 'aborted' });
    events.push({ type: 'end' });
    for (const event of events) this.#nodes.take(event);
    await this.#begun?.live.end(state, events);
  }

  /** Whether it was stopped, or its last event has come. */
  get isEnding(): boolean {
    return this.#stopped !== null || this.#isOver;
  }

  /** What the runner does is over, as nothing of a turn may write to a draft after its end. A runner that goes on is given up. */
  async #leave(iterator: AsyncIterator<Yielded> | null): Promise<void> {
    const left = leave(iterator);
    this.#controller.abort(new SvcError('RUN_ABORTED', 'The turn has ended.'));
    this.#beginGrace();
    await Promise.race([left, this.#givenUp]);
    clearTimeout(this.#graceTimer);
  }

  /** The one time that a runner has to stop: the agents process ends its agents in less, but it may hang, and hosts have theirs. */
  #beginGrace(): void {
    this.#graceTimer ??= setTimeout(this.#giveUp, LIMITS.chatAbortMs).unref();
  }

  #read(iterator: AsyncIterator<Yielded>): Promise<Ending> {
    const cut = new Promise<Ending>((resolve, reject) => {
      this.#onSilent = () => reject(silentError());
      void this.#givenUp.then(() => resolve({ state: 'ok', error: null }));
    });
    this.#restartSilence();
    return Promise.race([this.#takeAll(iterator), cut]).finally(() => clearTimeout(this.#silenceTimer));
  }

  /** Takes what the runner yields, until it ends or is given up. */
  async #takeAll(iterator: AsyncIterator<Yielded>): Promise<Ending> {
    const { live } = this.#begun as BegunTurn;
    for (let count = 1; ; count++) {
      const room = live.room();
      if (room) {
        // A runner that waits until its events are stored is not silent.
        clearTimeout(this.#silenceTimer);
        await room;
      }
      // Events that are not stored do not slow the runner: one that sends them without end would block all other work.
      if (count % EVENTS_AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
      this.#restartSilence();
      const next = await iterator.next();
      if (this.#isOver || next.done === true || next.value?.type === 'end') return { state: 'ok', error: null };
      const ended = this.#take(next.value);
      if (ended !== null) return ended;
    }
  }

  /** From now on the runner is silent until it says something, or one of its questions is answered. */
  #restartSilence(): void {
    clearTimeout(this.#silenceTimer);
    if (this.#isOver || this.#run.phase !== 'running') return;
    this.#silenceTimer = setTimeout(() => this.#onSilent(), LIMITS.agentSilentMs).unref();
  }

  /** How the turn ends with this event; null when it goes on. */
  #take(yielded: unknown): Ending | null {
    const event = soundEvent(yielded);
    const { live } = this.#begun as BegunTurn;
    if (event === null) return null;
    if (event.type === 'aborted') return { state: 'aborted', error: null };
    if (event.type === 'error') return { state: 'error', error: { code: event.code, message: event.message } };
    if (event.type === 'session') live.named(event.id);
    if (event.type === 'permission' && this.#permissions.isAsked(event.requestId)) return null;
    this.#add(this.#contract.take(event));
    if (event.type === 'permission') this.#permissions.ask(event);
    if (live.failure !== null) throw live.failure;
    if (live.isFull) throw tooMuchError();
    return null;
  }

  #add(events: TurnEvent[]): void {
    this.#begun?.live.add(events);
    for (const event of events) this.#nodes.take(event);
  }

  #failure(error: unknown): ErrorBody {
    const { log } = this.#options;
    if (error instanceof SvcError || error === this.#begun?.live.failure) return toSvcError(error, log).toBody();
    log.warn({ err: error, turn: this.#run.runId }, 'A runner failed.');
    const message = String((error as Error | null)?.message ?? error).slice(0, LIMITS.errorMessageChars);
    return { code: 'AGENT_FAILED', message: `The agent failed: ${message.replace(/\.$/, '')}.` };
  }
}

async function leave(iterator: AsyncIterator<unknown> | null): Promise<void> {
  try {
    await iterator?.return?.();
  } catch {
    // Its turn is over for us either way.
  }
}

function silentError(): SvcError {
  return new SvcError('AGENT_FAILED', `The agent said nothing for ${LIMITS.agentSilentMs / 60_000} minutes.`);
}

function tooMuchError(): SvcError {
  return new SvcError('AGENT_FAILED', `The agent produced more than ${LIMITS.chatTurnBytes} bytes in one turn.`);
}
