/** Sends the events of runs to followers: of one run from its beginning, or of all runs live (specification, "Runs"). */

import { noUsage, type RunEvent, type RunNode, type RunRecord } from '../../protocol/automations/runs.ts';
import { SvcError } from '../../protocol/errors.ts';
import { eventText } from '../../protocol/http/event-stream.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { Topic } from '../../protocol/topic.ts';
import type { Exchange } from '../edge/edge.ts';
import { type EventReader, type EventReaders, opening } from '../http/event-streams.ts';
import type { RunLedger } from './ledger.ts';

/** Only runs of this automation, of this app; both when both are given. */
type FollowFilter = { ref?: string; app?: string };

/** A run under way. */
class LiveRun {
  /** As it started; null while it waits for its turn and has followers already. */
  started: RunRecord | null = null;
  /** Events since then. */
  readonly topic = new Topic<Buffer>({
    keep: LIMITS.runEvents,
    keepBytes: LIMITS.runEventsBytes,
    bytesOf: ({ length }) => length,
    form: (bytes) => bytes,
  });
  /** Requests that look into the ledger, to know whether they follow. */
  looking = 0;
  /** Its end was told. */
  ended = false;
}

/** An event of any run, as it is sent once somebody wants it: most runs have no followers, and their records can be large. */
type AnyRun = { run: RunRecord; wire(): Buffer };

/** Nodes that are read from the ledger at a time, to be sent. */
const REPLAYED_NODES = 20;
const OPENING = opening('events of runs');

export class RunEvents {
  readonly #ledger: Pick<RunLedger, 'get' | 'nodes'>;
  readonly #readers: EventReaders;
  readonly #runs = new Map<string, LiveRun>();
  readonly #all = new Topic<AnyRun, Buffer>({ form: ({ wire }) => wire() });
  /** Those who follow the runs of one app. */
  readonly #ofApps = new Map<EventReader, string>();

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
    const wire = (): Buffer => {
      bytes ??= wireOf(event);
      return bytes;
    };
    if (event.type === 'run.end') {
      this.#runs.delete(runId);
      if (known) known.ended = true;
      if (known && known.topic.followers > 0) known.topic.append(wire());
      known?.topic.end();
    } else if (event.type === 'run.start') {
      const live = known ?? this.#begin(runId);
      live.started = event.run;
      if (live.topic.followers > 0) live.topic.announce(wire());
    } else {
      known?.topic.append(wire());
    }
    const run = 'run' in event ? event.run : known?.started;
    if (run) this.#all.append({ run, wire });
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
  followAll(exchange: Exchange, { ref, app }: FollowFilter = {}): void {
    const reader = this.#readers.open(exchange);
    if (!reader) return;
    reader.write(OPENING);
    const wants = ({ run }: AnyRun) => (ref === undefined || ref === run.ref) && (app === undefined || app === run.app);
    reader.follow(this.#all, { wants, gap: missedBy(reader) });
    const of = app ?? ref?.split('/')[0];
    if (of === undefined) return;
    this.#ofApps.set(reader, of);
    reader.onEnd(() => this.#ofApps.delete(reader));
  }

  /** Ends the streams of an app, whose runs have ended: another node goes on with it. */
  release(app: string): void {
    for (const [reader, of] of this.#ofApps) if (of === app) reader.end();
  }

  /** Ends every stream. */
  closeAll(): void {
    for (const { topic } of this.#runs.values()) topic.close();
    this.#all.close();
    this.#runs.clear();
  }

  #begin(runId: string): LiveRun {
    const live = new LiveRun();
    this.#runs.set(runId, live);
    return live;
  }

  /** The run is under way, or waits for its turn. */
  #join(runId: string, exchange: Exchange): void {
    const reader = this.#readers.open(exchange);
    if (!reader) return;
    const live = this.#runs.get(runId) ?? this.#begin(runId);
    reader.write(OPENING);
    if (live.started) reader.write(wireOf({ type: 'run.start', run: live.started }));
    reader.follow(live.topic, { gap: missedBy(reader) }, 0);
    reader.onEnd(() => this.#release(runId, live));
  }

  /** Forgets a run that has neither started nor followers. */
  #release(runId: string, live: LiveRun): void {
    if (live.started === null && live.looking === 0 && live.topic.followers === 0 && this.#runs.get(runId) === live)
      this.#runs.delete(runId);
  }

  /** A run that has ended, from the ledger, as fast as it is read. */
  async #replay(run: RunRecord, exchange: Exchange): Promise<void> {
    const reader = this.#readers.open(exchange);
    if (!reader) return;
    const send = (event: RunEvent): Promise<boolean> => reader.send(wireOf(event));
    reader.write(OPENING);
    try {
      await send({ type: 'run.start', run: asStarted(run) });
      for (let after = 0; reader.isOpen; ) {
        const nodes = await this.#ledger.nodes(run, { after, limit: REPLAYED_NODES });
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

/** Tells a reader how many events it does not get. */
function missedBy(reader: EventReader): (events: number) => boolean {
  return (events) => reader.deliver(wireOf({ type: 'missed', events }));
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
  return Buffer.from(eventText(event.type, JSON.stringify(event)));
}
