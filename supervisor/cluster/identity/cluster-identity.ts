/**
 * Keeps what each node of a cluster knows of people and their rights at what the owner of the identity database says, and sends the
 * owner what the others have to write (specification, "People in the cluster").
 */
import type { Logger } from 'pino';
import { bucketOf } from '../../../protocol/buckets.ts';
import { movedError, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { IdentityClient, IdentityNodes, KeptRows } from '../../people/identity-db.ts';
import type { NodeCalls } from '../calls/node-calls.ts';
import { Journal, type Place, type Told } from './journal.ts';
import { OwnedDb } from './owned-db.ts';

export const IDENTITY_DATABASE = '_identity';
export const IDENTITY_BUCKET: number = bucketOf(IDENTITY_DATABASE);

type ClusterIdentityOptions = {
  /** The node's own copy of the database. It is asked only while the node owns it. */
  db: IdentityClient;
  calls: NodeCalls;
  /** Whether the node may serve the bucket at this moment, by `performance.now()`. */
  isOwner(at: number): boolean;
  /** The number of the latest entry that the log of the cluster has of the database. */
  seq(): Promise<number>;
  log: Logger;
};

/** `told` is null where the node has to read all again. `seq` has no later change than what was told; null where that is not known. */
type Changes = { told: Told[] | null; place: Place; isMore: boolean; seq: number | null };
type Work = { name: string; given: unknown };

const now = (): number => performance.now();

export class ClusterIdentity implements IdentityNodes {
  readonly ready: Promise<void>;
  readonly db: OwnedDb;
  readonly #options: ClusterIdentityOptions;
  readonly #work = new Map<string, (given: never) => Promise<unknown>>();
  readonly #kept = new Map<string, KeptRows>();
  readonly #ended: (() => void)[] = [];
  #settle: { resolve(): void; reject(error: Error): void } = { resolve() {}, reject() {} };
  #role: 'follower' | 'reader' | 'owner' | 'closed' = 'follower';
  /** Grows with each change of the role: what began before it ends. */
  #term = 0;
  /** Null where this node does not know up to which change it knows all. */
  #journal: Journal | null = null;
  /** How many writes failed, and whether it was not read yet what was stored of them. */
  #doubts = 0;
  #isInDoubt = false;
  /** What `seq` was when so many writes had begun and none went on. */
  #seqHere = { writes: -1, seq: 0 };
  /** The latest `seq` of which this node knows all changes; -1 for none. */
  #seqKnown = -1;
  #current = false;
  #currentUntil = 0;
  #expiry: NodeJS.Timeout | undefined;
  readonly #pauses = new Set<() => void>();

  constructor(options: ClusterIdentityOptions) {
    this.#options = options;
    this.db = new OwnedDb({
      db: options.db,
      mayRead: () => this.#isHere,
      mayWrite: () => this.#role === 'owner',
      onDoubt: () => this.#doubt(),
    });
    this.ready = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    this.ready.catch(() => {});
    options.calls.serve('identity', (given) => this.#do(given as Work));
    options.calls.serve('identity-changes', (given) => this.#changes(given as Place | null));
  }

  get current(): boolean {
    return this.#current;
  }

  /** Begins to follow the owner, or goes on with it where this node is the owner no more. */
  follow(): void {
    void this.#follow(this.#turn('follower'));
  }

  /**
   * This node got the database with the bucket, in this epoch. Resolves when it may be served: all that is kept was read again. Rejects
   * where the bucket was lost meanwhile.
   */
  async own(epoch: number): Promise<void> {
    const term = this.#turn('reader');
    if (this.#journal === null) this.#journal = new Journal({ epoch, number: 0 });
    else this.#journal.begin(epoch);
    while (term === this.#term) {
      try {
        await this.#reload();
        break;
      } catch (error) {
        this.#options.log.warn(
          { err: error },
          'People and their rights cannot be read yet; this node does not serve them.',
        );
        await this.#pause(LIMITS.nodeMovingLookMs);
      }
    }
    if (term !== this.#term) throw movedError();
    for (const rows of this.#kept.values()) if (rows.take === undefined) this.#journal.add([[rows.name]]);
    this.#role = 'owner';
    this.check();
    this.#settle.resolve();
  }

  /** Nobody is known from now on. */
  close(): void {
    this.#turn('closed');
    this.#settle.reject(movedError());
    this.#believe(0);
  }

  /** Sees whether what is known is still good. Runs before each request, since the process may have stood still. */
  check(): void {
    const at = now();
    if (this.#role === 'owner' && this.#options.isOwner(at)) this.#currentUntil = at + LIMITS.nodeLeaseMs;
    const left = this.#currentUntil - at;
    const isCurrent = left > 0;
    if (isCurrent)
      this.#expiry ??= setTimeout(() => {
        this.#expiry = undefined;
        this.check();
      }, left).unref();
    if (this.#current === isCurrent) return;
    this.#current = isCurrent;
    for (const rows of this.#kept.values()) rows.turned?.();
    if (!isCurrent) this.#tellEnded();
  }

  atOwner<G, T>(name: string, work: (given: G) => Promise<T>): (given: G) => Promise<T> {
    this.#work.set(name, work);
    return async (given) => {
      for (const until = now() + LIMITS.nodesMovingMs; ; ) {
        try {
          return await (this.#isHere ? work(given) : this.#ask<T>({ name, given }));
        } catch (error) {
          const isAway = error instanceof SvcError && error.code === 'STORAGE_UNAVAILABLE';
          if (!isAway || now() > until || this.#role === 'closed') throw error;
        }
        await this.#pause(LIMITS.nodeMovingLookMs);
      }
    };
  }

  keeps(rows: KeptRows): (changes?: readonly unknown[]) => void {
    this.#kept.set(rows.name, rows);
    return (changes) => {
      if (this.#isHere) this.#journal?.add(changes?.map((change): Told => [rows.name, change]) ?? [[rows.name]]);
    };
  }

  onEnded(call: () => void): void {
    this.#ended.push(call);
  }

  get #isHere(): boolean {
    return this.#role === 'reader' || this.#role === 'owner';
  }

  #turn(role: 'follower' | 'reader' | 'closed'): number {
    // What was half read, or may have been stored, is not what a place says.
    if (this.#role === 'reader' || this.#isInDoubt) this.#journal = null;
    this.#role = role;
    this.#isInDoubt = false;
    this.#seqKnown = -1;
    this.#seqHere = { writes: -1, seq: 0 };
    for (const end of this.#pauses) end();
    return ++this.#term;
  }

  async #ask<T>(work: Work): Promise<T> {
    return (await this.#options.calls.ask('identity', IDENTITY_BUCKET, work, LIMITS.nodeCallMs)) as T;
  }

  /** Does for another node what has a name here. */
  async #do({ name, given }: Work): Promise<unknown> {
    const work = this.#work.get(name);
    if (work === undefined) throw new SvcError('NOT_FOUND', 'This release does nothing of this name.');
    if (this.#role !== 'owner') throw movedError();
    return await work(given as never);
  }

  /** What changed since a place, as soon as something has; at once where the asker knows no place. */
  async #changes(from: Place | null): Promise<Changes> {
    if (from !== null) await this.#journal?.after(from, LIMITS.identityWaitMs);
    const seq = await this.#seqOfAll();
    const journal = this.#journal;
    // Meanwhile another node may have become the owner.
    if (this.#role !== 'owner' || journal === null || !this.#options.isOwner(now())) throw movedError();
    const since = from === null ? null : journal.since(from);
    const { told, place } = since ?? { told: null, place: journal.place };
    return { told, place, isMore: place.number < journal.place.number, seq };
  }

  /** The number of the latest entry, where all of them are in what is kept here. */
  async #seqOfAll(): Promise<number | null> {
    const { writes, pending } = this.db;
    if (pending > 0 || this.#isInDoubt) return null;
    if (this.#seqHere.writes === writes) return this.#seqHere.seq;
    const seq = await this.#options.seq().catch(() => null);
    if (seq === null || this.db.writes !== writes || this.db.pending > 0 || this.#isInDoubt) return null;
    this.#seqHere = { writes, seq };
    return seq;
  }

  async #follow(term: number): Promise<void> {
    while (term === this.#term) {
      try {
        await this.#step(term);
      } catch {
        if (term === this.#term) await this.#seek(term);
      }
    }
  }

  /** Asks for what changed since the place that is known, and takes it. */
  async #step(term: number): Promise<void> {
    const askedAt = now();
    const answer = (await this.#options.calls.ask(
      'identity-changes',
      IDENTITY_BUCKET,
      this.#journal?.place ?? null,
      LIMITS.identityAskMs,
    )) as Changes;
    if (term !== this.#term) throw movedError();
    const { told, place, isMore, seq } = answer;
    if (told === null || this.#journal === null) {
      this.#journal = null;
      await this.#reload();
      // What changed while it was read is told next.
      if (term === this.#term) this.#journal = new Journal(place);
      return;
    }
    this.#journal.follow(told, place);
    try {
      await this.#take(told);
    } catch (error) {
      // Some of it was taken: another owner may number what comes next in another way.
      if (term === this.#term) this.#journal = null;
      throw error;
    }
    if (term !== this.#term || isMore) return;
    this.#seqKnown = seq ?? -1;
    this.#believe(askedAt + LIMITS.nodeLeaseMs);
    this.#settle.resolve();
  }

  /** The owner does not answer: while the log has nothing new of the database, nothing has changed. */
  async #seek(term: number): Promise<void> {
    const askedAt = now();
    const seq = this.#seqKnown < 0 ? null : await this.#options.seq().catch(() => null);
    if (term !== this.#term) return;
    if (seq !== null && seq === this.#seqKnown) this.#believe(askedAt + LIMITS.nodeLeaseMs);
    await this.#pause(LIMITS.nodeMovingLookMs);
  }

  /** Changes of the same rows that follow each other are taken at once. */
  async #take(told: readonly Told[]): Promise<void> {
    const changes = new Map<KeptRows, unknown[]>();
    for (const [name, change] of told) {
      const rows = this.#kept.get(name);
      // Those of a later release are not kept here.
      if (rows === undefined) continue;
      const all = changes.get(rows) ?? [];
      changes.set(rows, all);
      if (change !== undefined) all.push(change);
    }
    for (const [rows, all] of changes) {
      const isTaken = rows.take !== undefined && all.length > 0;
      if (isTaken ? rows.take?.(all) : await rows.reload()) this.#tellEnded();
    }
  }

  async #reload(): Promise<void> {
    let hasEnded = false;
    for (const rows of this.#kept.values()) hasEnded = (await rows.reload()) || hasEnded;
    if (hasEnded) this.#tellEnded();
  }

  /** What is stored may be what a failed write said. */
  #doubt(): void {
    this.#doubts++;
    if (this.#isInDoubt || this.#role !== 'owner') return;
    this.#isInDoubt = true;
    void this.#resolveDoubt(this.#term);
  }

  async #resolveDoubt(term: number): Promise<void> {
    while (term === this.#term) {
      await this.#pause(LIMITS.nodeMovingLookMs);
      const doubts = this.#doubts;
      const isRead = await this.#reload().then(
        () => true,
        () => false,
      );
      if (!isRead || doubts !== this.#doubts) continue;
      if (term === this.#term) this.#isInDoubt = false;
      return;
    }
  }

  #believe(until: number): void {
    this.#currentUntil = until;
    this.check();
  }

  #tellEnded(): void {
    for (const call of this.#ended) call();
  }

  async #pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.#pauses.delete(end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      this.#pauses.add(end);
    });
  }
}
