/** Reads an event stream as an EventSource does, but with `fetch`: an EventSource sends no header, and so no page key. */
import { followEvents, streamPlace } from '../../../protocol/http/event-stream.ts';
import { keyHeaders } from '../page-key.ts';
import { chunksOf } from './chunks.ts';

/** Of the page, before a script that watches its requests takes its place. */
const { fetch: send } = globalThis;

type Refusal = { code: string; message: string };

/**
 * Dispatches `open`, `error`, and each event by its name as a MessageEvent. A lost connection it opens again by itself, with the
 * id of the last event; an answer that is no event stream is final.
 */
export class EventStream extends EventTarget {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSED = 2;

  readyState: number = EventStream.CONNECTING;
  /** The gateway's error that closed it; null where something else did. */
  refusal: Refusal | null = null;
  readonly #closing = new AbortController();

  constructor(address: string) {
    super();
    void this.#follow(address);
  }

  /** Events by their names, which have data; `open` and `error` have none. */
  on(type: string, listener: (event: MessageEvent) => void): void {
    this.addEventListener(type, listener as EventListener);
  }

  close(): void {
    this.readyState = EventStream.CLOSED;
    this.#closing.abort();
  }

  async #follow(address: string): Promise<void> {
    const { signal } = this.#closing;
    const place = streamPlace();
    const become = (state: number, type: string) => {
      this.readyState = state;
      this.dispatchEvent(new Event(type));
    };
    const open = async () => {
      const last = place.lastEventId;
      const headers = { accept: 'text/event-stream', ...(last && { 'last-event-id': last }), ...keyHeaders() };
      const response = await send(address, { headers, cache: 'no-store', signal }).catch(() => null);
      if (!response) return [];
      if (response.status !== 200 || !response.headers.get('content-type')?.startsWith('text/event-stream')) {
        this.refusal = response.ok ? null : await errorOf(response);
        signal.throwIfAborted();
        this.close();
        become(EventStream.CLOSED, 'error');
        return [];
      }
      become(EventStream.OPEN, 'open');
      return chunksOf(response.body!.getReader());
    };
    const lost = async () => {
      signal.throwIfAborted();
      become(EventStream.CONNECTING, 'error');
      await new Promise((resolve) => setTimeout(resolve, place.retryMs));
      signal.throwIfAborted();
    };
    try {
      for await (const { event, data, id } of followEvents(place, open, lost)) {
        this.dispatchEvent(new MessageEvent(event, { data, lastEventId: id }));
        if (signal.aborted) return;
      }
    } catch {
      // It was closed.
    }
  }
}

async function errorOf(response: Response): Promise<Refusal | null> {
  const answer: { error?: Refusal } | null = await response.json().catch(() => null);
  return answer?.error ?? null;
}
