/**
 * Speaks with a browser over the two pipes that `--remote-debugging-pipe` gives its parent, and nobody else: JSON messages, each
 * ended by a zero byte (Chrome DevTools Protocol).
 */
import type { Readable, Writable } from 'node:stream';

/** A page, or something else that the browser runs. */
export type Target = { targetId: string; type: string; url: string };

type Message = { id?: number; method?: string; params?: unknown; result?: unknown; error?: { message: string } };
type Waiting = { resolve(result: unknown): void; reject(error: Error): void };

export class DevTools {
  readonly #output: Writable;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;
  #ended: Error | null = null;
  /** Called with each page that is made or changes its address. */
  onTarget: (target: Target) => void = () => {};

  constructor(input: Readable, output: Writable) {
    this.#output = output;
    output.on('error', () => {});
    let rest = '';
    input.setEncoding('utf8').on('data', (chunk: string) => {
      const messages = (rest + chunk).split('\0');
      rest = messages.pop() as string;
      for (const message of messages) this.#take(JSON.parse(message) as Message);
    });
    input.on('error', () => {});
  }

  /** Rejects when the browser refuses it, and when `end` is called first. */
  send<T>(method: string, params: object = {}, sessionId?: string): Promise<T> {
    if (this.#ended !== null) return Promise.reject(this.#ended);
    const id = ++this.#lastId;
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as Waiting['resolve'], reject });
      this.#output.write(`${JSON.stringify({ id, method, params, ...(sessionId && { sessionId }) })}\0`);
    });
  }

  /** Everything that waits fails with this error, and so does all that follows. */
  end(error: Error): void {
    this.#ended ??= error;
    for (const { reject } of this.#waiting.values()) reject(this.#ended);
    this.#waiting.clear();
  }

  #take({ id, method, params, result, error }: Message): void {
    if (method === 'Target.targetCreated' || method === 'Target.targetInfoChanged')
      this.onTarget((params as { targetInfo: Target }).targetInfo);
    const waiting = id === undefined ? undefined : this.#waiting.get(id);
    if (id === undefined || waiting === undefined) return;
    this.#waiting.delete(id);
    if (error === undefined) waiting.resolve(result);
    else waiting.reject(new Error(error.message));
  }
}
