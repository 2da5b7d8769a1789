/** Calls between two processes of Node over their channel: each answers what the other calls by name. */
import { AsyncLocalStorage } from 'node:async_hooks';

/** Answers a call. `signal` aborts when the caller gives up. */
export type Answer = (args: never, signal: AbortSignal) => unknown;
export type Answers = Record<string, Answer>;

/** The other end, as a process or a child has it. */
export type Port = {
  send?(message: unknown, callback: (error: Error | null) => void): boolean;
  on(event: 'message', listener: (message: unknown) => void): unknown;
};

type Failure = { message: string; code?: string; path?: string };
type Message =
  | ['call', number, string, unknown]
  | ['drop', number]
  | ['done', number, unknown]
  | ['failed', number, Failure];
type Waiting = { resolve(value: unknown): void; reject(error: Error): void; over(): void };

/** Failed at the other end. */
export class PeerError extends Error {
  readonly code: string | undefined;
  readonly path: string | undefined;

  constructor({ message, code, path }: Failure) {
    super(message);
    this.name = 'PeerError';
    this.code = code;
    this.path = path;
  }
}

export class Peer {
  readonly #port: Port;
  readonly #answers: Answers;
  readonly #waiting = new Map<number, Waiting>();
  readonly #running = new Map<number, AbortController>();
  #last = 0;
  #closed: Failure | null = null;

  constructor(port: Port, answers: Answers) {
    this.#port = port;
    this.#answers = answers;
    // What a call starts is not work of whoever happened to make this end.
    port.on(
      'message',
      AsyncLocalStorage.bind((message: unknown) => this.#received(message as Message)),
    );
  }

  /** Rejects with a `PeerError`, or with the reason of the signal once that aborts. */
  call(name: string, args: unknown, signal?: AbortSignal): Promise<unknown> {
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    if (this.#closed !== null) return Promise.reject(new PeerError(this.#closed));
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      const drop = (): void => {
        this.#waiting.delete(id);
        this.#send(['drop', id]);
        reject(signal?.reason as Error);
      };
      signal?.addEventListener('abort', drop, { once: true });
      this.#waiting.set(id, { resolve, reject, over: () => signal?.removeEventListener('abort', drop) });
      this.#send(['call', id, name, args], (error) => this.#settle(id, (one) => one.reject(error)));
    });
  }

  /** The other end is gone: everything that waits for it fails, and so does what is called later. */
  close(message: string): void {
    this.#closed ??= { message, code: 'INTERNAL' };
    for (const id of [...this.#waiting.keys()]) this.#settle(id, (one) => one.reject(new PeerError({ message })));
    for (const running of this.#running.values()) running.abort(new PeerError({ message }));
    this.#running.clear();
  }

  #received(message: Message): void {
    const [kind, id] = message;
    if (kind === 'call') void this.#answer(id, message[2], message[3]);
    else if (kind === 'drop') {
      this.#running.get(id)?.abort(new PeerError({ message: 'The caller gave up.', code: 'RUN_ABORTED' }));
      this.#running.delete(id);
    } else if (kind === 'done') this.#settle(id, (one) => one.resolve(message[2]));
    else this.#settle(id, (one) => one.reject(new PeerError(message[2])));
  }

  async #answer(id: number, name: string, args: unknown): Promise<void> {
    const controller = new AbortController();
    this.#running.set(id, controller);
    try {
      const answer = this.#answers[name];
      if (answer === undefined) throw new PeerError({ message: `There is no call "${name}".` });
      const value = await answer(args as never, controller.signal);
      this.#send(['done', id, value], (error) => this.#send(['failed', id, failureOf(error)]));
    } catch (error) {
      this.#send(['failed', id, failureOf(error)]);
    } finally {
      this.#running.delete(id);
    }
  }

  #settle(id: number, how: (waiting: Waiting) => void): void {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    waiting.over();
    how(waiting);
  }

  /** `onError`: the message could not be sent, such as a value that is no data. */
  #send(message: Message, onError: (error: Error) => void = () => {}): void {
    try {
      this.#port.send?.(message, (error) => {
        if (error !== null) onError(error);
      });
    } catch (error) {
      onError(error as Error);
    }
  }
}

function failureOf(error: unknown): Failure {
  const { message, code, path } = Object(error) as Record<string, unknown>;
  return {
    message: typeof message === 'string' ? message : String(error),
    ...(typeof code === 'string' && { code }),
    ...(typeof path === 'string' && { path }),
  };
}
