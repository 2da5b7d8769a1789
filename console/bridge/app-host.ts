/** Speaks with the host of a page by the messages of MCP Apps: JSON-RPC over `postMessage` (extension of 2026-01-26). */
import { UI_PROTOCOL } from '../../protocol/http/mcp-app.ts';

export type Params = Record<string, unknown>;
// biome-ignore lint/suspicious/noExplicitAny: what a host answers is looked at where it is used
type Answer = any;
type Waiting = { resolve(result: Answer): void; reject(error: Error): void; timer: ReturnType<typeof setTimeout> };

/** An error that the host answered with; `data` is what the gateway said. */
export class HostError extends Error {
  readonly data: Answer;

  constructor(message: string, data: unknown) {
    super(message);
    this.data = data;
  }
}

/** No answer of a host is waited for longer: the longest action takes ten minutes, and a person may be asked before. */
const ANSWER_MS = 15 * 60_000;
/** A host that does not greet within this time is none. */
const GREETING_MS = 20_000;
const NO_METHOD = -32_601;

export class Host {
  /** Resolves to what the host says of itself; rejects where no host of MCP Apps shows the page. */
  readonly ready: Promise<Answer>;
  readonly #waiting = new Map<number, Waiting>();
  readonly #listeners = new Map<string, (params: Params) => unknown>();
  #latest = 0;

  constructor(name: string) {
    addEventListener('message', ({ source, data }) => {
      if (source === parent && data?.jsonrpc === '2.0') void this.#take(data);
    });
    this.ready = this.#greet(name);
    this.ready.catch(() => {});
  }

  /** What a notification or a request of the host does; a request is answered once it has resolved. */
  on(method: string, listener: (params: Params) => unknown): void {
    this.#listeners.set(method, listener);
  }

  /** Rejects with a `HostError`, or with a plain error when no answer came. */
  async request(method: string, params: Params): Promise<Answer> {
    await this.ready;
    return await this.#send(method, params, ANSWER_MS);
  }

  /** Once the host has greeted. */
  notify(method: string, params: Params): void {
    this.ready.then(
      () => this.#post({ method, params }),
      () => {},
    );
  }

  async #greet(name: string): Promise<Answer> {
    if (parent === window) throw new Error('No host shows this page.');
    const greeting = await this.#send(
      'ui/initialize',
      {
        appInfo: { name, version: '1' },
        appCapabilities: { availableDisplayModes: ['inline', 'fullscreen', 'pip'] },
        protocolVersion: UI_PROTOCOL,
      },
      GREETING_MS,
    );
    this.#post({ method: 'ui/notifications/initialized', params: {} });
    return greeting;
  }

  #send(method: string, params: Params, ms: number): Promise<Answer> {
    const id = ++this.#latest;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(id);
        reject(new Error('The host did not answer.'));
      }, ms);
      this.#waiting.set(id, { resolve, reject, timer });
      this.#post({ id, method, params });
    });
  }

  /** To whatever origin: a page knows nothing of its host, and says nothing that it may not know. */
  #post(message: object): void {
    parent.postMessage({ jsonrpc: '2.0', ...message }, '*');
  }

  async #take({ id, method, params = {}, result, error }: Answer): Promise<void> {
    if (typeof method === 'string') {
      const listener = method === 'ping' ? () => ({}) : this.#listeners.get(method);
      if (id === undefined) listener?.(params);
      else if (listener === undefined)
        this.#post({ id, error: { code: NO_METHOD, message: `No method "${method}".` } });
      else this.#post({ id, result: (await listener(params)) ?? {} });
      return;
    }
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    clearTimeout(waiting.timer);
    if (error === undefined) waiting.resolve(result);
    else waiting.reject(new HostError(String(error?.message ?? 'The host refused it.'), error?.data));
  }
}
