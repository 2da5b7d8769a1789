/**
 * Runs one turn: reads its runner's events at the pace of their storage, and ends the turn exactly once.
 *
 *   waiting → running → ending → ended
 *      └─ abort ─────────┘
 */
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type { PermissionOption, TurnEvent } from '../../../protocol/agents/agents.ts';
import type { TurnEnd } from '../../../protocol/agents/turns.ts';
import { type ErrorBody, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { notConfirmed } from '../../dispatch/confirmation.ts';
import type { Confirmation } from '../../dispatch/request.ts';
import type { Asker } from '../../edge/edge.ts';
import type { ConversationRunner, ConversationTurn } from '../../extension-points.ts';
import { toSvcError } from '../../http/answers.ts';
import type { LiveTurn } from './live-turn.ts';
import { Permissions } from './permissions.ts';
import { soundEvent } from './sound-event.ts';
import { TurnContract } from './turn-contract.ts';
import type { EnteredDraft } from './turn-drafts.ts';

/** How a turn ended. `text` is what its agent answered, as far as it came. */
export type TurnOutcome = { state: TurnEnd; error: ErrorBody | null; text: string };

/** Hears what happens in a turn, in order; it must not throw. */
export type TurnObserver = {
  started(): void;
  event(event: TurnEvent): void;
  /** The end of the turn is about to be stored. */
  ending(outcome: TurnOutcome): void;
  /** It is stored, or could not be. The turn has ended when this resolves; it never rejects. */
  ended(): Promise<void>;
};

/** Called when the turn begins. */
export type Enter = (tell: (event: TurnEvent) => void) => Promise<EnteredDraft>;

type TurnWorkOptions = {
  live: LiveTurn;
  observer: TurnObserver;
  /** For a turn that works in a draft. */
  enter: Enter | null;
  permissionMs: number;
  log: Logger;
};

/** Events of a runner that are read before everything else has its turn. */
const EVENTS_AT_ONCE = 256;

/** `asker` is null for one that has no right that could end. */
type Wish = { readonly asker: Asker | null };
/** Answers to the question whether an action may run. */
const RUN = 'run';
const CONFIRMATION: PermissionOption[] = [
  { optionId: RUN, kind: 'allow_once', label: 'Run it' },
  { optionId: 'refuse', kind: 'reject_once', label: 'Do not run it' },
];

type Yielded = { type: string; [member: string]: unknown };
/** How a turn ends, but for its text. */
type Ending = Omit<TurnOutcome, 'text'>;

export class TurnWork {
  readonly live: LiveTurn;
  /** Those who sent its message, or sent it again, and have not left. */
  readonly #wishes = new Set<Wish>();
  /** Resolves when the turn has ended and that is stored; never rejects. */
  readonly ended: Promise<TurnOutcome>;
  readonly #observer: TurnObserver;
  readonly #enter: Enter | null;
  readonly #log: Logger;
  readonly #controller = new AbortController();
  readonly #permissions: Permissions;
  /** Questions of `confirm`, by their request. */
  readonly #confirmations = new Set<string>();
  readonly #contract = new TurnContract();
  #phase: 'waiting' | 'running' | 'ending' = 'waiting';
  /** How it ends, once it was aborted. */
  #stopped: Ending | null = null;
  /** The runner is given up, because it was silent for too long or does not stop. */
  #isCut = false;
  #isSilent = false;
  #silence: NodeJS.Timeout | undefined;
  /** Has who reads the runner see that. */
  #wake: (() => void) | null = null;
  #resolve: (outcome: TurnOutcome) => void = () => {};

  constructor({ live, observer, enter, permissionMs, log }: TurnWorkOptions) {
    this.live = live;
    this.#observer = observer;
    this.#enter = enter;
    this.#log = log;
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#permissions = new Permissions(permissionMs, (_question, result) => {
      this.#add([result]);
      this.#hear();
    });
  }

  /** Ends the turn as `aborted`, or with this error as `interrupted`. What its agent says until it has stopped is kept. */
  abort(interruption: SvcError | null = null): void {
    if (this.#stopped !== null || this.#phase === 'ending') return;
    this.#stopped =
      interruption === null
        ? { state: 'aborted', error: null }
        : { state: 'interrupted', error: interruption.toBody() };
    this.#permissions.close();
    this.#controller.abort(interruption ?? new SvcError('RUN_ABORTED', 'The turn was aborted.'));
    if (this.#phase === 'waiting') void this.#end(this.#stopped);
    // A runner that does not react to the signal is not waited for.
    else setTimeout(() => this.#cut(), LIMITS.chatAbortMs).unref();
  }

  /** Somebody wants the turn to go on, until `leave` is called, or its right has ended. With the last one the turn is aborted. */
  want(asker: Asker | null): { leave(): void } {
    const wish: Wish = { asker };
    this.#wishes.add(wish);
    this.endRefused();
    return { leave: () => this.#drop(wish) };
  }

  /** Nobody whose session or token has ended wants it any more. */
  endRefused(): void {
    for (const wish of [...this.#wishes]) if (wish.asker?.ended === true) this.#drop(wish);
  }

  #drop(wish: Wish): void {
    if (this.#wishes.delete(wish) && this.#wishes.size === 0) this.abort();
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
    if (this.#phase !== 'running' || this.#stopped !== null) throw notConfirmed(asked, 'unanswered');
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

  /** Runs the turn. Resolves when it has ended; never rejects. */
  async run(
    runner: ConversationRunner,
    turn: () => Promise<Omit<ConversationTurn, 'signal' | 'answer' | 'findings'>>,
  ): Promise<void> {
    if (this.#phase !== 'waiting') return;
    this.#phase = 'running';
    this.#observer.started();
    const { signal } = this.#controller;
    let iterator: AsyncIterator<Yielded> | null = null;
    let outcome: Ending;
    const answer = (requestId: string) => this.#permissions.answer(requestId);
    let entered: EnteredDraft | undefined;
    try {
      entered = await this.#enter?.((event) => this.#add([event]));
      const { findings = [] } = entered ?? {};
      const known = findings.length === 0 ? {} : { findings };
      iterator = runner({ ...(await turn()), ...known, answer, signal })[Symbol.asyncIterator]();
      outcome = await this.#read(iterator);
    } catch (error) {
      outcome = { state: 'error', error: this.#failure(error) };
    }
    outcome = this.#stopped ?? outcome;
    this.#phase = 'ending';
    await this.#leave(iterator);
    await entered?.leave();
    await this.#end(outcome);
  }

  /** Whether it was aborted, or its last event has come, and it has not ended. */
  get isEnding(): boolean {
    return this.#stopped !== null || this.#phase === 'ending';
  }

  /** What the runner does is over, as nothing of a turn may write to a draft after its end. A runner that goes on is given up. */
  async #leave(iterator: AsyncIterator<Yielded> | null): Promise<void> {
    const left = leave(iterator);
    this.#controller.abort(new SvcError('RUN_ABORTED', 'The turn has ended.'));
    // Then it was given all its time already.
    if (this.#isCut && this.#stopped !== null) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, LIMITS.chatAbortMs).unref();
    });
    await Promise.race([left, late]);
    clearTimeout(timer);
  }

  #read(iterator: AsyncIterator<Yielded>): Promise<Ending> {
    const cut = new Promise<Ending>((resolve, reject) => {
      this.#wake = () => (this.#isSilent ? reject(silent()) : resolve({ state: 'ok', error: null }));
    });
    if (this.#isCut) this.#wake?.();
    this.#hear();
    return Promise.race([this.#takeAll(iterator), cut]).finally(() => clearTimeout(this.#silence));
  }

  /** Takes what the runner yields, until it ends or is given up. */
  async #takeAll(iterator: AsyncIterator<Yielded>): Promise<Ending> {
    for (let count = 1; ; count++) {
      const room = this.live.room();
      if (room) {
        // A runner that waits until its events are stored is not silent.
        clearTimeout(this.#silence);
        await room;
      }
      // Events that are not stored do not slow the runner: one that sends them without end would block all other work.
      if (count % EVENTS_AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
      this.#hear();
      const next = await iterator.next();
      if (this.#isCut || next.done === true || next.value?.type === 'end') return { state: 'ok', error: null };
      const ended = this.#take(next.value);
      if (ended !== null) return ended;
    }
  }

  /** From now on the runner is silent until it says something, or one of its questions is answered. */
  #hear(): void {
    clearTimeout(this.#silence);
    if (this.#isCut || this.#phase !== 'running') return;
    this.#silence = setTimeout(() => {
      this.#isSilent = true;
      this.#cut();
    }, LIMITS.agentSilentMs).unref();
  }

  #cut(): void {
    this.#isCut = true;
    this.#wake?.();
  }

  /** How the turn ends with this event; null when it goes on. */
  #take(yielded: unknown): Ending | null {
    const event = soundEvent(yielded);
    if (event === null) return null;
    if (event.type === 'aborted') return { state: 'aborted', error: null };
    if (event.type === 'error') return { state: 'error', error: { code: event.code, message: event.message } };
    if (event.type === 'session') this.live.named(event.id);
    if (event.type === 'permission' && this.#permissions.isAsked(event.requestId)) return null;
    this.#add(this.#contract.take(event));
    if (event.type === 'permission') this.#permissions.ask(event);
    if (this.live.failure !== null) throw this.live.failure;
    if (this.live.isFull) throw tooMuch();
    return null;
  }

  #add(events: TurnEvent[]): void {
    this.live.add(events);
    for (const event of events) this.#observer.event(event);
  }

  async #end({ state, error }: Ending): Promise<void> {
    this.#phase = 'ending';
    this.#permissions.close();
    this.#controller.abort(new SvcError('RUN_ABORTED', 'The turn has ended.'));
    const events = this.#contract.rest(state);
    if (error !== null) events.push({ type: 'error', code: error.code, message: error.message });
    if (state === 'aborted') events.push({ type: 'aborted' });
    events.push({ type: 'end' });
    for (const event of events) this.#observer.event(event);
    const final = events.find((event) => event.type === 'final');
    const outcome = { state, error, text: final?.text ?? this.#contract.text };
    this.#observer.ending(outcome);
    await this.live.end(state, events);
    await this.#observer.ended();
    this.#resolve(outcome);
  }

  #failure(error: unknown): ErrorBody {
    if (error instanceof SvcError || error === this.live.failure) return toSvcError(error, this.#log).toBody();
    this.#log.warn({ err: error, turn: this.live.turnId }, 'A runner failed.');
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

function silent(): SvcError {
  return new SvcError('AGENT_FAILED', `The agent said nothing for ${LIMITS.agentSilentMs / 60_000} minutes.`);
}

function tooMuch(): SvcError {
  return new SvcError('AGENT_FAILED', `The agent produced more than ${LIMITS.chatTurnBytes} bytes in one turn.`);
}
