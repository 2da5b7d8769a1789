/**
 * Asks processes of one kind and waits for their answers: starts a process when there is something to ask, limits what runs and
 * what waits, and ends a process that was idle for a time. When a process dies, its questions are asked again or fail.
 *
 *   waiting ─place in a process→ placed ─process runs→ sent ─answer→ answered
 *      ↑─────── process died, may be asked again ────────┤
 *      └── abort, time, end of the gateway ──────────────┴→ failed
 */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { type Frame, type FrameOf, Kind } from '../../protocol/wire/frames.ts';
import { type Child, type ChildEvents, OUT_OF_MEMORY } from './child.ts';
import { FairQueue, type Queued, type QueueLimits } from './fair-queue.ts';
import { startGraceTimer } from './grace-timer.ts';

/**
 * Why a question has no answer. `waited`: it was not sent within `waitMs`; `late`: it has no answer after `answerMs`; `memory`: its
 * process had no other question and ran out of memory; `lost`: its process died; `down`: the process does not stay up.
 */
export type Failure = 'stopping' | 'full' | 'down' | 'waited' | 'late' | 'cancelled' | 'too-large' | 'memory' | 'lost';

export type Question = Pick<Queued, 'pool' | 'party'> & {
  /** The frame that asks; made each time it is sent. */
  frame(id: number): Frame;
  /** `reason` is how the process ended, for `down`, `memory` and `lost`; `cause` is what `frame` or the sending threw. */
  failed(why: Failure, reason: string, cause?: unknown): SvcError;
  /** Called when its process died: whether it may be asked once more. Never by default. */
  repeats?(reason: string, process: string): boolean;
  /** Milliseconds; no limit by default. */
  waitMs?: number;
  answerMs?: number;
  /** One that was sent is then cancelled in its process. The answer still counts, unless the asker `leaves`. */
  signal?: AbortSignal | undefined;
  leaves?: boolean;
};

export type Asked<T> = { id: number; answer: Promise<T> };

type Options = {
  /** What the processes are called in the log, such as "The jobs process". */
  title: string;
  /** Makes one of the processes, which is not started. */
  createChild(events: ChildEvents, n: number): Child;
  limits: QueueLimits;
  /** How many processes there may be, and how many questions each has at a time. */
  processes?: number;
  perProcess?: number;
  /** How long a process is kept without work after a question of this pool. For ever by default. */
  idleMs?(pool: string): number;
  /** A question that is late takes its process with it: nothing else ends its work. */
  lateEndsProcess?: boolean;
  /** A process that dies with a single question died of that question, and may start again at once. */
  soleQuestionIsCause?: boolean;
  now?(): number;
};

type Place = { child: Child; keepUntil: number; idleTimer: NodeJS.Timeout | undefined };

type Pending = Queued & {
  id: number;
  question: Question;
  place: Place | null;
  sent: boolean;
  attempts: number;
  stopTimer(): void;
  stopListening(): void;
  resolve(answer: unknown): void;
  reject(error: SvcError): void;
};

const ATTEMPTS = 2;

export class ChildClient {
  readonly #options: Options;
  readonly #now: () => number;
  readonly #places: Place[];
  readonly #queue: FairQueue<Pending>;
  readonly #asked = new Map<number, Pending>();
  readonly #receivers = new Map<number, (frame: never, child: Child) => void>();
  readonly #onExit: (() => Promise<void> | void)[] = [];
  readonly #cleaning = new Set<Promise<unknown>>();
  #nextId = 0;
  #closed = false;
  #onQuiet: () => void = () => {};

  constructor(options: Options) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#queue = new FairQueue(options.limits);
    this.#places = Array.from({ length: options.processes ?? 1 }, (_, n) => this.#createPlace(n));
  }

  /** Whether a process kept dying and is not tried for now. */
  get isDown(): boolean {
    return this.#places.some(({ child }) => child.state === 'failed');
  }

  /** Hears the frames of a kind; others are refused. It throws for one that is malformed: the connection is then closed. */
  on<K extends keyof typeof Kind>(kind: K, receive: (frame: FrameOf<K>, child: Child) => void): void {
    this.#receivers.set(Kind[kind], receive);
  }

  /** Calls it when a process has ended. What the process had is failed once that resolves. */
  onExit(cleanUp: () => Promise<void> | void): void {
    this.#onExit.push(cleanUp);
  }

  /** `answer` rejects with the question's own error. */
  ask<T>(question: Question): Asked<T> {
    const id = ++this.#nextId;
    const answer = new Promise<T>((resolve, reject) => {
      const { pool, party, signal } = question;
      if (this.#closed) return reject(question.failed('stopping', ''));
      if (signal?.aborted) return reject(question.failed('cancelled', ''));
      const abort = () => this.#abort(pending);
      const pending: Pending = {
        id,
        question,
        pool,
        party,
        alone: false,
        place: null,
        sent: false,
        attempts: 0,
        stopTimer: () => {},
        stopListening: () => signal?.removeEventListener('abort', abort),
        resolve: resolve as (answer: unknown) => void,
        reject,
      };
      if (!this.#queue.add(pending)) return reject(question.failed('full', ''));
      this.#asked.set(id, pending);
      signal?.addEventListener('abort', abort, { once: true });
      this.#limitWait(pending);
      this.#pump();
    });
    return { id, answer };
  }

  /** The answer of a process, or its error; ignored when nobody waits for it any more. */
  answer(id: number, answer: unknown): void {
    const pending = this.#asked.get(id);
    if (!pending) return;
    this.#forget(pending);
    if (answer instanceof SvcError) pending.reject(answer);
    else pending.resolve(answer);
    this.#pump();
  }

  /** More for the process that has the question. */
  tell(id: number, frame: Frame): void {
    const pending = this.#asked.get(id);
    if (pending?.sent) pending.place?.child.send(frame);
  }

  /** For all processes that run. */
  tellAll(frame: Frame): void {
    for (const { child } of this.#places) if (child.state === 'running') child.send(frame);
  }

  /**
   * Refuses all questions, or with `drain` those that no process has yet, and waits for the others; then ends the processes. Resolves
   * when they are gone and cleaned up after.
   */
  async close(graceMs: number, { drain = false } = {}): Promise<void> {
    this.#closed = true;
    for (const pending of drain ? [...this.#queue.waiting] : [...this.#asked.values()]) this.#fail(pending, 'stopping');
    if (drain && this.#queue.running.size > 0)
      await new Promise<void>((resolve) => {
        this.#onQuiet = resolve;
      });
    for (const { idleTimer } of this.#places) clearTimeout(idleTimer);
    await Promise.all(this.#places.map(({ child }) => child.stop(graceMs)));
    await Promise.all(this.#cleaning);
  }

  #createPlace(n: number): Place {
    const place: Place = {
      child: this.#options.createChild(
        {
          onReady: () => {
            for (const pending of this.#having(place)) this.#send(pending);
            this.#pump();
            this.#endWhenIdle(place);
          },
          onFrame: (frame) => this.#onFrame(frame, place.child),
          onExit: (reason) => this.#exited(place, reason),
        },
        n,
      ),
      keepUntil: 0,
      idleTimer: undefined,
    };
    return place;
  }

  #having(place: Place): Pending[] {
    return [...this.#queue.running].filter((pending) => pending.place === place);
  }

  #onFrame(frame: Frame, child: Child): void {
    const receive = this.#receivers.get(frame[0]);
    if (!receive) throw new Error(`${this.#options.title} may not send frames of kind ${frame[0]}.`);
    receive(frame as never, child);
  }

  #pump(): void {
    for (let place = this.#freePlace(); place !== null; place = this.#freePlace()) {
      const pending = this.#queue.next();
      if (pending === null) return;
      pending.place = place;
      clearTimeout(place.idleTimer);
      if (place.child.wake()) this.#send(pending);
      else this.#fail(pending, 'down', place.child.lastExit ?? '');
    }
  }

  /** One whose process runs, if possible, or can be started. */
  #freePlace(): Place | null {
    const { perProcess = Number.POSITIVE_INFINITY } = this.#options;
    const free = this.#places.filter(
      (place) => place.child.state !== 'stopping' && this.#having(place).length < perProcess,
    );
    const runs = free.find(({ child }) => child.state === 'running');
    return runs ?? free.find(({ child }) => child.state !== 'failed') ?? free[0] ?? null;
  }

  /** Once the process runs. */
  #send(pending: Pending): void {
    const { id, question, place, sent } = pending;
    if (sent || place?.child.state !== 'running') return;
    pending.sent = true;
    pending.attempts++;
    pending.stopTimer();
    const { answerMs } = question;
    if (answerMs !== undefined) pending.stopTimer = startGraceTimer(answerMs, this.#now, () => this.#late(pending));
    try {
      place.child.send(question.frame(id));
    } catch (error) {
      this.#fail(pending, 'too-large', '', error);
    }
  }

  #limitWait(pending: Pending): void {
    const { waitMs } = pending.question;
    if (waitMs === undefined) return;
    const timer = setTimeout(() => {
      this.#fail(pending, 'waited');
      this.#pump();
    }, waitMs);
    pending.stopTimer = () => clearTimeout(timer);
  }

  #late(pending: Pending): void {
    const { id, place } = pending;
    this.#fail(pending, 'late');
    if (this.#options.lateEndsProcess) place?.child.destroy();
    else place?.child.send([Kind.cancel, id, 'deadline']);
    this.#pump();
  }

  #abort(pending: Pending): void {
    const { id, place, sent, question } = pending;
    if (sent) place?.child.send([Kind.cancel, id, 'cancelled']);
    if (sent && !question.leaves) return;
    this.#fail(pending, 'cancelled');
    this.#pump();
  }

  #exited(place: Place, reason: string): void {
    const { child } = place;
    const had = this.#having(place);
    const hit = had.filter(({ sent }) => sent);
    const isMemory = hit.length === 1 && reason.includes(OUT_OF_MEMORY);
    const again: Pending[] = [];
    const lost: Pending[] = [];
    for (const pending of hit) {
      const { question, attempts } = pending;
      const mayRepeat = question.repeats?.(reason, child.name) ?? false;
      pending.stopTimer();
      pending.sent = false;
      pending.place = null;
      if (mayRepeat && !isMemory && attempts < ATTEMPTS) again.push(pending);
      else {
        lost.push(pending);
        pending.stopListening();
      }
    }
    // Where others were under way too, one of them may be the culprit.
    this.#queue.putBack(again, (this.#options.perProcess ?? 0) !== 1);
    for (const pending of again) this.#limitWait(pending);
    if (this.#options.soleQuestionIsCause && hit.length === 1 && !this.#closed) child.revive();
    for (const pending of had) if (pending.place === place && !child.wake()) this.#fail(pending, 'down', reason);
    const cleaned = Promise.allSettled(this.#onExit.map(async (cleanUp) => await cleanUp()));
    this.#cleaning.add(cleaned);
    void cleaned.then(() => {
      this.#cleaning.delete(cleaned);
      for (const pending of lost) this.#fail(pending, isMemory ? 'memory' : 'lost', reason);
      this.#pump();
    });
    this.#pump();
  }

  /** Ends the process once it has been without work for its time. */
  #endWhenIdle(place: Place): void {
    if (this.#options.idleMs === undefined) return;
    clearTimeout(place.idleTimer);
    place.idleTimer = setTimeout(
      () => {
        if (this.#having(place).length === 0 && place.child.state === 'running')
          void place.child.stop(LIMITS.terminateMs);
      },
      Math.max(0, place.keepUntil - this.#now()),
    ).unref();
  }

  #fail(pending: Pending, why: Failure, reason = '', cause?: unknown): void {
    if (!this.#asked.has(pending.id)) return;
    this.#forget(pending);
    pending.reject(pending.question.failed(why, reason, cause));
  }

  #forget(pending: Pending): void {
    const { id, place, pool } = pending;
    this.#asked.delete(id);
    this.#queue.remove(pending);
    pending.stopTimer();
    pending.stopListening();
    if (place !== null) {
      const idleMs = this.#options.idleMs?.(pool) ?? 0;
      place.keepUntil = Math.max(place.keepUntil, this.#now() + idleMs);
      this.#endWhenIdle(place);
    }
    if (this.#queue.running.size === 0) this.#onQuiet();
  }
}
