/** Sends the events of runs to followers: of one run from its beginning, or of all runs live (decisions, section 6). */

import { noUsage, type RunEvent, type RunNode, type RunRecord } from '../../../protocol/automations/runs.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Exchange } from '../../edge/edge.ts';
import type { EventReader, EventReaders } from '../../http/event-streams.ts';
import type { RunLedger } from './ledger.ts';

/** Only runs of this automation, of this app; both when both are given. */
type FollowFilter = { ref?: string; app?: string };

/** A run under way. */
class LiveRun {
  /** As it started; null while it waits for its turn and has followers already. */
  started: RunRecord | null = null;
  /** Events since then, for later followers; the oldest is dropped first. */
  readonly kept: Buffer[] = [];
  #keptBytes = 0;
  dropped = 0;
  readonly followers = new Set<Follower>();
  /** Requests that look into the ledger, to know whether they follow. */
  looking = 0;
  /** Its end was told. */
  ended = false;

  keep(bytes: Buffer): void {
    this.kept.push(bytes);
    this.#keptBytes += bytes.length;
    while (this.kept.length > LIMITS.runEvents || this.#keptBytes > LIMITS.runEventsBytes) {
      this.#keptBytes -= this.kept.shift()?.length ?? 0;
      this.dropped += 1;
    }
  }
}

/** Nodes that are read from the ledger at a time, to be sent. */
const REPLAYED_NODES = 20;
const OPENING = Buffer.from(`retry: ${LIMITS.changeRetryMs}\n: events of runs\n\n`);

export class RunEvents {
  readonly #ledger: Pick<RunLedger, 'get' | 'nodes'>;
  readonly #readers: EventReaders;
  readonly #runs = new Map<string, LiveRun>();
  readonly #watchers = new Map<Follower, FollowFilter>();

  /** `readers` counts and bounds those who read, together with the gateway's other event streams. */
  constructor(ledger: Pick<RunLedger, 'get' | 'nodes'>, readers: EventReaders) {
    this.#ledger = ledger;
    this.#readers = readers;
  }

  /** Runs that have started and not ended, or have followers. */
  get live(): number {
    return this.#runs.size;
  }

  /** Call it in order. `run.end` is the last event, after the ledger has stored it; others are ignored unless the run is under way. */
  publish(event: RunEvent): void {
    const runId = runIdOf(event);
    const known = this.#runs.get(runId);
    if (!known && event.type !== 'run.start' && event.type !== 'run.end') return;
    let bytes: Buffer | null = null;
    // Most runs have no followers, and their records can be large.
    const wire = (): Buffer => {
      bytes ??= wireOf(event);
      return bytes;
    };
    const run = event.type === 'run.start' || event.type === 'run.end' ? event.run : (known?.started ?? null);

    if (event.type === 'run.end') {
      this.#runs.delete(runId);
      if (known) known.ended = true;
      for (const follower of known?.followers ?? []) follower.end(wire());
    } else {
      const live = known ?? this.#begin(runId);
      if (event.type === 'run.start') live.started = event.run;
      else live.keep(wire());
      for (const follower of live.followers) follower.tell(wire());
    }
    if (!run) return;
    for (const [watcher, { ref, app }] of this.#watchers) {
      if ((ref === undefined || ref === run.ref) && (app === undefined || app === run.app)) watcher.tell(wire());
    }
  }

  /** Answers with a run's past events, then its live ones up to `run.end`. Rejects with `UNKNOWN_RUN` or `OVERLOADED`. */
  async follow(runId: string, exchange: Exchange): Promise<void> {
    // There from before the look into the ledger, so that no end comes in between unnoticed.
    const live = this.#runs.get(runId) ?? this.#begin(runId);
    let ended: RunRecord | null = null;
    live.looking += 1;
    try {
      if (!live.started) {
        let run = await this.#ledger.get(runId);
        if (live.ended) run = await this.#ledger.get(runId);
        if (!run) throw new SvcError('UNKNOWN_RUN', 'No run of this id is kept.');
        if (run.endedAt !== null) ended = run;
      }
      if (!ended) this.#join(runId, exchange);
    } finally {
      live.looking -= 1;
      this.#release(runId, live);
    }
    if (ended) await this.#replay(ended, exchange);
  }

  /** Answers with what happens in all runs from now on. Throws `OVERLOADED`. */
  followAll(exchange: Exchange, filter: FollowFilter = {}): void {
    const follower = Follower.open(this.#readers, exchange, () => {
      if (follower) this.#watchers.delete(follower);
    });
    if (!follower) return;
    this.#watchers.set(follower, filter);
  }

  /** Ends every stream. */
  closeAll(): void {
    const live = [...this.#runs.values()].flatMap(({ followers }) => [...followers]);
    for (const follower of [...live, ...this.#watchers.keys()]) follower.close();
    this.#runs.clear();
    this.#watchers.clear();
  }

  #begin(runId: string): LiveRun {
    const live = new LiveRun();
    this.#runs.set(runId, live);
    return live;
  }

  /** The run is under way, or waits for its turn. */
  #join(runId: string, exchange: Exchange): void {
    const follower = Follower.open(this.#readers, exchange, () => {
      if (follower) live.followers.delete(follower);
      this.#release(runId, live);
    });
    const live = this.#runs.get(runId) ?? this.#begin(runId);
    if (!follower) {
      this.#release(runId, live);
      return;
    }
    live.followers.add(follower);
    if (live.started) follower.replay(wireOf({ type: 'run.start', run: live.started }), live.dropped, live.kept);
  }

  /** Forgets a run that has neither started nor followers. */
  #release(runId: string, live: LiveRun): void {
    if (live.started === null && live.looking === 0 && live.followers.size === 0 && this.#runs.get(runId) === live)
      this.#runs.delete(runId);
  }

  /** A run that has ended, from the ledger, as fast as it is read. */
  async #replay(run: RunRecord, exchange: Exchange): Promise<void> {
    let gone = false;
    let wake = (): void => {};
    const reader = this.#readers.open(exchange, {
      gone: () => {
        gone = true;
        wake();
      },
      caughtUp: () => wake(),
    });
    if (!reader) return;
    const send = async (event: RunEvent): Promise<void> => {
      const bytes = wireOf(event);
      while (!gone && !reader.deliver(bytes)) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    };
    reader.write(OPENING);
    try {
      await send({ type: 'run.start', run: asStarted(run) });
      for (let after = 0; !gone; ) {
        const nodes = await this.#ledger.nodes(run.runId, { after, limit: REPLAYED_NODES });
        for (const node of nodes) {
          await send(startOf(node));
          await send({ type: 'node.end', node });
        }
        after = nodes.at(-1)?.ordinal ?? after;
        if (nodes.length < REPLAYED_NODES) break;
      }
      await send({ type: 'run.end', run });
    } catch {
      // The answer has begun, so that no error can be sent: without `run.end` the client knows that this was not all.
    }
    reader.end();
  }
}

/** A reader. Events that it cannot take are counted and reported as `missed`; the end of its run is kept for it. */
class Follower {
  readonly #reader: EventReader;
  /** Earlier events still to be sent, then those that came meanwhile. */
  #waiting: Buffer[] = [];
  #addedBytes = 0;
  #missed = 0;
  #last: Buffer | null = null;

  /** Null when the reader is gone already. Throws `OVERLOADED`. */
  static open(readers: EventReaders, exchange: Exchange, gone: () => void): Follower | null {
    const reader = readers.open(exchange, { gone, caughtUp: () => follower?.advance() });
    const follower = reader && new Follower(reader);
    reader?.write(OPENING);
    return follower;
  }

  private constructor(reader: EventReader) {
    this.#reader = reader;
  }

  /** Sends these first; of what was between `first` and `kept`, `dropped` events are not there any more. */
  replay(first: Buffer, dropped: number, kept: Buffer[]): void {
    const missed = dropped === 0 ? [] : [wireOf({ type: 'missed', events: dropped })];
    this.#waiting = [first, ...missed, ...kept];
    this.advance();
  }

  tell(bytes: Buffer): void {
    if (this.#missed > 0) {
      this.#missed += 1;
    } else if (this.#waiting.length > 0) {
      this.#addedBytes += bytes.length;
      if (this.#addedBytes > LIMITS.subscriberBacklogBytes) this.#missed = 1;
      else this.#waiting.push(bytes);
    } else if (!this.#reader.deliver(bytes)) {
      this.#missed = 1;
    }
  }

  /** Sends the last event and ends the stream, as soon as it can take it. */
  end(bytes: Buffer): void {
    this.#last = bytes;
    this.advance();
  }

  close(): void {
    this.#reader.end();
  }

  /** Goes on where the reader had to be waited for. */
  advance(): void {
    for (let sent = 0; sent < this.#waiting.length; sent++) {
      if (this.#reader.deliver(this.#waiting[sent] as Buffer)) continue;
      this.#waiting = this.#waiting.slice(sent);
      return;
    }
    this.#waiting = [];
    this.#addedBytes = 0;
    if (this.#reader.behind) return;
    if (this.#missed > 0) {
      this.#reader.write(wireOf({ type: 'missed', events: this.#missed }));
      this.#missed = 0;
    }
    if (!this.#last || !this.#reader.deliver(this.#last)) return;
    this.#reader.end();
  }
}

function runIdOf(event: RunEvent): string {
  if (event.type === 'node.end') return event.node.runId;
  return 'run' in event ? event.run.runId : event.runId;
}

function asStarted(run: RunRecord): RunRecord {
  return { ...run, state: 'running', output: null, summary: null, error: null, endedAt: null, usage: noUsage() };
}

function startOf(node: RunNode): RunEvent {
  const { runId, ordinal, batchId, kind, name, args, startedAt } = node;
  return { type: 'node.start', runId, ordinal, batchId, kind, name, args, startedAt };
}

/** The event as it is sent. JSON has no line breaks, so it always stays one event. */
function wireOf(event: RunEvent | { type: 'missed'; events: number }): Buffer {
  return Buffer.from(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}
