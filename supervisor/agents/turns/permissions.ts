/** Keeps the permission requests of a turn until a person answers or the time is up (specification, "Permissions"). */
import type { PermissionOption, TurnEvent } from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';

type Question = Extract<TurnEvent, { type: 'permission' }>;
export type PermissionResult = Extract<TurnEvent, { type: 'permission.result' }>;

/** `answered` once it is; the runner may have asked for the answer before its event came. */
type Open = {
  question: Question | null;
  timer: NodeJS.Timeout | undefined;
  answer: Promise<string | null>;
  resolve(optionId: string | null): void;
  settled: boolean;
};

export class Permissions {
  readonly #waitMs: number;
  readonly #onResult: (question: Question, result: PermissionResult) => void;
  readonly #open = new Map<string, Open>();
  #closed = false;

  /** Denies a question without an answer within `waitMs`. Calls `onResult` once for each question. */
  constructor(waitMs: number, onResult: (question: Question, result: PermissionResult) => void) {
    this.#waitMs = waitMs;
    this.#onResult = onResult;
  }

  /** The runner asks, or says what its policy has answered. A question that was asked before is ignored. */
  ask(question: Question): void {
    const open = this.#of(question.requestId);
    if (open.question !== null) return;
    open.question = question;
    const { optionId, options } = question;
    const option = options.find((one) => one.optionId === optionId) ?? null;
    if (open.settled) this.#tell(question, option);
    else if (optionId !== undefined) this.#settle(open, option);
    else open.timer = setTimeout(() => this.#settle(open, null), this.#waitMs).unref();
  }

  isAsked(requestId: string): boolean {
    return this.#open.get(requestId)?.question != null;
  }

  /** The choice, for the runner; null for "no". */
  answer(requestId: string): Promise<string | null> {
    return this.#of(requestId).answer;
  }

  /** A person chooses. Throws `NOT_FOUND`, `CONFLICT` when it was answered before, or `BAD_REQUEST` for what was not offered. */
  choose(requestId: string, optionId: string): PermissionOption {
    const open = this.#open.get(requestId);
    const question = open?.question;
    if (!open || !question) throw new SvcError('NOT_FOUND', 'The agent has not asked this.');
    if (open.settled) throw new SvcError('CONFLICT', 'This was answered before, or the time for it is up.');
    const option = question.options.find((one) => one.optionId === optionId);
    if (!option) {
      const ids = question.options.map((one) => `"${one.optionId}"`).join(', ');
      throw new SvcError('BAD_REQUEST', `"optionId" must be one of ${ids}.`, { path: 'optionId' });
    }
    this.#settle(open, option);
    return option;
  }

  /** The question is asked no more: it is denied, unless it was answered. */
  withdraw(requestId: string): void {
    this.#settle(this.#of(requestId), null);
  }

  /** The turn is about to end: what was not answered is denied. */
  close(): void {
    this.#closed = true;
    for (const open of this.#open.values()) this.#settle(open, null);
  }

  #of(requestId: string): Open {
    const known = this.#open.get(requestId);
    if (known) return known;
    const { promise, resolve } = withResolvers<string | null>();
    const open: Open = { question: null, timer: undefined, answer: promise, resolve, settled: false };
    this.#open.set(requestId, open);
    if (this.#closed) this.#settle(open, null);
    return open;
  }

  #settle(open: Open, option: PermissionOption | null): void {
    if (open.settled) return;
    open.settled = true;
    clearTimeout(open.timer);
    // Before the runner continues, so that the answer precedes its effects.
    if (open.question) this.#tell(open.question, option);
    open.resolve(option?.optionId ?? null);
  }

  #tell(question: Question, option: PermissionOption | null): void {
    const ok = option?.kind === 'allow_once' || option?.kind === 'allow_always';
    const { requestId } = question;
    this.#onResult(question, { type: 'permission.result', requestId, optionId: option?.optionId ?? null, ok });
  }
}

function withResolvers<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((fulfil) => {
    resolve = fulfil;
  });
  return { promise, resolve };
}
