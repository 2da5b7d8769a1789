/**
 * Runs one node's part in a cluster: joins, renews its lease, follows the other nodes, claims buckets and hands them over
 * (specification, "Cluster: nodes and buckets"). What to do is decided by `member.ts`.
 */
import { EventEmitter } from 'node:events';
import type { Logger } from 'pino';
import { LIMITS } from '../../protocol/limits.ts';
import { ConfigError } from '../config.ts';
import type { Directory, Epoch, NodeFacts, NodeRow, Owned } from './directory.ts';
import { type Decision, Member } from './member.ts';

export type MembershipOptions = {
  directory: Directory;
  node: NodeFacts;
  /** The run of the same data directory before this one, whose lease need not end; null when none is known. */
  previous: string | null;
  /** Resolves when the node serves nothing of this bucket any more. Then it is handed over. */
  quiesce(bucket: number): Promise<void>;
  log: Pick<Logger, 'info' | 'warn'>;
};

/** `owned`: buckets that the node may serve from now on, with their epochs. `lost`: those that it may not any more. */
type Events = { owned: [Epoch[]]; lost: [number[]]; nodes: [readonly NodeRow[]] };

const now = (): number => performance.now();

export class Membership extends EventEmitter<Events> {
  readonly #options: MembershipOptions;
  readonly #member: Member;
  #isJoined = false;
  #isEnded = false;
  #fault: string | null = null;
  #told = '';
  #expiry: NodeJS.Timeout | undefined;
  #isWoken = false;
  #endPause: () => void = () => {};
  #running: Promise<void> = Promise.resolve();
  readonly #quiescing = new Set<number>();
  #isAsking = false;
  #isActing = false;
  #databaseFault: string | null = null;
  /** The latest change of owners that this node asked for. */
  #asked: Promise<void> = Promise.resolve();
  #drained: (() => void)[] = [];

  /** Of the lease, since the start: those that the database answered, and those that it did not. */
  readonly renewals = { ok: 0, failed: 0 };

  constructor(options: MembershipOptions) {
    super();
    this.#options = options;
    this.#member = new Member(options.node.name);
  }

  /**
   * Joins, takes what is to be its own now, and goes on by itself until `leave` or `stop`. Rejects with `ConfigError` if another node
   * has the name, and with `STORAGE_UNAVAILABLE` if the database does not answer.
   */
  async start(): Promise<void> {
    const holder = (await this.#joinSlowly()) === null ? null : await this.#joinLater();
    if (holder !== null) {
      const { name } = this.#options.node;
      throw new ConfigError(
        `"cluster.node" is "${name}", and a node of this name runs at ${holder}. Give each node a name of its own.`,
        'cluster',
      );
    }
    const isMoving = await this.#turn();
    await this.#asked;
    this.#running = this.#run(isMoving);
  }

  get nodes(): readonly NodeRow[] {
    return this.#member.nodes;
  }

  /** Who has a bucket and its epoch, as far as this node knows. */
  ownerOf(bucket: number): Owned {
    return this.#member.ownerOf(bucket);
  }

  /** The epoch of a bucket that this node may serve at this moment (`performance.now()`); null for any other. Never true for longer than the lease. */
  epochOf(bucket: number, at: number = now()): number | null {
    return this.#member.epochOf(bucket, at);
  }

  /** Why the database did not answer when it was last asked; null when it did. */
  get databaseFault(): string | null {
    return this.#databaseFault;
  }

  /** Milliseconds for which the lease still holds if it is not renewed; 0 when it has ended. */
  get leaseMs(): number {
    return Math.max(0, this.#member.leaseUntil - now());
  }

  get draining(): boolean {
    return this.#member.draining;
  }

  /** Whether to hand over all buckets and take no new ones while another node does. */
  set draining(draining: boolean) {
    this.#member.draining = draining;
    this.#wake();
  }

  /** Hands over all buckets, to nobody where no other node is. Resolves when the node has none; goes on while the database is away. */
  async drain(): Promise<void> {
    const drained = new Promise<void>((resolve) => this.#drained.push(resolve));
    this.#member.leaving = true;
    this.draining = true;
    await drained;
  }

  /** Ends, and tells the others, who take over at once what the node still has. Rejects with `STORAGE_UNAVAILABLE` if the database is away. */
  async leave(): Promise<void> {
    await this.stop();
    await this.#options.directory.leave(this.#options.node);
  }

  /** Ends without a word: the lease ends by itself. */
  async stop(): Promise<void> {
    this.#isEnded = true;
    this.#wake();
    this.#lose(this.#member.end());
    await this.#running;
    clearTimeout(this.#expiry);
    this.#tellDrained();
  }

  async #run(isMoving: boolean): Promise<void> {
    for (let begunAt = now(), isSoon = isMoving; !this.#isEnded; isSoon = await this.#turn()) {
      const every = isSoon ? LIMITS.nodeMovingLookMs : LIMITS.nodeLookMs;
      await this.#pause(begunAt + every - now());
      begunAt = now();
    }
  }

  /** Renews and looks. Answers whether to look again soon: the database did not answer, or owners are about to change. */
  async #turn(): Promise<boolean> {
    const { directory, node, log } = this.#options;
    try {
      if (!this.#isJoined && (await this.#join()) !== null) {
        this.#warn(
          `Another node has the name "${node.name}" in the cluster. This one serves nothing until that one ends.`,
        );
        return false;
      }
      const sentAt = now();
      const look = await directory.look(node, this.#member.draining, this.#member.known);
      this.renewals.ok++;
      this.#databaseFault = null;
      if (this.#isEnded) return false;
      const lost = this.#member.looked(look, sentAt, now());
      this.#isJoined = this.#member.holds(now());
      this.#lose(lost);
      this.#expireLater();
      if (this.#fault !== null) log.info({ node: node.name }, 'This node is in the cluster again.');
      this.#fault = null;
      this.#tellNodes();
      return this.#act() || !this.#isJoined;
    } catch (error) {
      this.renewals.failed++;
      this.#databaseFault = (error as Error).message;
      this.#warn((error as Error).message);
      return true;
    }
  }

  /** Asks for what is to be changed, unless it is asked already. Answers whether owners are about to change. */
  #act(): boolean {
    if (this.#isEnded) return false;
    const decision = this.#member.decide(now());
    for (const bucket of decision.release) this.#release(bucket);
    if (decision.claim.length + decision.give.length > 0) this.#ask(decision);
    if (this.#member.draining && this.#isJoined && this.#member.isEmpty) this.#tellDrained();
    return decision.isMoving;
  }

  /**
   * One decision at a time: what a claim got that is not answered yet must not be given away meanwhile. A change that failed,
   * or that the directory did not take in full, is decided again after the next look, which shows why.
   */
  #ask(decision: Decision): void {
    if (this.#isAsking) return;
    this.#isAsking = true;
    this.#asked = this.#change(decision).then(
      (isWhole) => {
        this.#isAsking = false;
        if (isWhole) this.#act();
      },
      (error: Error) => {
        this.#isAsking = false;
        this.#options.log.warn({ err: error }, 'The directory of the cluster did not take a change.');
      },
    );
  }

  async #change(decision: Decision): Promise<boolean> {
    const { directory, node } = this.#options;
    const { claim, give } = decision;
    const claimed = claim.length === 0 ? [] : await directory.claim(node, claim);
    const owned = this.#member.claimed(claimed, decision, now());
    if (owned.length > 0) this.emit('owned', owned);
    const given = give.length === 0 ? [] : await directory.give(node, give);
    this.#member.gave(given, decision, now());
    return claimed.length === claim.length && given.length === give.length;
  }

  #release(bucket: number): void {
    if (this.#quiescing.has(bucket)) return;
    this.#quiescing.add(bucket);
    void this.#options.quiesce(bucket).then(
      () => {
        this.#quiescing.delete(bucket);
        if (this.#member.released(bucket)) this.#lose([bucket]);
        this.#actSoon();
      },
      (error: Error) => {
        this.#quiescing.delete(bucket);
        this.#options.log.warn({ err: error, bucket }, 'A bucket cannot be handed over yet.');
      },
    );
  }

  /** Buckets are released by hundreds: what is to be done then is decided once. */
  #actSoon(): void {
    if (this.#isActing) return;
    this.#isActing = true;
    setImmediate(() => {
      this.#isActing = false;
      this.#act();
    });
  }

  /** Null when it joined, else the address of the node that has the name. */
  async #join(): Promise<string | null> {
    const sentAt = now();
    const holder = await this.#options.directory.join(this.#options.node, this.#options.previous);
    if (holder !== null || this.#isEnded) return holder;
    this.#member.joined(sentAt);
    this.#isJoined = true;
    this.#expireLater();
    return null;
  }

  /** A database that is slow has some seconds. */
  async #joinSlowly(): Promise<string | null> {
    for (const until = now() + LIMITS.nodeStartMs; ; await this.#pause(LIMITS.nodeMovingLookMs)) {
      try {
        return await this.#join();
      } catch (error) {
        if (this.#isEnded || now() >= until) throw error;
      }
    }
  }

  /** After the time that the lease of a node has which runs no more. */
  async #joinLater(): Promise<string | null> {
    await this.#pause(LIMITS.nodeLeaseMs + LIMITS.nodeMovingLookMs);
    return this.#join();
  }

  #expireLater(): void {
    clearTimeout(this.#expiry);
    if (!this.#isJoined || this.#isEnded) return;
    this.#expiry = setTimeout(() => {
      if (this.#member.holds(now())) return this.#expireLater();
      this.#isJoined = false;
      this.#warn('The lease of this node ended before the database had renewed it; it serves nothing until it does.');
      this.#lose(this.#member.end());
    }, this.#member.leaseUntil - now());
  }

  #tellDrained(): void {
    for (const tell of this.#drained.splice(0)) tell();
  }

  #lose(buckets: number[]): void {
    if (buckets.length > 0) this.emit('lost', buckets);
  }

  #tellNodes(): void {
    const told = JSON.stringify(this.nodes.map(({ leaseUntil, ...node }) => node));
    if (told === this.#told) return;
    this.#told = told;
    this.emit('nodes', this.nodes);
  }

  /** Once for as long as the fault is the same. */
  #warn(fault: string): void {
    if (fault === this.#fault) return;
    this.#fault = fault;
    this.#options.log.warn({ node: this.#options.node.name }, fault);
  }

  #wake(): void {
    this.#isWoken = true;
    this.#endPause();
  }

  /** Ends early when it is woken. */
  async #pause(ms: number): Promise<void> {
    if (!this.#isWoken)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.max(0, ms));
        this.#endPause = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    this.#isWoken = false;
  }
}
