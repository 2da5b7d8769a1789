/** What bad clients do to one gateway, step by step, and what the good ones notice of it. */
import { LIMITS } from '../../../protocol/limits.ts';
import { eventually, pause } from '../../../testing/waiting.ts';
import type { Daemon } from '../../daemon.ts';
import { memoryOf } from '../../process-usage.ts';
import type { CampaignReport } from '../campaign.ts';
import {
  ENDED_WITHIN_MS,
  FLOOD,
  FLOOD_TABLES,
  LARGE_BYTES,
  largeRequest,
  leaveEverywhere,
  pipeline,
  SLOW,
  startOfBody,
  streamRequest,
} from './attacks.ts';
import { answersOf, BadClient, dismiss, endsOf, openCrowd } from './crowd.ts';
import type { GoodClients } from './good-clients.ts';
import { heldConnections } from './held.ts';

const KiB = 1024;
const MiB = 1024 * KiB;
/** A busy machine may take this long before an answer starts, and to notice that it is not taken. */
const STALL_SLACK_MS = 10_000;
/** A busy machine may take this long until all streams of a crowd are open. */
const ANSWERED_WITHIN_MS = 30_000;
/** Between two looks at what the gateway still holds. */
const LOOK_MS = 500;

/** How many of each. */
export const SIZES = {
  full: { crowd: 1000, streams: 10_000, stalled: 200, large: 36, leavers: 200, floods: 400, settleMs: 5000 },
  smoke: { crowd: 100, streams: 500, stalled: 20, large: 8, leavers: 20, floods: 250, settleMs: 300 },
};
export type Sizes = (typeof SIZES)['full'];

export class Scene {
  readonly #daemon: Daemon;
  readonly #pid: number;
  readonly #good: GoodClients;
  readonly #sizes: Sizes;
  readonly #report: CampaignReport;

  constructor(daemon: Daemon, pid: number, good: GoodClients, sizes: Sizes, report: CampaignReport) {
    this.#daemon = daemon;
    this.#pid = pid;
    this.#good = good;
    this.#sizes = sizes;
    this.#report = report;
  }

  /** The good clients without the others, for comparison. */
  async alone(): Promise<void> {
    await pause(this.#sizes.settleMs);
    this.#good.takeLatencies();
    await pause(2 * this.#sizes.settleMs);
    this.latencies('alone');
  }

  /** All kinds of slow clients. The function that it resolves with waits until they are ended. */
  async slow(): Promise<() => Promise<void>> {
    const crowds: { name: string; crowd: BadClient[]; endedWithinMs: number }[] = [];
    for (const { name, open, endedWithinMs = ENDED_WITHIN_MS } of SLOW) {
      const before = this.#memory();
      const crowd = await open(this.#daemon, this.#sizes.crowd);
      await pause(this.#sizes.settleMs / 5);
      this.#cost(name, crowd.length, before);
      crowds.push({ name, crowd, endedWithinMs });
    }
    return async () => {
      await Promise.all(crowds.map(({ name, crowd, endedWithinMs }) => this.#awaitEnds(name, crowd, endedWithinMs)));
    };
  }

  async #awaitEnds(name: string, crowd: BadClient[], endedWithinMs: number): Promise<void> {
    const ends = await endsOf(crowd, endedWithinMs);
    const inTime = ends.filter((end) => end !== 'late');
    const missing = ends.length - inTime.length;
    if (missing > 0) this.#report.violations.push(`${missing} clients that are ${name} were not ended in time`);
    const latest = Math.max(...inTime);
    this.#figure(`${crowd.length} clients, ${name}`, `the last ended after ${(latest / 1000).toFixed(1)} s`);
    dismiss(crowd);
  }

  /** Readers of event streams and of large answers that never read, while events are sent. Resolves as `slow` does. */
  async stalled(): Promise<() => Promise<void>> {
    const { stalled, large, floods } = this.#sizes;
    const startedAt = performance.now();
    const beforeLarge = this.#memory();
    const answers: BadClient[] = [];
    while (answers.length < large) answers.push(await this.#startOfLargeAnswer());
    const refused = answers.filter(({ received }) => !received.startsWith('HTTP/1.1 200')).length;
    if (refused > 0) this.#report.violations.push(`${refused} of ${large} large answers were refused`);
    await pause(this.#sizes.settleMs);
    this.#cost(`an answer of ${LARGE_BYTES / MiB} MiB that is not read`, large, beforeLarge);
    const [reader] = await openCrowd(this.#daemon.port, 1, (client) =>
      client.write(streamRequest(this.#daemon, FLOOD)),
    );
    const before = this.#memory();
    const greetStream = (client: BadClient) => client.write(streamRequest(this.#daemon, FLOOD));
    const streams = await openCrowd(this.#daemon.port, stalled, greetStream, false);
    for (let i = 0; i < floods; i++) {
      await this.#daemon.request('POST', '/svc/_tool/svc_write', JSON.stringify({ app: FLOOD, action: 'go' }));
    }
    this.#cost(`an event stream that is not read, after ${floods * FLOOD_TABLES.length} events`, stalled, before);

    const least = floods * FLOOD_TABLES.length;
    if (reader === undefined || reader.closed || reader.bytes < least) {
      this.#report.violations.push(`the stream that reads got ${reader?.bytes} bytes of ${least} events`);
    }
    return async () => {
      await Promise.all([
        this.#awaitCutOff('event streams', streams, startedAt),
        this.#awaitCutOff('answers', answers, startedAt),
      ]);
      dismiss([...(reader ? [reader] : []), ...streams, ...answers]);
    };
  }

  /** A client that takes the start of a large answer, and nothing after that. */
  async #startOfLargeAnswer(): Promise<BadClient> {
    const client = new BadClient(this.#daemon.port, 0, true);
    await client.opened;
    client.write(largeRequest(this.#daemon));
    const started = new Promise((resolve) => client.socket.once('data', resolve));
    await Promise.race([started, client.ended]);
    client.socket.pause();
    return client;
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
      this.#report.violations.push(`${this.#heldOf(crowd)} ${name} that are not read were not ended`);
    const seconds = (ms: number) => (ms / 1000).toFixed(1);
    const last = seconds(performance.now() - since);
    if (firstAfter < LIMITS.stalledReaderMs)
      this.#report.violations.push(`${name} that are not read were ended after ${seconds(firstAfter)} s`);
    this.#figure(
      `${crowd.length} ${name} that are not read`,
      `the first was ended within ${seconds(firstAfter)} s, the last within ${last} s`,
    );
  }

  /** How many the gateway still holds. */
  #heldOf(crowd: BadClient[]): number {
    const ports = heldConnections(this.#daemon.port);
    return crowd.filter(({ localPort }) => ports.has(localPort)).length;
  }

  /** Idle event streams: what they cost, and what others notice. */
  async streams(): Promise<void> {
    const before = this.#memory();
    const already = (await this.#daemon.status()).counters.subscribers;
    const crowd = await openCrowd(this.#daemon.port, this.#sizes.streams, (client) =>
      client.write(streamRequest(this.#daemon, FLOOD)),
    );
    await answersOf(crowd, ANSWERED_WITHIN_MS);
    await pause(this.#sizes.settleMs);
    this.#cost('an idle event stream', crowd.length, before);
    this.#good.takeLatencies();
    await pause(2 * this.#sizes.settleMs);
    this.latencies(`beside ${crowd.length} idle streams`);
    // Others may end meanwhile, so the gateway's count alone would not tell.
    const open = crowd.filter(({ closed, received }) => !closed && received.startsWith('HTTP/1.1 200')).length;
    if (open !== crowd.length) this.#report.violations.push(`${crowd.length} streams were opened and ${open} are open`);
    dismiss(crowd);
    const areGone = async () => (await this.#daemon.status()).counters.subscribers <= already;
    if (!(await eventually(10_000, areGone))) this.#report.violations.push('streams whose clients are gone stay open');
  }

  /** Bodies that never end, more of them than the gateway may hold together. */
  async bodies(): Promise<void> {
    const bytes = LIMITS.requestBodyBytes - 1;
    // The smoke run stays below the budget, which edge.test.ts exceeds.
    const count = this.#sizes === SIZES.full ? Math.ceil((1.5 * LIMITS.bodiesBytes) / bytes) : 16;
    const before = this.#memory();
    const body = startOfBody(this.#daemon, bytes);
    const crowd = await openCrowd(this.#daemon.port, count, (client) => client.write(body));
    await pause(this.#sizes.settleMs);
    this.#cost(`${count} bodies of 1 MiB less a byte`, count, before);
    const refused = crowd.filter(({ received }) => received.startsWith('HTTP/1.1 503')).length;
    const mayHold = Math.floor(LIMITS.bodiesBytes / bytes);
    this.#figure(`of ${count} such bodies, refused with OVERLOADED`, String(refused));
    if (refused < count - mayHold) {
      this.#report.violations.push(`${count - refused} bodies of 1 MiB are held; ${mayHold} fit the budget`);
    }
    dismiss(crowd);
  }

  /** Large answers that nobody reads, more of them than the gateway may hold together. */
  async answers(): Promise<void> {
    // The smoke run stays below the budget, which edge.test.ts exceeds.
    if (this.#sizes !== SIZES.full) return;
    const count = Math.ceil((1.5 * LIMITS.answersBytes) / LARGE_BYTES);
    const before = this.#memory();
    const crowd: BadClient[] = [];
    while (crowd.length < count) crowd.push(await this.#startOfLargeAnswer());
    this.#cost(`${count} answers of ${LARGE_BYTES / MiB} MiB that are not read`, count, before);
    const held = this.#heldOf(crowd);
    const mayHold = Math.floor(LIMITS.answersBytes / LARGE_BYTES);
    this.#figure(`of ${count} such answers, held at once`, String(held));
    if (held > mayHold)
      this.#report.violations.push(
        `${held} unread answers of ${LARGE_BYTES / MiB} MiB are held; ${mayHold} fit the budget`,
      );
    dismiss(crowd);
  }

  async leavers(): Promise<void> {
    await leaveEverywhere(this.#daemon, this.#sizes.leavers);
    this.#figure('clients that left in the middle, at each of 10 points', String(this.#sizes.leavers));
    this.latencies('beside clients that leave');
  }

  async pipelining(edge: 'uws' | 'node'): Promise<void> {
    const count = 40;
    const answers = await pipeline(this.#daemon, count);
    if (edge === 'uws') {
      if (answers.length > 0)
        this.#report.violations.push(`${answers.length} of ${count} pipelined calls were answered`);
      this.#figure(`${count} pipelined calls`, 'the connection is ended');
      return;
    }
    const isInOrder = answers.every((text, i) =>
      i % 2 === 0 ? text.includes(`answer ${i}.`) : text.startsWith('HTTP/1.1 404'),
    );
    if (answers.length !== count || !isInOrder)
      this.#report.violations.push(`pipelined calls were not answered in order: ${answers.join(' | ').slice(0, 2000)}`);
    this.#figure(`${count} pipelined calls`, 'answered in order');
  }

  #memory(): number {
    return memoryOf(this.#pid).pss;
  }

  #cost(name: string, count: number, before: number): void {
    const grown = this.#memory() - before;
    const each = grown / count / KiB;
    this.#figure(
      `memory of the supervisor: ${name}`,
      `${each.toFixed(1)} KiB each, ${(grown / MiB).toFixed(1)} MiB for ${count}`,
    );
  }

  latencies(name: string): void {
    const { calls, p50, p99 } = this.#good.takeLatencies();
    this.#figure(`good clients ${name}`, `${calls} calls, p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`);
  }

  #figure(name: string, value: string): void {
    this.#report.figures.push({ name, value });
  }
}
