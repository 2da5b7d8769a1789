/** Reads an event stream as an EventSource does, but with `fetch`: an EventSource sends no header, and so no page key. */
import { keyHeaders } from './page-key.ts';

/** Until the stream says another one. */
const RETRY_MS = 3000;

/** Of the page, before a script that watches its requests takes its place. */
const { fetch: send } = globalThis;

/**
 * Dispatches `open`, `error`, and each event by its name as a MessageEvent. A lost connection it opens again by itself, with the
 * id of the last event; an answer that is no event stream is final.
 */
export class EventStream extends EventTarget {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSED = 2;

  readyState: number = EventStream.CONNECTING;
  readonly #address: string;
  readonly #closing = new AbortController();
  #lastId = '';
  #retryMs = RETRY_MS;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(address: string) {
    super();
    this.#address = address;
    void this.#open();
  }

  /** Events by their names, which have data; `open` and `error` have none. */
  on(type: string, listener: (event: MessageEvent) => void): void {
    this.addEventListener(type, listener as EventListener);
  }

  close(): void {
    this.readyState = EventStream.CLOSED;
    clearTimeout(this.#timer);
    this.#closing.abort();
  }

  async #open(): Promise<void> {
    const headers = {
      accept: 'text/event-stream',
      ...(this.#lastId === '' ? {} : { 'last-event-id': this.#lastId }),
      ...keyHeaders(),
    };
    try {
      const response = await send(this.#address, { headers, cache: 'no-store', signal: this.#closing.signal });
      if (response.status !== 200 || !response.headers.get('content-type')?.startsWith('text/event-stream')) {
        this.close();
        this.dispatchEvent(new Event('error'));
        return;
      }
      this.readyState = EventStream.OPEN;
      this.dispatchEvent(new Event('open'));
      if (response.body !== null) await this.#read(response.body);
    } catch {
      // As if it had ended.
    }
    if (this.readyState === EventStream.CLOSED) return;
    this.readyState = EventStream.CONNECTING;
    this.#timer = setTimeout(() => void this.#open(), this.#retryMs);
    this.dispatchEvent(new Event('error'));
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    /** What came of a line whose end did not. */
    let begun: string[] = [];
    let event: string[] = [];
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = decoder.decode(value, { stream: true }).split('\n');
      const last = lines.pop() as string;
      for (const line of lines) {
        const whole = [...begun, line].join('').replace(/\r$/, '');
        begun = [];
        if (whole !== '') event.push(whole);
        else {
          this.#tell(event);
          event = [];
        }
        if (this.readyState === EventStream.CLOSED) return;
      }
      begun.push(last);
    }
  }

  #tell(lines: readonly string[]): void {
    let type = 'message';
    const data: string[] = [];
    for (const line of lines) {
      const [, name, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
      if (name === 'event') type = value;
      else if (name === 'data') data.push(value);
      else if (name === 'id') this.#lastId = value;
      else if (name === 'retry' && /^\d+$/.test(value)) this.#retryMs = Number(value);
    }
    if (data.length === 0) return;
    this.dispatchEvent(new MessageEvent(type, { data: data.join('\n'), lastEventId: this.#lastId }));
  }
}
