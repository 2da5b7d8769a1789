/** What bad clients do to one gateway, step by step, and what the good ones notice of it. */
import { LIMITS } from '../../../protocol/limits.ts';
import type { EdgeKind, TestGateway } from '../../../testing/gateway.ts';
import { memoryOf } from '../../../testing/processes.ts';
import { eventually, pause, within } from '../../../testing/waiting.ts';
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
import { BadClient, dismiss, heldConnections, openCrowd } from './crowd.ts';

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

export function sceneOn(
  gateway: TestGateway,
  edge: EdgeKind,
  good: Neighbours,
  sizes: (typeof SIZES)['full'],
  report: Report,
) {
  /** All kinds of slow clients. The function that it resolves with waits until they are ended. */
  async function slow(): Promise<() => Promise<unknown>> {
    const waits: (() => Promise<void>)[] = [];
    for (const attack of SLOW) {
      const { name, endedWithinMs = ENDED_WITHIN_MS } = attack;
      const crowd = await opened(name, sizes.settleMs / 5, () => openSlow(gateway, attack, sizes.crowd));
      waits.push(() => awaitEnds(name, crowd, endedWithinMs));
    }
    return () => Promise.all(waits.map((wait) => wait()));
  }

  async function awaitEnds(name: string, crowd: BadClient[], endedWithinMs: number): Promise<void> {
    const ends = await Promise.all(crowd.map(({ ended }) => within(endedWithinMs, ended)));
    const inTime = ends.filter((end) => end !== 'late');
    const missing = ends.length - inTime.length;
    if (missing > 0) violated(`${missing} clients that are ${name} were not ended in time`);
    const latest = Math.max(...inTime);
    figure(`${crowd.length} clients, ${name}`, `the last ended after ${(latest / 1000).toFixed(1)} s`);
    dismiss(crowd);
  }

  /** Readers of event streams and of large answers that never read, while events are sent. Resolves as `slow` does. */
  async function stalled(): Promise<() => Promise<unknown>> {
    const { large, floods } = sizes;
    const startedAt = performance.now();
    const takers = await opened(LARGE_ANSWERS, sizes.settleMs, () => startLargeAnswers(large));
    const refused = takers.filter(({ received }) => !received.startsWith('HTTP/1.1 200')).length;
    if (refused > 0) violated(`${refused} of ${large} large answers were refused`);
    const [reader] = (await openStreams(1)) as [BadClient];
    const least = floods * FLOOD_TABLES.length;
    const listeners = await opened(`an event stream that is not read, after ${least} events`, 0, async () => {
      const crowd = await openStreams(sizes.stalled, false);
      for (let i = 0; i < floods; i++) {
        const { status, text } = await gateway.write(FLOOD, 'go');
        if (status >= 300) throw new Error(`${FLOOD} answers ${status} ${text}`);
      }
      return crowd;
    });
    const { closed, bytesRead } = reader.socket;
    if (closed || bytesRead < least) violated(`the stream that reads got ${bytesRead} bytes of ${least} events`);
    return async () => {
      await Promise.all([
        awaitCutOff('event streams', listeners, startedAt),
        awaitCutOff('answers', takers, startedAt),
      ]);
      dismiss([reader, ...listeners, ...takers]);
    };
  }

  function openStreams(count: number, reads = true): Promise<BadClient[]> {
    const greet = (client: BadClient) => client.write(streamRequest(gateway, FLOOD));
    return openCrowd(gateway.port, count, greet, reads);
  }

  /** Clients that take the start of a large answer, and nothing after that. */
  async function startLargeAnswers(count: number): Promise<BadClient[]> {
    const crowd: BadClient[] = [];
    while (crowd.length < count) {
      const client = new BadClient(gateway.port, 0, true);
      await client.opened;
      client.write(largeRequest(gateway));
      const started = new Promise((resolve) => client.socket.once('data', resolve));
      await Promise.race([started, client.ended]);
      client.socket.pause();
      crowd.push(client);
    }
    return crowd;
  }

  /** Until the gateway has ended clients that do not read and so do not hear of it. `since` is when they were opened. */
  async function awaitCutOff(name: string, crowd: BadClient[], since: number): Promise<void> {
    let firstAfter = Number.POSITIVE_INFINITY;
    const areCutOff = () => {
      const held = heldOf(crowd);
      if (held < crowd.length) firstAfter = Math.min(firstAfter, performance.now() - since);
      return held === 0;
    };
    if (!(await eventually(LIMITS.stalledReaderMs + STALL_SLACK_MS, areCutOff, LOOK_MS)))
      violated(`${heldOf(crowd)} ${name} that are not read were not ended`);
    const seconds = (ms: number) => (ms / 1000).toFixed(1);
    const last = seconds(performance.now() - since);
    if (firstAfter < LIMITS.stalledReaderMs)
      violated(`${name} that are not read were ended after ${seconds(firstAfter)} s`);
    figure(
      `${crowd.length} ${name} that are not read`,
      `the first was ended within ${seconds(firstAfter)} s, the last within ${last} s`,
    );
  }

  /** How many the gateway still holds. */
  function heldOf(crowd: BadClient[]): number {
    const ports = heldConnections(gateway.port);
    return crowd.filter(({ localPort }) => ports.has(localPort)).length;
  }

  /** Idle event streams: what they cost, and what others notice. */
  async function streams(): Promise<void> {
    const already = await subscribers();
    const crowd = await opened('an idle event stream', sizes.settleMs, async () => {
      const listeners = await openStreams(sizes.streams);
      const isAnswered = ({ socket }: BadClient) => socket.closed || socket.bytesRead > 0;
      await eventually(ANSWERED_WITHIN_MS, () => listeners.every(isAnswered), 20);
      return listeners;
    });
    await latenciesFrom(`beside ${crowd.length} idle streams`);
    // Others may end meanwhile, so the gateway's count alone would not tell.
    const open = crowd.filter(({ socket, received }) => !socket.closed && received.startsWith('HTTP/1.1 200')).length;
    if (open !== crowd.length) violated(`${crowd.length} streams were opened and ${open} are open`);
    dismiss(crowd);
    const areGone = async () => (await subscribers()) <= already;
    if (!(await eventually(10_000, areGone))) violated('streams whose clients are gone stay open');
  }

  async function subscribers(): Promise<number> {
    return (await gateway.system()).counters.subscribers;
  }

  /** Bodies that never end, more of them than the gateway may hold together. */
  async function bodies(): Promise<void> {
    const bytes = LIMITS.requestBodyBytes - 1;
    // The smoke run stays below the budget, which edge.test.ts exceeds.
    const count = sizes === SIZES.full ? Math.ceil((1.5 * LIMITS.bodiesBytes) / bytes) : 16;
    const body = startOfBody(gateway, bytes);
    const crowd = await opened('bodies of 1 MiB less a byte', sizes.settleMs, () =>
      openCrowd(gateway.port, count, (client) => client.write(body)),
    );
    const refused = crowd.filter(({ received }) => received.startsWith('HTTP/1.1 503')).length;
    const mayHold = Math.floor(LIMITS.bodiesBytes / bytes);
    figure(`of ${count} such bodies, refused with OVERLOADED`, String(refused));
    if (refused < count - mayHold) violated(`${count - refused} bodies of 1 MiB are held; ${mayHold} fit the budget`);
    dismiss(crowd);
  }

  /** Large answers that nobody reads, more of them than the gateway may hold together. */
  async function answers(): Promise<void> {
    // The smoke run stays below the budget, which edge.test.ts exceeds.
    if (sizes !== SIZES.full) return;
    const count = Math.ceil((1.5 * LIMITS.answersBytes) / LARGE_BYTES);
    const crowd = await opened(`${count} ${LARGE_ANSWERS}`, 0, () => startLargeAnswers(count));
    const held = heldOf(crowd);
    const mayHold = Math.floor(LIMITS.answersBytes / LARGE_BYTES);
    figure(`of ${count} such answers, held at once`, String(held));
    if (held > mayHold) violated(`${held} ${LARGE_ANSWERS} are held; ${mayHold} fit the budget`);
    dismiss(crowd);
  }

  async function leavers(): Promise<void> {
    await leaveEverywhere(gateway, sizes.leavers);
    figure('clients that left in the middle, at each of 10 points', String(sizes.leavers));
    latencies('beside clients that leave');
  }

  /** The native edge ends the connection, the other one answers in order. */
  async function pipelining(): Promise<void> {
    const answers = await pipeline(gateway, PIPELINED);
    const isUws = edge === 'uws';
    figure(`${PIPELINED} pipelined calls`, isUws ? 'the connection is ended' : 'answered in order');
    if (isUws) {
      if (answers.length > 0) violated(`${answers.length} of ${PIPELINED} pipelined calls were answered`);
      return;
    }
    const isInOrder = answers.every((text, i) =>
      i % 2 === 0 ? text.includes(`answer ${i}.`) : text.startsWith('HTTP/1.1 404'),
    );
    if (answers.length !== PIPELINED || !isInOrder)
      violated(`pipelined calls were not answered in order: ${answers.join(' | ').slice(0, 2000)}`);
  }

  /** Opens some of a kind, gives them time, and says what they cost. */
  async function opened(name: string, settleMs: number, open: () => Promise<BadClient[]>): Promise<BadClient[]> {
    const memory = () => memoryOf(gateway.pid).pss;
    const before = memory();
    const crowd = await open();
    await pause(settleMs);
    const grown = memory() - before;
    const each = (grown / crowd.length / KiB).toFixed(1);
    const all = `${(grown / MiB).toFixed(1)} MiB for ${crowd.length}`;
    figure(`memory of the supervisor: ${name}`, `${each} KiB each, ${all}`);
    return crowd;
  }

  /** What the good clients notice in some time from now on. */
  async function latenciesFrom(name: string): Promise<void> {
    await pause(sizes.settleMs);
    good.take();
    await pause(2 * sizes.settleMs);
    latencies(name);
  }

  /** What the good clients noticed of late. */
  function latencies(name: string): void {
    figure(`good clients ${name}`, describe(good.take()));
  }

  function violated(what: string): void {
    report.violated(edge, what);
  }

  function figure(name: string, value: string): void {
    report.figure(`${edge}: ${name}`, value);
  }

  return { latenciesFrom, slow, stalled, streams, bodies, answers, leavers, pipelining, latencies };
}
