/**
 * Keeps the files of apps, workspaces and the git store in the database of a cluster, so that another node can go on with them as after
 * a crash (specification, "Files in the cluster"). What was stored is there as it was on the disk at one moment.
 */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Session, Transactions } from '../cluster/database.ts';
import type { Layout } from '../layout.ts';
import { type LargeContents, nameObjects } from './large-contents.ts';
import { checkEntries, damaged, place } from './placing.ts';
import { nameOf, Places, type Subject } from './subjects.ts';
import {
  differenceOf,
  hasMet,
  keepContents,
  type Outcome,
  type Pieces,
  presentContents,
  putEntries,
  putPieces,
  readContents,
  readEntries,
  readPiece,
  readSubjects,
  type Stored,
  sweepContents,
} from './tables.ts';
import { Changed, type Entries, type Entry, isEqual, piecesOf, Tree } from './tree.ts';

const NO_PIECE = { bytes: Buffer.alloc(0), object: null };
/** How often a transaction is tried that meets others, or files that change. */
const TRIES = 20;

/** Another node owns the bucket of the subject now. Nothing was stored, and what this node has of it is old. */
export class Fenced extends SvcError {
  constructor(subject: Subject) {
    super('STORAGE_UNAVAILABLE', `Another node has ${nameOf(subject)} now. Try again.`);
  }
}

/** Ends a transaction in which the entries were not changed. */
class NotStored extends Error {
  readonly outcome: Outcome;

  constructor(outcome: Outcome) {
    super(outcome);
    this.outcome = outcome;
  }
}

/** What is known of a subject. `stored` is what the database has while its bucket has this epoch; null when that is not known. */
type Known = { tree: Tree; stored: (Stored & { epoch: number }) | null };
/** Stores that wait for their turn, and are one. */
type Next = { epoch: number; done: Promise<void> };

export class SharedFiles {
  readonly #layout: Layout;
  readonly #database: Transactions;
  readonly #large: LargeContents | null;
  /** By name of the subject; the one that was used last is at the end. */
  readonly #known = new Map<string, Known>();
  /** The last work on each subject that is busy. */
  readonly #turns = new Map<string, Promise<unknown>>();
  readonly #next = new Map<string, Next>();
  #swept: string | null = null;

  /** Each statement sends or gets `LIMITS.sharedPieceBytes` and some. Contents above it go to `large`, or are in pieces where it is null. */
  constructor(layout: Layout, database: Transactions, large: LargeContents | null = null) {
    this.#layout = layout;
    this.#database = database;
    this.#large = large;
  }

  /**
   * Resolves when the database has the files of the subject as they were at the call, or at a later moment; without asking it when it
   * has them already. Rejects with `Fenced` when the bucket of the subject does not have this epoch, and with `STORAGE_UNAVAILABLE`
   * when that is not confirmed: it may be stored or not. Calls for one subject that wait for its turn are one.
   */
  store(subject: Subject, epoch: number): Promise<void> {
    const name = nameOf(subject);
    const waiting = this.#next.get(name);
    if (waiting?.epoch === epoch) return waiting.done;
    const done = this.#inTurn(name, () => {
      // From now on the files are read: what changes later needs another turn.
      if (this.#next.get(name) === next) this.#next.delete(name);
      return this.#store(subject, epoch);
    });
    const next = { epoch, done };
    this.#next.set(name, next);
    return done;
  }

  /**
   * Makes the files on this node equal to those that were stored, while nobody uses them. Rejects with `STORE_DAMAGED`, which names the
   * file, when the database has something that was not stored so, and with `STORAGE_UNAVAILABLE`. Called again, it does what is left.
   */
  fetch(subject: Subject): Promise<void> {
    return this.#inTurn(nameOf(subject), async () => {
      const known = this.#knownOf(subject);
      const { entries: wanted } = await readEntries(this.#database, subject);
      checkEntries(wanted, subject);
      const local = await known.tree.read();
      const places = await Places.of(this.#layout);
      const leftovers = await known.tree.leftovers();
      const contents = (files: readonly Entry[]) => this.#contentsOf(subject, files);
      await place(places, subject, { wanted, local, leftovers, contents });
    });
  }

  /** The subjects of these buckets that the database has. Rejects with `STORAGE_UNAVAILABLE`. */
  subjectsIn(buckets: readonly number[]): Promise<Subject[]> {
    return readSubjects(this.#database, buckets);
  }

  /** Takes the subject out of the database, not from the disk. Rejects as `store` does. */
  remove(subject: Subject, epoch: number): Promise<void> {
    return this.#inTurn(nameOf(subject), () => this.#change(subject, epoch, async () => new Map()));
  }

  /**
   * Deletes contents that no file has any more, among the next `LIMITS.sharedSweep`. `removed` counts them; `isRound` says that this was
   * the last step of a round over all, after which objects go that were not needed for long. Any number of nodes may do this at once, beside everything else.
   */
  async sweep(): Promise<{ removed: number; isRound: boolean }> {
    const step = await sweepContents(this.#database, this.#swept, LIMITS.sharedSweep);
    if (step === null) return { removed: 0, isRound: false };
    this.#swept = step.next;
    if (step.next === null) await this.#large?.sweep();
    return { removed: step.removed, isRound: step.next === null };
  }

  #store(subject: Subject, epoch: number): Promise<void> {
    return this.#change(subject, epoch, async ({ tree }) => {
      const entries = await tree.read();
      checkPaths(entries);
      return entries;
    });
  }

  /** Makes the entries in the database what `read` finds. */
  async #change(subject: Subject, epoch: number, read: (known: Known) => Promise<Entries>): Promise<void> {
    const sent = new Map<string, string>();
    for (let tries = 0; tries < TRIES; tries++) {
      const known = this.#knownOf(subject);
      const entries = await read(known);
      const stored = known.stored?.epoch === epoch ? known.stored : null;
      if (stored?.entries === entries) return;
      // Until it is confirmed, nobody knows what the database has: a statement whose connection is lost may be done later.
      known.stored = null;
      const before = stored ?? (await readEntries(this.#database, subject));
      // Also when nothing differs: what is done later finds another version then, and changes nothing.
      const outcome = await this.#put(subject, epoch, entries, before, sent).catch(repeatable);
      if (outcome === 'fenced') throw new Fenced(subject);
      if (outcome !== 'stored') continue;
      known.stored = { epoch, version: before.version + 1, entries };
      return;
    }
    throw new SvcError('STORAGE_UNAVAILABLE', `The files of ${nameOf(subject)} change all the time. Try again.`);
  }

  /** `sent` are the objects that earlier tries made, by the hashes of their contents. */
  async #put(
    subject: Subject,
    epoch: number,
    entries: Entries,
    before: Stored,
    sent: Map<string, string>,
  ): Promise<Outcome> {
    const { version } = before;
    const difference = differenceOf(before.entries, entries, isEqual);
    const has = new Set([...before.entries.values()].map(({ hash }) => hash));
    // In one order everywhere: whoever stores the same waits, and never for each other.
    const files = new Map(
      difference.put.flatMap((entry) => (entry.hash === null || has.has(entry.hash) ? [] : [[entry.hash, entry]])),
    );
    const sorted = [...files.values()].sort((a, b) => ((a.hash ?? '') < (b.hash ?? '') ? -1 : 1));
    const places = await Places.of(this.#layout);
    if (sorted.reduce((sum, { size }) => sum + size, 0) <= LIMITS.sharedPieceBytes) {
      const pieces = noPieces();
      for (const entry of sorted) for await (const piece of read(places, entry)) add(pieces, piece);
      return putEntries(this.#database, subject, epoch, version, difference, pieces);
    }
    const large = this.#large === null ? [] : sorted.filter(({ size }) => size > LIMITS.sharedPieceBytes);
    await this.#send(places, large, sent);
    return this.#database.transaction(async (session) => {
      const there = await keepContents(session, [...files.keys()]);
      await this.#name(session, large, there, sent);
      let pieces = noPieces();
      let bytes = 0;
      for (const entry of sorted) {
        if (there.has(entry.hash ?? '')) continue;
        for await (const piece of read(places, entry)) {
          if (bytes > 0 && bytes + piece.bytes.length > LIMITS.sharedPieceBytes) {
            await putPieces(session, pieces);
            [pieces, bytes] = [noPieces(), 0];
          }
          add(pieces, piece);
          bytes += piece.bytes.length;
        }
      }
      const outcome = await putEntries(session, subject, epoch, version, difference, pieces);
      if (outcome !== 'stored') throw new NotStored(outcome);
      return outcome;
    });
  }

  /** Makes objects of the files whose contents the database lacks. No connection to it waits for that. */
  async #send(places: Places, files: readonly Entry[], sent: Map<string, string>): Promise<void> {
    if (this.#large === null || files.length === 0) return;
    const hashes = files.flatMap(({ hash }) => hash ?? []);
    const there = await presentContents(this.#database, hashes);
    for (const entry of files) {
      const { hash, size } = entry;
      const local = places.local(entry.path);
      if (hash === null || there.has(hash) || sent.has(hash)) continue;
      if (local === null) throw new Changed();
      sent.set(hash, await this.#large.put({ hash, size, read: () => piecesOf(local, entry) }));
    }
  }

  /** Makes those objects contents, which are `there` then. */
  async #name(session: Session, files: readonly Entry[], there: Set<string>, sent: Map<string, string>): Promise<void> {
    const keys = new Map<string, string>();
    for (const { hash } of files) {
      if (hash === null || there.has(hash)) continue;
      const key = sent.get(hash);
      // It was swept after it had been seen.
      if (key === undefined) throw new NotStored('late');
      keys.set(hash, key);
    }
    if (keys.size === 0) return;
    if (!(await nameObjects(session, keys))) {
      sent.clear();
      throw new NotStored('late');
    }
    for (const hash of keys.keys()) there.add(hash);
  }

  /** Small files are asked for together. */
  #contentsOf(subject: Subject, files: readonly Entry[]): (file: Entry) => AsyncIterable<Buffer> {
    const groups = groupsOf(files);
    const asked = async function* (this: SharedFiles, file: Entry): AsyncGenerator<Buffer> {
      const group = groups.get(file.path);
      if (group !== undefined) {
        group.contents ??= readContents(this.#database, group.hashes);
        const content = (await group.contents).get(file.hash ?? '');
        group.left -= 1;
        if (group.left === 0) group.contents = undefined;
        if (content === undefined) throw damaged(subject, file.path, 'has no content');
        yield content;
        return;
      }
      for (let at = 0, piece = 0; at < file.size; piece++) {
        const { bytes, object } = (await readPiece(this.#database, file.hash ?? '', piece)) ?? NO_PIECE;
        if (object !== null) {
          yield* this.#objectOf(subject, file, object);
          return;
        }
        if (bytes.length === 0) throw damaged(subject, file.path, `lacks the piece ${piece} of its content`);
        yield bytes;
        at += bytes.length;
      }
    };
    return asked.bind(this);
  }

  async *#objectOf(subject: Subject, { path, size }: Entry, key: string): AsyncGenerator<Buffer> {
    if (this.#large === null) throw lacksStore();
    const object = await this.#large.get(key);
    const named = `its content, the object ${key} of "blobs.s3"`;
    if (object === null) throw damaged(subject, path, `lacks ${named}`);
    let left = size;
    for await (const bytes of object) {
      left -= bytes.length;
      // All of it would fill the disk before its hash is wrong.
      if (left < 0) throw damaged(subject, path, `has ${size} bytes, and ${named} has more`);
      yield bytes;
    }
  }

  #knownOf(subject: Subject): Known {
    const name = nameOf(subject);
    const known = this.#known.get(name) ?? { tree: new Tree(this.#layout, subject), stored: null };
    this.#known.delete(name);
    this.#known.set(name, known);
    const [oldest] = this.#known.keys();
    if (this.#known.size > LIMITS.sharedSubjects && oldest !== undefined) this.#known.delete(oldest);
    return known;
  }

  #inTurn<T>(name: string, work: () => Promise<T>): Promise<T> {
    const result = (this.#turns.get(name) ?? Promise.resolve()).then(work);
    const done = result
      .catch(() => {})
      .then(() => {
        if (this.#turns.get(name) === done) this.#turns.delete(name);
      });
    this.#turns.set(name, done);
    return result;
  }
}

type Group = { hashes: string[]; left: number; contents?: Promise<Map<string, Buffer>> | undefined };

/** By path, for files of one piece: those of some MiB together. */
function groupsOf(files: readonly Entry[]): Map<string, Group> {
  const groups = new Map<string, Group>();
  let group: Group = { hashes: [], left: 0 };
  let bytes = 0;
  for (const { path, hash, size } of files) {
    if (size > LIMITS.sharedPieceBytes || hash === null) continue;
    if (bytes + size > LIMITS.sharedPieceBytes) [group, bytes] = [{ hashes: [], left: 0 }, 0];
    group.hashes.push(hash);
    group.left += 1;
    bytes += size;
    groups.set(path, group);
  }
  return groups;
}

type Piece = { hash: string; number: number; bytes: Buffer };

async function* read(places: Places, entry: Entry): AsyncGenerator<Piece> {
  const local = places.local(entry.path);
  if (local === null) throw new Changed();
  let number = 0;
  for await (const bytes of piecesOf(local, entry)) yield { hash: entry.hash ?? '', number: number++, bytes };
}

function lacksStore(): SvcError {
  const message =
    'Files of the cluster are in an S3-compatible store, and this node has none. Set "blobs.s3" as at the other nodes, and start it again.';
  return new SvcError('STORAGE_UNAVAILABLE', message);
}

function noPieces(): Pieces {
  return { hashes: [], numbers: [], sizes: [], bytes: [] };
}

function add(pieces: Pieces, { hash, number, bytes }: Piece): void {
  pieces.hashes.push(hash);
  pieces.numbers.push(number);
  pieces.sizes.push(bytes.length);
  pieces.bytes.push(bytes);
}

function checkPaths(entries: Entries): void {
  for (const path of entries.keys()) {
    if (Buffer.byteLength(path) <= LIMITS.sharedPathBytes) continue;
    const message = `The path ${path.slice(0, 100)}… is longer than the database of the cluster takes (${LIMITS.sharedPathBytes} bytes). Give its folders shorter names.`;
    throw new SvcError('PAYLOAD_TOO_LARGE', message);
  }
}

/** `late` for what succeeds when it is done again with files and entries as they are then. */
function repeatable(error: unknown): Outcome {
  if (error instanceof NotStored) return error.outcome;
  if (error instanceof Changed || hasMet(error)) return 'late';
  throw error;
}
