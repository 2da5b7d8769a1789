/** One call while it runs: who waits for it until when, and whether anybody still does. */

/** Why nobody waits any more: the reason of the supervisor's `cancel`. */
export type CancelReason = 'deadline' | 'client-gone' | 'shutdown';

const REASONS: Record<CancelReason, string> = {
  deadline: 'its time is up',
  'client-gone': 'its caller has gone away',
  shutdown: 'the app is being stopped',
};

export class Call {
  readonly tool: string;
  readonly traceId: string;
  /** Milliseconds since the epoch. */
  readonly deadline: number;
  #cancelled: Error | null = null;
  #controller: AbortController | null = null;

  constructor(tool: string, traceId: string, deadline: number) {
    this.tool = tool;
    this.traceId = traceId;
    this.deadline = deadline;
  }

  /** Made when it is first asked for: most handlers never do. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#cancelled !== null) this.#controller.abort(this.#cancelled);
    }
    return this.#controller.signal;
  }

  get cancelled(): boolean {
    return this.#cancelled !== null;
  }

  cancel(reason: CancelReason): void {
    if (this.#cancelled !== null) return;
    this.#cancelled = new DOMException(`The call was cancelled: ${REASONS[reason]}.`, 'AbortError');
    this.#controller?.abort(this.#cancelled);
  }

  /** Throws once the call is cancelled, so that a handler that runs on changes nothing more. */
  assertWanted(): void {
    if (this.#cancelled !== null) throw this.#cancelled;
  }

  /** Rejects when the call is cancelled. */
  whenCancelled(): Promise<never> {
    const { signal } = this;
    return new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
  }
}
