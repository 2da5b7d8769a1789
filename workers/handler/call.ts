/** One call while it runs: who waits for it until when, and whether anybody still does. */
import type { CancelReason } from '../../protocol/frames.ts';

const REASONS: Record<CancelReason, string> = {
  deadline: 'its time is up',
  cancelled: 'it is not wanted any more',
  'client-gone': 'its caller has gone away',
  shutdown: 'the app is being stopped',
};

export class Call {
  readonly tool: string;
  readonly traceId: string;
  /** Milliseconds since the epoch. */
  readonly deadline: number;
  /** Something that it wrote is stored. */
  wrote = false;
  /** Why its signal aborted. */
  #aborted: Error | null = null;
  /** It was answered without us, so it may change nothing more. */
  #over = false;
  #controller: AbortController | null = null;
  #onOver: ((reason: Error) => void) | null = null;

  constructor(tool: string, traceId: string, deadline: number) {
    this.tool = tool;
    this.traceId = traceId;
    this.deadline = deadline;
  }

  /** Made when it is first asked for: most handlers never do. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#aborted !== null) this.#controller.abort(this.#aborted);
    }
    return this.#controller.signal;
  }

  get over(): boolean {
    return this.#over;
  }

  /**
   * Aborts the signal. A caller that has gone away does not cut an action in half: what it writes still counts, and those
   * who follow the changes hear of it. Any other reason ends the call.
   */
  cancel(reason: CancelReason): void {
    if (this.#over) return;
    const error = new DOMException(`The call was cancelled: ${REASONS[reason]}.`, 'AbortError');
    this.#over = reason !== 'client-gone';
    if (this.#over || this.#aborted === null) this.#aborted = error;
    this.#controller?.abort(error);
    if (this.#over) this.#onOver?.(error);
  }

  /** Throws once the call is over, so that a handler that runs on changes nothing more. */
  assertWanted(): void {
    if (this.#over) throw this.#aborted;
  }

  /** Has the one `listener` told when the call is over before its handler is done. */
  onOver(listener: (reason: Error) => void): void {
    this.#onOver = listener;
  }

  /** Rejects when the call is over. */
  whenOver(): Promise<never> {
    return new Promise((_, reject) => this.onOver(reject));
  }
}
