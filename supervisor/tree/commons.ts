/**
 * The commons of one handler host: starts its thread, passes frames between residents and their
 * generations over its one connection, and hands the residents back when the thread ends (specification, "Commons").
 */
import { LIMITS } from '../../protocol/limits.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import type { CommonsEnd, OwnReason } from '../../protocol/wire/commons.ts';
import { type ActorSpec, type Frame, type FrameOf, Kind } from '../../protocol/wire/frames.ts';
import type { Link, LinkHandlers } from '../../protocol/wire/link.ts';
import type { Ticket } from '../../protocol/wire/ticket.ts';
import type { Child } from './child.ts';

/** A generation, as far as the commons are concerned. */
type Resident = {
  readonly spec: ActorSpec;
  readonly summary: VersionSummary;
  readonly key: string;
  readonly inFlight: { readonly size: number; values(): Iterable<{ request: { tool: string } }> };
  attach(link: Pick<Link, 'send' | 'close'>): unknown;
  live(): void;
  onFrame(frame: Frame): void;
  exited(reason: FrameOf<'exited'>[2], detail: string): void;
  handBack(reason: OwnReason | null, detail: string): void;
};

type CommonsEvents = {
  onEnded(what: string): void;
  /** The thread cannot be ended, because of the app with this key. */
  onStuck(key: string): void;
};

type CommonsTicket = Extract<Ticket, { role: 'commons' }>;

export class Commons {
  readonly #host: Child;
  readonly #sign: (ticket: CommonsTicket) => string;
  readonly #events: CommonsEvents;
  /** By the numbers of their actors. */
  readonly #residents = new Map<number, Resident>();
  /** Number of the thread; its ticket has it, so that an earlier one is not taken for it. */
  #thread = 0;
  #isExpected = false;
  #isStarted = false;
  #link: Link | null = null;
  #isReady = false;
  #lost: NodeJS.Timeout | undefined;
  /** Queries of versions that were answered here. */
  readonly #answered = new WeakMap<VersionSummary, Set<string>>();
  /** Versions with another query that an earlier thread did not answer. */
  readonly #doubtful = new WeakSet<VersionSummary>();
  /** Number and key of the last resident that left: its code runs on until its turn ends. */
  #lastLeft: [actorId: number, key: string] = [0, ''];
  /** Number and key of the last one that stalled it. */
  #stalledBy: [actorId: number, key: string] = [0, ''];

  constructor(host: Child, sign: (ticket: CommonsTicket) => string, events: CommonsEvents) {
    this.#host = host;
    this.#sign = sign;
    this.#events = events;
  }

  /** Residents are expected: its host keeps a thread for them as soon as it runs. */
  prepare(): void {
    this.#isExpected = true;
    if (this.#host.state === 'running') this.#startThread();
  }

  hostReady(): void {
    if (this.#isExpected) this.#startThread();
  }

  /** Starts the resident as soon as there is a thread. */
  settle(resident: Resident): void {
    this.#residents.set(resident.spec.actorId, resident);
    if (this.#isReady) this.#start(resident);
    else this.#startThread();
  }

  send(resident: Resident, frame: Frame): void {
    this.#link?.send([Kind.resident, resident.spec.actorId, frame]);
  }

  /** A query of this version was. */
  answered(summary: VersionSummary, query: string): void {
    this.#doubtful.delete(summary);
    const known = this.#answered.get(summary);
    if (known === undefined) this.#answered.set(summary, new Set([query]));
    else known.add(query);
  }

  forget(resident: Resident): void {
    this.#residents.delete(resident.spec.actorId);
  }

  /** The connection of its thread; null for that of an earlier one. */
  attach(link: Link, { n }: CommonsTicket): LinkHandlers | null {
    if (n !== this.#thread || !this.#isStarted || this.#link !== null) return null;
    this.#link = link;
    return {
      onFrame: (frame) => this.#receive(frame),
      onClose: () => {
        if (this.#link !== link) return;
        this.#link = null;
        this.#isReady = false;
        // Its host knows whose turn it was.
        this.#lost = setTimeout(
          () => this.ended([Kind.commonsEnded, 0, 'crash', 'its connection was lost']),
          LIMITS.cancelGraceMs,
        );
      },
    };
  }

  /** The thread has ended or was given up. Its residents run again: in the next one, or in threads of their own where they are to blame. */
  ended([, actorId, end, detail]: FrameOf<'commonsEnded'>): void {
    if (end === 'stuck') {
      if (actorId === this.#stalledBy[0]) this.#events.onStuck(this.#stalledBy[1]);
      return;
    }
    const residents = this.#clear();
    const culprit = residents.find(({ spec }) => spec.actorId === actorId);
    const key = culprit?.key ?? (actorId === this.#lastLeft[0] ? this.#lastLeft[1] : '');
    if (key !== '') this.#stalledBy = [actorId, key];
    const whose = key === '' ? '' : `, ${key}`;
    this.#events.onEnded(`the commons of ${this.#host.name} ended (${end}${whose}): ${detail}`);
    // Queries that were answered before come first: each of the others may stall the next thread.
    const doubtful = new Set(residents.filter((one) => this.#isDoubtful(one)));
    for (const { summary } of doubtful) this.#doubtful.add(summary);
    for (const resident of [...residents.filter((one) => !doubtful.has(one)), ...doubtful]) {
      const isToBlame = actorId === 0 ? resident.inFlight.size > 0 : resident === culprit;
      resident.handBack(isToBlame ? reasonOf(end) : null, detail);
    }
  }

  /** A resident does not react, and its thread with it. */
  stuck(resident: Resident): void {
    this.ended([Kind.commonsEnded, resident.spec.actorId, 'stalled', 'it did not answer']);
  }

  /** The host process ended, and tells its generations itself. */
  hostGone(): void {
    this.#clear();
  }

  /** It has a query that was never answered here, or waits for its start with one that an earlier thread left. */
  #isDoubtful({ summary, inFlight }: Resident): boolean {
    const answered = this.#answered.get(summary);
    for (const { request } of inFlight.values()) if (answered?.has(request.tool) !== true) return true;
    return this.#doubtful.has(summary);
  }

  #clear(): Resident[] {
    const residents = [...this.#residents.values()];
    const link = this.#link;
    clearTimeout(this.#lost);
    this.#residents.clear();
    this.#link = null;
    this.#isReady = false;
    this.#isStarted = false;
    link?.close();
    return residents;
  }

  #startThread(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    this.#host.send([Kind.commons, this.#sign({ role: 'commons', host: this.#host.name, n: ++this.#thread })]);
  }

  #start(resident: Resident): void {
    const { actorId } = resident.spec;
    this.#link?.send([Kind.resident, actorId, [Kind.start, resident.spec]]);
    resident.attach({ send: (frame) => this.send(resident, frame), close: () => {} });
    // Its calls come after its start, and go elsewhere if it fails; whoever settles it knows it only after that.
    queueMicrotask(() => resident.live());
  }

  #receive(frame: Frame): void {
    switch (frame[0]) {
      case Kind.ready:
        this.#isReady = true;
        for (const resident of this.#residents.values()) this.#start(resident);
        return;
      case Kind.resident:
        this.#receiveOf(frame[1], frame[2] as Frame);
        return;
      case Kind.leaves: {
        const resident = this.#take(frame[1]);
        if (resident !== undefined) this.#lastLeft = [frame[1], resident.key];
        resident?.handBack(frame[2], frame[3]);
        return;
      }
      case Kind.exited:
        this.#take(frame[1])?.exited(frame[2], frame[3]);
        return;
      default:
        throw new Error(`The commons may not send frames of kind ${frame[0]}.`);
    }
  }

  /** A frame that no sound resident sends ends that one, and not the connection of all. */
  #receiveOf(actorId: number, frame: Frame): void {
    const resident = this.#residents.get(actorId);
    try {
      resident?.onFrame(frame);
    } catch (error) {
      this.#link?.send([Kind.resident, actorId, [Kind.stop, actorId, true]]);
      this.#take(actorId)?.handBack('failed', (error as Error).message);
    }
  }

  #take(actorId: number): Resident | undefined {
    const resident = this.#residents.get(actorId);
    this.#residents.delete(actorId);
    return resident;
  }
}

function reasonOf(end: CommonsEnd): OwnReason {
  return end === 'memory' ? 'memory' : 'failed';
}
