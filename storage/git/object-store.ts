/** Reads and writes the objects of one repository during one job; isomorphic-git reads and makes packs. */
import { readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { deflateSync, inflateSync, constants as zlib } from 'node:zlib';
import { LIMITS } from '../../protocol/limits.ts';
import { isMissing } from '../files/atomic-file.ts';
import { DurableFs, type PackCache } from './durable-fs.ts';
import {
  damagedObject,
  type GitObject,
  isObjectType,
  type ObjectType,
  objectId,
  unwrapObject,
  wrapObject,
} from './object.ts';

/** What git itself takes for loose objects: written once, and compressed well when they are packed. */
const LEVEL = zlib.Z_BEST_SPEED;
/** There even where it is not stored. */
const EMPTY_TREE = objectId('tree', Buffer.alloc(0));
/** Loaded when an object is first searched in packs: it is half a megabyte, and many repositories have no packs. */
const library = () => import('isomorphic-git');
/** Commits and trees that are remembered. */
const KNOWN = 500;
/** How often an object is looked for while its packs are replaced. */
const LOOKS = 20;

export class ObjectStore {
  readonly #gitdir: string;
  readonly #fs: DurableFs;
  #cache: object;
  /** Commits and trees that were read: a job asks for the same few again and again. */
  readonly #known = new Map<string, GitObject>();

  constructor(repository: string) {
    this.#gitdir = repository;
    const kept = packCache(repository);
    this.#fs = new DurableFs(repository, kept);
    this.#cache = kept.cache;
  }

  /** Whether it is there; of those in packs, whether it can be read. */
  async has(id: string): Promise<boolean> {
    for (let looks = 1; ; looks++) {
      const packs = packsOf(this.#gitdir);
      try {
        if (this.#fs.readLoose(id) !== null) return true;
        // Only now: it may have been packed meanwhile.
        if (!hasPacks(this.#gitdir)) return false;
        const { format } = await (await library()).readObject({ ...this.#on(), oid: id, format: 'deflated' });
        // Git knows the empty tree even when it is not stored.
        return format !== 'wrapped';
      } catch (error) {
        // Its pack may have been replaced while it was looked for.
        const isAbsent = (error as { code?: unknown }).code === 'NotFoundError' || looks === LOOKS;
        if (isAbsent || (packs !== '' && packs === packsOf(this.#gitdir))) return false;
        this.#cache = {};
      }
    }
  }

  /** Rejects with `STORE_DAMAGED` and the id when it is missing, unreadable, or does not match its id. */
  async read(id: string): Promise<GitObject> {
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const object = await this.#read(id).catch((error: unknown) => this.#readAgain(id, error));
    // isomorphic-git does not check this for objects from packs.
    if (objectId(object.type, object.content) !== id) throw damagedObject(id, 'is not what its name says');
    if (object.type === 'commit' || object.type === 'tree') {
      if (this.#known.size === KNOWN) this.#known.clear();
      this.#known.set(id, object);
    }
    return object;
  }

  /** The content of an object of this type. Rejects with `STORE_DAMAGED`. */
  async readAs(type: ObjectType, id: string): Promise<Buffer> {
    const object = await this.read(id);
    if (object.type !== type) throw damagedObject(id, `is a ${object.type} where a ${type} belongs`);
    return object.content;
  }

  /** Takes the object and returns its id; it is durable after the next `sync`. */
  async put(type: ObjectType, content: Buffer): Promise<string> {
    const id = objectId(type, content);
    if (this.#fs.freshen(id)) return id;
    if (await this.has(id)) {
      this.#fs.freshenPacks();
      return id;
    }
    this.#fs.stage(id, deflateSync(wrapObject(type, content), { level: LEVEL }));
    return id;
  }

  /** Makes everything durable that was put. */
  async sync(): Promise<void> {
    await this.#fs.flush();
  }

  /** These objects as a packfile. Rejects with `STORE_DAMAGED`. */
  async pack(ids: Iterable<string>): Promise<Uint8Array> {
    const { packfile } = await (await library()).packObjects({ ...this.#on(), oids: [...ids] });
    if (packfile === undefined) throw new Error('isomorphic-git made no pack.');
    return packfile;
  }

  async #read(id: string): Promise<GitObject> {
    if (id === EMPTY_TREE) return { type: 'tree', content: Buffer.alloc(0) };
    const loose = this.#fs.readLoose(id);
    if (loose !== null) return unwrapObject(inflateSync(loose));
    const { format, type, object } = await (await library()).readObject({ ...this.#on(), oid: id, format: 'deflated' });
    const bytes = Buffer.from(object as Uint8Array);
    if (format === 'deflated') return unwrapObject(inflateSync(bytes));
    if (format === 'wrapped') return unwrapObject(bytes);
    if (!isObjectType(type)) throw new Error(`It is of the type ${type}.`);
    return { type, content: bytes };
  }

  /**
   * It may have been packed, or repacked, between two looks, and again between the next two: it counts as missing only once the
   * packs have stayed the same. And a damaged pack may still hold it whole.
   */
  async #readAgain(id: string, first: unknown): Promise<GitObject> {
    this.#fs.salvage();
    for (let looks = 1; ; looks++) {
      const packs = packsOf(this.#gitdir);
      this.#cache = {};
      try {
        return await this.#read(id);
      } catch (error) {
        const areSame = packs !== '' && packs === packsOf(this.#gitdir);
        if (!areSame && looks < LOOKS) continue;
        const isGone = (error as { code?: unknown }).code === 'NotFoundError';
        throw damagedObject(id, isGone ? 'is missing' : 'cannot be read', isGone ? first : error);
      }
    }
  }

  #on(): { fs: DurableFs; gitdir: string; cache: object } {
    return { fs: this.#fs, gitdir: this.#gitdir, cache: this.#cache };
  }
}

/** For the repository that was used last. */
let kept: PackCache = { packs: '', bytes: 0, cache: {} };

/**
 * isomorphic-git's cache of packs, kept between the jobs of a thread; emptied when any pack changed. Without it every job reads
 * and checks whole packs and parses their indexes: 50 to 100 ms with 60,000 objects.
 */
function packCache(repository: string): PackCache {
  const packs = packsOf(repository);
  if (kept.packs !== packs || kept.bytes > LIMITS.gitPackCacheBytes) kept = { packs, bytes: 0, cache: {} };
  return kept;
}

/** Whether there is a pack, or one that git is adding or removing. */
function hasPacks(repository: string): boolean {
  const packs = packsOf(repository);
  return packs === '' || packs.includes('\n');
}

/** Identifies the set of packs: changes whenever one of them does, empty while git removes one. */
function packsOf(repository: string): string {
  const dir = join(resolve(repository), 'objects', 'pack');
  const lines = [dir];
  try {
    for (const name of readdirSync(dir).sort()) {
      if (!/\.(?:idx|pack)$/.test(name)) continue;
      const { size, mtimeMs, ino } = statSync(join(dir, name));
      lines.push(`${name} ${size} ${mtimeMs} ${ino}`);
    }
  } catch (error) {
    // Git is removing this pack, so nothing of it is cached.
    if (!isMissing(error)) throw error;
    return '';
  }
  return lines.join('\n');
}
