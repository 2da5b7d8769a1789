/** Writes and reads event streams (`text/event-stream`): the text of an event, and one reader for every client. */

/** `id` is that of the latest event that had one, the empty string before. */
export type ServerSentEvent = { event: string; data: string; id: string };

/** What a client knows of a stream: the id of the last complete event, also of one without data, and when to connect again. */
export type StreamPlace = { lastEventId: string; retryMs: number };

/** The beginning of a stream. */
export function streamPlace(): StreamPlace {
  return { lastEventId: '', retryMs: 2000 };
}

/** `data` is one line, as JSON text is. */
export function eventText(event: string, data: string, id?: number | string): string {
  return `event: ${event}\n${id === undefined ? '' : `id: ${id}\n`}data: ${data}\n\n`;
}

/**
 * Cuts one stream into events: answers a function that is given its bytes, chunk after chunk, and answers the events that they
 * complete. It notes in `place` where the stream is.
 */
export function eventReader(place: StreamPlace = streamPlace()): (chunk: Uint8Array) => ServerSentEvent[] {
  const decoder = new TextDecoder();
  /** A carriage return at the end of the last chunk: a line feed may follow it. */
  let held = '';
  /** Of a line that is not complete: a long one is put together once. */
  let parts: string[] = [];
  let event = '';
  let data: string[] = [];
  let id = place.lastEventId;
  const take = (line: string): void => {
    const [, field, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (field === 'event') event = value;
    else if (field === 'data') data.push(value);
    else if (field === 'id' && !value.includes('\0')) id = value;
    else if (field === 'retry' && /^\d+$/.test(value)) place.retryMs = Number(value);
  };
  return (chunk) => {
    const events: ServerSentEvent[] = [];
    const text = held + decoder.decode(chunk, { stream: true });
    held = text.endsWith('\r') ? '\r' : '';
    const [first, ...rest] = text.slice(0, text.length - held.length).split(/\r\n?|\n/);
    parts.push(first as string);
    for (const next of rest) {
      const line = parts.join('');
      parts = [next];
      take(line);
      if (line !== '') continue;
      place.lastEventId = id;
      if (data.length > 0) events.push({ event: event || 'message', data: data.join('\n'), id });
      event = '';
      data = [];
    }
    return events;
  };
}

/**
 * The events of a stream that is opened again whenever it ends, from its last event on. `open` resolves with the bytes of a stream,
 * which end where it breaks, or with none; `wait` before the next attempt. What either rejects with ends it.
 */
export async function* followEvents(
  place: StreamPlace,
  open: () => Promise<AsyncIterable<Uint8Array> | Uint8Array[]>,
  wait: () => Promise<unknown>,
  readerOf: typeof eventReader = eventReader,
): AsyncGenerator<ServerSentEvent> {
  for (;;) {
    const chunks = await open();
    const read = readerOf(place);
    for await (const chunk of chunks) yield* read(chunk);
    await wait();
  }
}
