/** Reads `text/event-stream`: a parser for the bytes, without any transport. */

export type ServerSentEvent = { event: string; data: string };

/** Cuts text into events, and remembers what a reconnect needs: the last event's id and the wait that the server asks for. */
export class EventStreamParser {
  /** Id of the last event that came whole. */
  lastEventId: string;
  /** Milliseconds that the server wants between two connections, once it has said so. */
  retryMs: number | undefined;
  #rest = '';
  #event = '';
  #data: string[] = [];
  #id: string;

  constructor(lastEventId = '') {
    this.lastEventId = lastEventId;
    this.#id = lastEventId;
  }

  /** The events that are complete with `chunk`. Half an event waits for the next chunk. */
  push(chunk: string): ServerSentEvent[] {
    // A carriage return at the end may be the first half of a line end.
    const text = this.#rest + chunk;
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() as string;
    return lines.flatMap((line) => this.#line(line) ?? []);
  }

  #line(line: string): ServerSentEvent | undefined {
    if (line === '') return this.#dispatch();
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.#event = value;
    else if (field === 'data') this.#data.push(value);
    else if (field === 'id' && !value.includes('\0')) this.#id = value;
    else if (field === 'retry' && /^\d+$/.test(value)) this.retryMs = Number(value);
    return undefined;
  }

  #dispatch(): ServerSentEvent | undefined {
    const event = this.#event || 'message';
    const data = this.#data;
    this.#event = '';
    this.#data = [];
    this.lastEventId = this.#id;
    return data.length === 0 ? undefined : { event, data: data.join('\n') };
  }
}
