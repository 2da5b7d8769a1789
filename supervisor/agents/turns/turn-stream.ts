/** Sends the events of a turn to one follower, as fast as it reads. A follower that is far behind gets the stored events. */
import type { Exchange } from '../../edge/edge.ts';
import { type EventReaders, opening } from '../../http/event-streams.ts';
import type { ReadableTurn, SentEvents } from './live-turn.ts';

const OPENING = opening('events of a turn');

/**
 * Answers with the events after the id `after`, and ends behind the last one. Resolves when the stream has ended; with true when
 * the client went away before. Throws `OVERLOADED` when too many streams are open.
 */
export async function sendTurn(
  readers: EventReaders,
  exchange: Exchange,
  turn: ReadableTurn,
  after: number,
): Promise<boolean> {
  const reader = readers.open(exchange);
  if (reader === null) return exchange.aborted;
  reader.write(OPENING);
  // A power cut may have lost events that were seen: the end is still sent.
  let at = after > turn.lastId ? turn.lastId - 1 : after;
  try {
    while (reader.isOpen) {
      const { isOver, lastId } = turn;
      for await (const { id, bytes } of together(turn.after(at))) {
        if (!(await reader.send(bytes))) break;
        at = id;
      }
      // Damaged events are skipped.
      at = Math.max(at, lastId);
      if (isOver) break;
      if (reader.isOpen && at >= turn.lastId) await Promise.race([turn.changed(), reader.woken()]);
    }
  } catch {
    // The answer has begun, so that no error can be sent: without `end` the client knows that this was not all.
  }
  const gone = !reader.isOpen;
  reader.end();
  return gone && exchange.aborted;
}

/** Joins events that are in memory to one write. */
function together(events: SentEvents[] | AsyncIterable<SentEvents>): Iterable<SentEvents> | AsyncIterable<SentEvents> {
  if (!Array.isArray(events) || events.length < 2) return events;
  const id = events.at(-1)?.id ?? 0;
  return [{ id, bytes: Buffer.concat(events.map(({ bytes }) => bytes)) }];
}
