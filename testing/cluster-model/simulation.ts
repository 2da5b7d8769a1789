/**
 * Simulates a cluster: every node runs `Member` of the product, on a clock of its own speed, and asks a directory by messages
 * that take their time or are lost. A seed replays it. Times are milliseconds.
 */
import { BUCKETS, bucketOf } from '../../protocol/buckets.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Epoch } from '../../supervisor/cluster/directory.ts';
import { type Decision, Member } from '../../supervisor/cluster/member.ts';
import { Random } from '../random.ts';
import { ModelDirectory } from './directory.ts';

export type Scale = {
  nodes: number;
  apps: number;
  /** Nodes that are lost at once. */
  losses: number;
  /** Share of the questions that are lost, on their way there or back. */
  lostMessages: number;
  /** Share of the messages that take up to two seconds instead of 1 to 20 ms. */
  lateMessages: number;
  /** How often some of the nodes are cut off from the directory for up to eight seconds, before the loss. */
  cuts: number;
};

export type Outcome = {
  /** From the loss until every bucket is served by a node that is left. */
  placedMs: number;
  /** The most buckets, and the most apps, of a node then, divided by the mean. */
  unevenBuckets: number;
  unevenApps: number;
  /** Buckets that the lost nodes had, and the other buckets that moved. */
  orphans: number;
  movedOthers: number;
  /** Questions to the directory a second, by all nodes: at rest, and from the loss until everything was placed. */
  questionsAtRest: number;
  questionsAfterLoss: number;
  /**
   * What must never be: a bucket that two nodes serve at once, or an owner with an epoch that is not higher than the one
   * before.
   */
  violations: string[];
};

const START_WITHIN = 2000;
const REST_MS = 10_000;
const GIVEN_UP_MS = 120_000;
/** A node decides once about all that it released within so many milliseconds. */
const ACT_WITHIN = 10;
/** Events between two questions that go over all nodes. */
const WHOLE = 200;
/** Clocks of nodes run at most so much faster or slower than the database's. */
const DRIFT = 0.001;

type SimulatedNode = {
  name: string;
  member: Member;
  rate: number;
  isJoined: boolean;
  isLost: boolean;
  cutUntil: number;
  isAsking: boolean;
  isActing: boolean;
  quiescing: Set<number>;
};

export class ClusterSimulation {
  readonly #random: Random;
  readonly #scale: Scale;
  readonly #queue = new Agenda();
  readonly #directory: ModelDirectory;
  readonly #nodes: SimulatedNode[];
  /** By bucket, who serves it, and the highest epoch that anybody had. */
  readonly #serving: (SimulatedNode | null)[] = Array.from({ length: BUCKETS }, () => null);
  readonly #epochs: number[] = Array.from({ length: BUCKETS }, () => 0);
  readonly #violations: string[] = [];
  #now = 0;
  #served = 0;

  constructor(seed: number, scale: Scale) {
    this.#random = new Random(seed);
    this.#scale = scale;
    this.#directory = new ModelDirectory(() => this.#now);
    this.#nodes = Array.from({ length: scale.nodes }, (_, n) => {
      const name = `node-${n}`;
      const rate = 1 + (this.#random.next() * 2 - 1) * DRIFT;
      return {
        name,
        member: new Member(name),
        rate,
        isJoined: false,
        isLost: false,
        cutUntil: 0,
        isAsking: false,
        isActing: false,
        quiescing: new Set(),
      };
    });
  }

  run(): Outcome {
    for (const node of this.#nodes) this.#at(this.#random.between(0, START_WITHIN), () => this.#turn(node));
    this.#until(() => this.#isSettled(), WHOLE);
    const [from, questions] = [this.#now, this.#directory.questions];
    this.#until(() => this.#now >= from + REST_MS);
    const questionsAtRest = (this.#directory.questions - questions) / (REST_MS / 1000);
    for (let cut = 0; cut < this.#scale.cuts; cut++) this.#cut();
    this.#until(() => this.#isSettled(), WHOLE);
    return { ...this.#lose(), questionsAtRest, violations: this.#violations };
  }

  #cut(): void {
    const some = this.#random.shuffled(this.#nodes).slice(0, Math.ceil(this.#nodes.length / 4));
    for (const node of some) node.cutUntil = this.#now + this.#random.between(500, 8000);
    const end = this.#now + this.#random.between(2000, 10_000);
    this.#until(() => this.#now >= end);
  }

  /** Some nodes are gone from one moment to the next. */
  #lose(): Omit<Outcome, 'questionsAtRest' | 'violations'> {
    const lost = this.#random.shuffled(this.#nodes).slice(0, this.#scale.losses);
    let orphans = 0;
    for (const node of lost) {
      orphans += node.member.mine.size;
      node.isLost = true;
      for (const bucket of node.member.mine.keys()) this.#stopServing(node, bucket);
    }
    const [at, questions, moved] = [this.#now, this.#directory.questions, this.#directory.moved];
    this.#until(() => this.#served === BUCKETS);
    const placedMs = this.#now - at;
    const questionsAfterLoss = (this.#directory.questions - questions) / (placedMs / 1000);
    this.#until(() => this.#isSettled(), WHOLE);
    const left = this.#nodes.filter(({ isLost }) => !isLost);
    const appsOf = this.#apps();
    const most = (ofNode: (node: SimulatedNode) => number): number => Math.max(...left.map(ofNode));
    return {
      placedMs,
      questionsAfterLoss,
      orphans,
      movedOthers: this.#directory.moved - moved - orphans,
      unevenBuckets: most(({ member }) => member.mine.size) / (BUCKETS / left.length),
      unevenApps: most((node) => appsOf.get(node) ?? 0) / (this.#scale.apps / left.length),
    };
  }

  #apps(): Map<SimulatedNode, number> {
    const counts = new Map<SimulatedNode, number>();
    for (let n = 0; n < this.#scale.apps; n++) {
      const node = this.#serving[bucketOf(`app-${n}`)];
      if (node != null) counts.set(node, (counts.get(node) ?? 0) + 1);
    }
    return counts;
  }

  /** Every bucket is served, and no node that is left wants another. */
  #isSettled(): boolean {
    if (this.#served < BUCKETS) return false;
    return this.#nodes.every(
      (node) =>
        node.isLost ||
        (node.isJoined && node.quiescing.size === 0 && !node.member.decide(this.#clockOf(node)).isMoving),
    );
  }

  /** As the loop of `Membership`: join if need be, look, and do what is decided. */
  #turn(node: SimulatedNode): void {
    if (node.isLost) return;
    const sentAt = this.#clockOf(node);
    const isNew = !node.isJoined;
    const ask = () => {
      if (isNew) this.#directory.join(node.name);
      return this.#directory.look(node.name, node.member.draining, node.member.known);
    };
    const begunAt = this.#now;
    const next = (isMoving: boolean): void => {
      const every = isMoving ? LIMITS.nodeMovingLookMs : LIMITS.nodeLookMs;
      this.#at(Math.max(this.#now, begunAt + every / node.rate), () => this.#turn(node));
    };
    this.#ask(node, ask, (look) => {
      if (look === null) return next(true);
      if (isNew) node.member.joined(sentAt);
      this.#lost(node, node.member.looked(look, sentAt, this.#clockOf(node)));
      node.isJoined = node.member.holds(this.#clockOf(node));
      this.#expireLater(node);
      next(this.#act(node).isMoving || !node.isJoined);
    });
  }

  #act(node: SimulatedNode): Decision {
    const { member } = node;
    const decision = member.decide(this.#clockOf(node));
    for (const bucket of decision.release) this.#release(node, bucket);
    if (decision.claim.length + decision.give.length > 0 && !node.isAsking) this.#change(node, decision);
    return decision;
  }

  #change(node: SimulatedNode, decision: Decision): void {
    const { member, name } = node;
    node.isAsking = true;
    this.#askIf(
      decision.claim,
      node,
      () => this.#directory.claim(name, decision.claim),
      (claimed) => {
        node.isAsking = claimed !== null;
        if (claimed === null) return;
        for (const { bucket, epoch } of member.claimed(claimed, decision, this.#clockOf(node)))
          this.#serve(node, bucket, epoch);
        this.#askIf(
          decision.give,
          node,
          () => this.#directory.give(name, decision.give),
          (given) => {
            node.isAsking = false;
            if (given === null) return;
            member.gave(given, decision, this.#clockOf(node));
            if (claimed.length === decision.claim.length && given.length === decision.give.length) this.#act(node);
          },
        );
      },
    );
  }

  /** What a node serves needs a moment until it is quiet. */
  #release(node: SimulatedNode, bucket: number): void {
    if (node.quiescing.has(bucket)) return;
    node.quiescing.add(bucket);
    this.#at(this.#now + this.#random.between(1, 500), () => {
      node.quiescing.delete(bucket);
      if (node.isLost) return;
      if (node.member.released(bucket)) this.#stopServing(node, bucket);
      this.#actSoon(node);
    });
  }

  /** As `Membership`: what is to be done after several releases is decided once. */
  #actSoon(node: SimulatedNode): void {
    if (node.isActing) return;
    node.isActing = true;
    this.#at(this.#now + ACT_WITHIN, () => {
      node.isActing = false;
      if (!node.isLost) this.#act(node);
    });
  }

  /** Without anything to ask for the answer is there. */
  #askIf(wanted: unknown[], node: SimulatedNode, ask: () => Epoch[], take: (answer: Epoch[] | null) => void): void {
    if (wanted.length === 0) take([]);
    else this.#ask(node, ask, take);
  }

  /** Null if nothing came within the time that a question may take; what was asked may happen nevertheless, even later. */
  #ask<T>(node: SimulatedNode, ask: () => T, take: (answer: T | null) => void): void {
    let isOver = false;
    const end = (answer: T | null): void => {
      if (isOver) return;
      isOver = true;
      if (!node.isLost) take(answer);
    };
    const { lostMessages, lateMessages } = this.#scale;
    const delay = (): number =>
      this.#random.next() < lateMessages ? this.#random.between(20, 2000) : this.#random.between(1, 20);
    this.#at(this.#now + LIMITS.nodeQueryMs, () => end(null));
    const isLost = (): boolean => this.#random.next() < lostMessages / 2 || this.#now < node.cutUntil;
    if (isLost()) return;
    this.#at(this.#now + delay(), () => {
      const answer = ask();
      if (!isLost()) this.#at(this.#now + delay(), () => end(answer));
    });
  }

  #expireLater(node: SimulatedNode): void {
    if (!node.isJoined) return;
    // A hundredth of a millisecond later, for the product of both is not exact.
    const end = node.member.leaseUntil / node.rate + 0.01;
    this.#at(Math.max(this.#now, end), () => {
      if (node.isLost || !node.isJoined || node.member.holds(this.#clockOf(node))) return;
      node.isJoined = false;
      this.#lost(node, node.member.end());
    });
  }

  #lost(node: SimulatedNode, buckets: number[]): void {
    for (const bucket of buckets) this.#stopServing(node, bucket);
  }

  #serve(node: SimulatedNode, bucket: number, epoch: number): void {
    const other = this.#serving[bucket];
    if (other != null) this.#violations.push(`${this.#now}: ${other.name} and ${node.name} serve bucket ${bucket}`);
    if (epoch <= (this.#epochs[bucket] as number))
      this.#violations.push(`${this.#now}: bucket ${bucket} got epoch ${epoch} again`);
    this.#epochs[bucket] = epoch;
    if (other == null) this.#served++;
    this.#serving[bucket] = node;
  }

  #stopServing(node: SimulatedNode, bucket: number): void {
    if (this.#serving[bucket] !== node) return;
    this.#serving[bucket] = null;
    this.#served--;
  }

  #clockOf({ rate }: SimulatedNode): number {
    return this.#now * rate;
  }

  #at(at: number, run: () => void): void {
    this.#queue.add(at, run);
  }

  /** Goes on until it holds, asked after each so many events. */
  #until(holds: () => boolean, every = 1): void {
    const end = this.#now + GIVEN_UP_MS;
    for (let steps = 0; ; steps++) {
      if (steps % every === 0 && holds()) return;
      const { at, run } = this.#queue.next();
      this.#now = at;
      if (at > end) throw new Error(`The cluster did not settle within ${GIVEN_UP_MS / 1000} s.`);
      run();
    }
  }
}

/** What happens later, the earliest first; what happens at one time in the order in which it was added. A binary heap. */
class Agenda {
  readonly #heap: { at: number; order: number; run: () => void }[] = [];
  #added = 0;

  add(at: number, run: () => void): void {
    const heap = this.#heap;
    heap.push({ at, order: this.#added++, run });
    for (let child = heap.length - 1; child > 0; ) {
      const parent = (child - 1) >> 1;
      if (!this.#isBefore(child, parent)) return;
      this.#swap(child, parent);
      child = parent;
    }
  }

  next(): { at: number; run: () => void } {
    const heap = this.#heap;
    this.#swap(0, heap.length - 1);
    const first = heap.pop();
    if (first === undefined) throw new Error('Nothing happens any more.');
    for (let parent = 0; ; ) {
      const [left, right] = [2 * parent + 1, 2 * parent + 2];
      const child = right < heap.length && this.#isBefore(right, left) ? right : left;
      if (child >= heap.length || !this.#isBefore(child, parent)) return first;
      this.#swap(child, parent);
      parent = child;
    }
  }

  #isBefore(a: number, b: number): boolean {
    const [one, other] = [this.#heap[a]!, this.#heap[b]!];
    return one.at < other.at || (one.at === other.at && one.order < other.order);
  }

  #swap(a: number, b: number): void {
    const heap = this.#heap;
    [heap[a], heap[b]] = [heap[b]!, heap[a]!];
  }
}
