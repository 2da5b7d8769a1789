/** What bad clients do to one gateway, step by step, and what the good ones notice of it. */
import { LIMITS } from '../../../protocol/limits.ts';
import type { EdgeKind, TestGateway } from '../../../testing/gateway.ts';
import { memoryOf } from '../../../testing/processes.ts';
import { eventually, pause } from '../../../testing/waiting.ts';
import type { Report } from '../campaign.ts';
import { describe, type Neighbours } from '../neighbours.ts';
import {
  ENDED_WITHIN_MS,
  FLOOD,
  FLOOD_TABLES,
  LARGE_BYTES,
  largeRequest,
  leaveEverywhere,
  openSlow,
  pipeline,
  SLOW,
  startOfBody,
  streamRequest,
} from './attacks.ts';
import { answersOf, BadClient, dismiss, endsOf, openCrowd } from './crowd.ts';
import { heldConnections } from './held.ts';

const KiB = 1024;
const MiB = 1024 * KiB;
/** A busy machine may take this long before an answer starts, and to notice that it is not taken. */
const STALL_SLACK_MS = 10_000;
/** A busy machine may take this long until all streams of a crowd are open. */
const ANSWERED_WITHIN_MS = 30_000;
/** Between two looks at what the gateway still holds. */
const LOOK_MS = 500;
const PIPELINED = 40;
const LARGE_ANSWERS = `answers of ${LARGE_BYTES / MiB} MiB that are not read`;

/** How many of each. */
export const SIZES = {
  full: { crowd: 1000, streams: 10_000, stalled: 200, large: 36, leavers: 200, floods: 400, settleMs: 5000 },
  smoke: { crowd: 100, streams: 500, stalled: 20, large: 8, leavers: 20, floods: 250, settleMs: 300 },
};
export type Sizes = (typeof SIZES)['full'];

export class Scene {
  readonly #gateway: TestGateway;
  readonly #edge: EdgeKind;
  readonly #good: Neighbours;
  readonly #sizes: Sizes;
  readonly #report: Report;

  constructor(gateway: TestGateway, edge: EdgeKind, good: Neighbours, sizes: Sizes, report: Report) {
    this.#gateway = gateway;
    this.#edge = edge;
    this.#good = good;
    this.#sizes = sizes;
    this.#report = report;
  }

  /** The good clients without the others, for comparison. */
  alone(): Promise<void> {
    return this.#latenciesFrom('alone');
  }

  /** All kinds of slow clients. The function that it resolves with waits until they are ended. */
  async slow(): Promise<() => Promise<unknown>> {
    const waits: (() => Promise<void>)[] = [];
    for (const attack of SLOW) {
      const { name, endedWithinMs = ENDED_WITHIN_MS } = attack;
      const open = () => openSlow(this.#gateway, attack, this.#sizes.crowd);
      const crowd = await this.#open(name, this.#sizes.settleMs / 5, open);
      waits.push(() => this.#awaitEnds(name, crowd, endedWithinMs));
    }
    return () => Promise.all(waits.map((wait) => wait()));
  }

  async #awaitEnds(name: string, crowd: BadClient[], endedWithinMs: number): Promise<void> {
    const ends = await endsOf(crowd, endedWithinMs);
    const inTime = ends.filter((end) => end !== 'late');
    const missing = ends.length - inTime.length;
    if (missing > 0) this.#violated(`${missing} clients that are ${name} were not ended in time`);
    const latest = Math.max(...inTime);
    this.#figure(`${crowd.length} clients, ${name}`, `the last ended after ${(latest / 1000).toFixed(1)} s`);
    dismiss(crowd);
  }

  /** Readers of event streams and of large answers that never read, while events are sent. Resolves as `slow` does. */
  async stalled(): Promise<() => Promise<unknown>> {
    const { stalled, large, floods, settleMs } = this.#sizes;
    const startedAt = performance.now();
    const answers = await this.#open(LARGE_ANSWERS, settleMs, () => this.#startLargeAnswers(large));
    const refused = answers.filter(({ received }) => !received.startsWith('HTTP/1.1 200')).length;
    if (refused > 0) this.#violated(`${refused} of ${large} large answers were refused`);
    const [reader] = (await this.#openStreams(1)) as [BadClient];
    const least = floods * FLOOD_TABLES.length;
    const streams = await this.#open(`an event stream that is not read, after ${least} events`, 0, async () => {
      const crowd = await this.#openStreams(stalled, false);
      for (let i = 0; i < floods; i++) {
        const { status, text } = await this.#gateway.write(FLOOD, 'go');
        if (status >= 300) throw new Error(`${FLOOD} answers ${status} ${text}`);
      }
      return crowd;
    });
    if (reader.closed || reader.bytes < least)
      this.#violated(`the stream that reads got ${reader.bytes} bytes of ${least} events`);
    return async () => {
      await Promise.all([
        this.#awaitCutOff('event streams', streams, startedAt),
        this.#awaitCutOff('answers', answers, startedAt),
      ]);
      dismiss([reader, ...streams, ...answers]);
    };
  }

  #openStreams(count: number, reads = true): Promise<BadClient[]> {
    const greet = (client: BadClient) => client.write(streamRequest(this.#gateway, FLOOD));
    return openCrowd(this.#gateway.port, count, greet, reads);
  }

  /** Clients that take the start of a large answer, and nothing after that. */
  async #startLargeAnswers(count: number): Promise<BadClient[]> {
    const crowd: BadClient[] = [];
    while (crowd.length < count) {
      const client = new BadClient(this.#gateway.port, 0, true);
      await client.opened;
      client.write(largeRequest(this.#gateway));
      const started = new Promise((resolve) => client.socket.once('data', resolve));
      await Promise.race([started, client.ended]);
      client.socket.pause();
      crowd.push(client);
    }
    return crowd;
  }

  /** Until the gateway has ended clients that do not read and so do not hear of it. `since` is when they were opened. */
  async #awaitCutOff(name: string, crowd: BadClient[], since: number): Promise<void> {
    let firstAfter = Number.POSITIVE_INFINITY;
    const areCutOff = () => {
      const held = this.#heldOf(crowd);
      if (held < crowd.length) firstAfter = Math.min(firstAfter, performance.now() - since);
      return held === 0;
    };
    if (!(await eventually(LIMITS.stalledReaderMs + STALL_SLACK_MS, areCutOff, LOOK_MS)))
      this.#violated(`${this.#heldOf(crowd)} ${name} that are not read were not ended`);
    const seconds = (ms: number) => (ms / 1000).toFixed(1);
    const last = seconds(performance.now() - since);
    if (firstAfter < LIMITS.stalledReaderMs)
      this.#violated(`${name} that are not read were ended after ${seconds(firstAfter)} s`);
    this.#figure(
      `${crowd.length} ${name} that are not read`,
      `the first was ended within ${seconds(firstAfter)} s, the last within ${last} s`,
    );
  }

  /** How many the gateway still holds. */
  #heldOf(crowd: BadClient[]): number {
    const ports = heldConnections(this.#gateway.port);
    return crowd.filter(({ localPort }) => ports.has(localPort)).length;
  }

  /** Idle event streams: what they cost, and what others notice. */
  async streams(): Promise<void> {
    const already = await this.#subscribers();
    const crowd = await this.#open('an idle event stream', this.#sizes.settleMs, async () => {
      const opened = await this.#openStreams(this.#sizes.streams);
      await answersOf(opened, ANSWERED_WITHIN_MS);
      return opened;
    });
    await this.#latenciesFrom(`beside ${crowd.length} idle streams`);
    // Others may end meanwhile, so the gateway's count alone would not tell.
    const open = crowd.filter(({ closed, received }) => !closed && received.startsWith('HTTP/1.1 200')).length;
    if (open !== crowd.length) this.#violated(`${crowd.length} streams were opened and ${open} are open`);
    dismiss(crowd);
    const areGone = async () => (await this.#subscribers()) <= already;
    if (!(await eventually(10_000, areGone))) this.#violated('streams whose clients are gone stay open');
  }

  async #subscribers(): Promise<number> {
    return (await this.#gateway.system()).counters.subscribers;
  }

  /** Bodies that never end, more of them than the gateway may hold together. */
  async bodies(): Promise<void> {
    const bytes = LIMITS.requestBodyBytes - 1;
    // The smoke run stays below the budget, which edge.test.ts exceeds.
    const count = this.#sizes === SIZES.full ? Math.ceil((1.5 * LIMITS.bodiesBytes) / bytes) : 16;
    const body = startOfBody(this.#gateway, bytes);
    const crowd = await this.#open('bodies of 1 MiB less a byte', this.#sizes.settleMs, () =>
      openCrowd(this.#gateway.port, count, (client) => client.write(body)),
    );
    const refused = crowd.filter(({ received }) => received.startsWith('HTTP/1.1 503')).length;
    const mayHold = Math.floor(LIMITS.bodiesBytes / bytes);
    this.#figure(`of ${count} such bodies, refused with OVERLOADED`, String(refused));
    if (refused < count - mayHold)
      this.#violated(`${count - refused} bodies of 1 MiB are held; ${mayHold} fit the budget`);
    dismiss(crowd);
  }

  /** Large answers that nobody reads, more of them than the gateway may hold together. */
  async answers(): Promise<void> {
    // The smoke run stays below the budget, which edge.test.ts exceeds.
    if (this.#sizes !== SIZES.full) return;
    const count = Math.ceil((1.5 * LIMITS.answersBytes) / LARGE_BYTES);
    const crowd = await this.#open(`${count} ${LARGE_ANSWERS}`, 0, () => this.#startLargeAnswers(count));
    const held = this.#heldOf(crowd);
    const mayHold = Math.floor(LIMITS.answersBytes / LARGE_BYTES);
    this.#figure(`of ${count} such answers, held at once`, String(held));
    if (held > mayHold) this.#violated(`${held} ${LARGE_ANSWERS} are held; ${mayHold} fit the budget`);
    dismiss(crowd);
  }

  async leavers(): Promise<void> {
    await leaveEverywhere(this.#gateway, this.#sizes.leavers);
    this.#figure('clients that left in the middle, at each of 10 points', String(this.#sizes.leavers));
    this.latencies('beside clients that leave');
  }

  /** The native edge ends the connection, the other one answers in order. */
  async pipelining(): Promise<void> {
    const answers = await pipeline(this.#gateway, PIPELINED);
    const isUws = this.#edge === 'uws';
    this.#figure(`${PIPELINED} pipelined calls`, isUws ? 'the connection is ended' : 'answered in order');
    if (isUws) {
      if (answers.length > 0) this.#violated(`${answers.length} of ${PIPELINED} pipelined calls were answered`);
      return;
    }
    const isInOrder = answers.every((text, i) =>
      i % 2 === 0 ? text.includes(`answer ${i}.`) : text.startsWith('HTTP/1.1 404'),
    );
    if (answers.length !== PIPELINED || !isInOrder)
      this.#violated(`pipelined calls were not answered in order: ${answers.join(' | ').slice(0, 2000)}`);
  }

  /** Opens some of a kind, gives them time, and says what they cost. */
  async #open(name: string, settleMs: number, open: () => Promise<BadClient[]>): Promise<BadClient[]> {
    const memory = () => memoryOf(this.#gateway.pid).pss;
    const before = memory();
    const crowd = await open();
    await pause(settleMs);
    const grown = memory() - before;
    const each = (grown / crowd.length / KiB).toFixed(1);
    const all = `${(grown / MiB).toFixed(1)} MiB for ${crowd.length}`;
    this.#figure(`memory of the supervisor: ${name}`, `${each} KiB each, ${all}`);
    return crowd;
  }

  /** Of some time from now on. */
  async #latenciesFrom(name: string): Promise<void> {
    await pause(this.#sizes.settleMs);
    this.#good.take();
    await pause(2 * this.#sizes.settleMs);
    this.latencies(name);
  }

  /** What the good clients noticed of late. */
  latencies(name: string): void {
    const noticed = this.#good.take();
    this.#figure(`good clients ${name}`, describe(noticed));
  }

  #violated(what: string): void {
    this.#report.violated(this.#edge, what);
  }

  #figure(name: string, value: string): void {
    this.#report.figure(`${this.#edge}: ${name}`, value);
  }
}
