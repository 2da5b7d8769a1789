/**
 * One way to people: sends its notices one after the other, and again after a failure, until their time is up (specification,
 * "Notices").
 *
 *   idle ─add→ sending ─sent→ sending the next one, or idle
 *                 └failed→ waiting ─back-off over→ sending
 */
import { LIMITS } from '../../protocol/limits.ts';
import type { ChannelKind, Notice } from '../../protocol/notice.ts';
import type { ChannelStatus, TestResult } from '../../protocol/routes/operations/notices-rows.ts';
import { joinSignals } from '../../protocol/signals.ts';
import { DeliveryError, inWords, isRefusal, type Send } from './delivery.ts';

export type ChannelOptions = {
  name: string;
  kind: ChannelKind;
  send: Send;
  browser?: ChannelStatus['browser'];
  /** The notice is sent or given up: it need not be kept for it any more. */
  onDone(notice: Notice): void;
  /** The address is gone for good. */
  onGone?(): void;
  log(level: 'info' | 'warn', message: string): void;
  /** Milliseconds since the epoch. */
  now(): number;
  /** Calls `wake` once after `ms`, unless the function that it returns was called before. */
  setTimer(ms: number, wake: () => void): () => void;
};

export class Channel {
  readonly name: string;
  readonly #options: ChannelOptions;
  readonly #stopping = new AbortController();
  readonly #waiting: Notice[] = [];
  #isSending = false;
  /** Tries that failed since one succeeded. */
  #failures = 0;
  #dropped = 0;
  #lastSentAt: number | null = null;
  #lastFailure: ChannelStatus['lastFailure'] = null;
  #stopWaiting: (() => void) | null = null;

  constructor(options: ChannelOptions) {
    this.name = options.name;
    this.#options = options;
  }

  /** Takes it at once, and sends it when its turn comes. */
  add(notice: Notice): void {
    if (this.#stopping.signal.aborted) return;
    // The first may be under way.
    if (this.#waiting.length >= LIMITS.noticesWaiting) this.#drop(1);
    this.#waiting.push(notice);
    this.#next();
  }

  /** Sends it now, once, whatever waits. Never rejects. */
  async try(notice: Notice): Promise<TestResult> {
    try {
      await this.#send(notice);
      // What waits for the next try need not.
      this.#stopWaiting?.();
      this.#stopWaiting = null;
      this.#next();
      return { channel: this.name, ok: true };
    } catch (error) {
      return { channel: this.name, ok: false, message: inWords(error) };
    }
  }

  /** Drops these, for another gateway to send them. One that is under way may reach people twice. */
  release(isTheirs: (notice: Notice) => boolean): void {
    for (const notice of this.#waiting.filter(isTheirs)) this.#waiting.splice(this.#waiting.indexOf(notice), 1);
  }

  status(): ChannelStatus {
    const { kind, browser } = this.#options;
    const state = this.#failures > 0 ? 'failing' : this.#lastSentAt === null ? 'idle' : 'ok';
    const times = { lastSentAt: this.#lastSentAt, lastFailure: this.#lastFailure };
    const counts = { waiting: this.#waiting.length, dropped: this.#dropped };
    return { channel: this.name, kind, state, ...counts, ...times, ...(browser && { browser }) };
  }

  /** What is under way ends at once; what waits is not sent. */
  stop(): void {
    this.#stopWaiting?.();
    this.#stopping.abort();
  }

  #next(): void {
    const [notice] = this.#waiting;
    if (notice === undefined || this.#isSending || this.#stopWaiting !== null || this.#stopping.signal.aborted) return;
    this.#isSending = true;
    void this.#deliver(notice).finally(() => {
      this.#isSending = false;
      this.#next();
    });
  }

  /** Never rejects. */
  async #deliver(notice: Notice): Promise<void> {
    if (this.#isLate(notice)) {
      this.#drop(this.#waiting.indexOf(notice));
      return;
    }
    try {
      await this.#send(notice);
      this.#leave(notice);
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      if (error instanceof DeliveryError && error.isGone) this.#gone();
      else if (isRefusal(error)) this.#drop(this.#waiting.indexOf(notice));
      else this.#pause();
    }
  }

  /** Notes how it went. */
  async #send(notice: Notice): Promise<void> {
    const { send, now, log } = this.#options;
    const joined = joinSignals([this.#stopping.signal], LIMITS.noticeSendMs);
    try {
      await send(notice, joined.signal);
      if (this.#failures > 0) log('info', `Notices reach ${this.name} again.`);
      this.#failures = 0;
      this.#lastSentAt = now();
    } catch (error) {
      if (!this.#stopping.signal.aborted) this.#failed(inWords(error));
      throw error;
    } finally {
      joined.release();
    }
  }

  /** Nobody is there to send to. */
  #gone(): void {
    this.stop();
    this.#options.onGone?.();
  }

  #failed(message: string): void {
    // Each try would fill the log.
    if (this.#failures === 0) this.#options.log('warn', `Notices do not reach ${this.name}: ${message}`);
    this.#failures++;
    this.#lastFailure = { at: this.#options.now(), message };
  }

  #pause(): void {
    const ms = Math.min(LIMITS.noticeRetryMs * 2 ** (this.#failures - 1), LIMITS.noticeRetryMaxMs);
    this.#stopWaiting = this.#options.setTimer(ms, () => {
      this.#stopWaiting = null;
      this.#next();
    });
  }

  #isLate({ at }: Notice): boolean {
    return this.#options.now() - at > LIMITS.noticeKeptMs;
  }

  /** The one at this place of the queue; one that has left it is counted already. */
  #drop(at: number): void {
    const notice = this.#waiting[at];
    if (notice === undefined) return;
    this.#dropped++;
    this.#leave(notice);
  }

  #leave(notice: Notice): void {
    const at = this.#waiting.indexOf(notice);
    if (at < 0) return;
    this.#waiting.splice(at, 1);
    this.#options.onDone(notice);
  }
}
