/**
 * Runs operations of git on this node's copy of the cluster's repository: brings the copy up to date before, and the cluster after
 * (specification, "Code in the cluster").
 */
import { randomUUID } from 'node:crypto';
import { appendFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { GitOperation } from '../../protocol/wire/git-jobs.ts';
import type { Fence, NameChange, Names, SharedRepository } from '../../storage/cluster/shared-repository.ts';
import { inParallel, readJson, writeFileAtomic } from '../../storage/files/atomic-file.ts';
import { Refs } from '../../storage/git/refs.ts';
import { recordOf, recordsIn } from '../../storage/git/transfer.ts';
import type { CodeStorePaths } from '../../storage/layout.ts';
import type { Pieces } from '../../storage/shared-files/tables.ts';
import { ConfigError } from '../config.ts';
import type { Git } from '../deployments/store/git-operations.ts';
import { SerialByKey } from '../serial.ts';

const MOVING: ReadonlySet<GitOperation> = new Set([
  'openRepository',
  'settle',
  'tagOnly',
  'retire',
  'revive',
  'branch',
] as const);
/** They change nothing that others have. */
const OWN: ReadonlySet<GitOperation> = new Set(['packLoose', 'writeObjects', 'takeObjects'] as const);
/** How often an operation is done again because another node was faster. */
const TRIES = 50;
const NAMES = 'refs/';
const AT_ONCE = 16;
const NOTHING: Names = new Map();

type SharedGitOptions = {
  /** The name of this node. */
  node: string;
  shared: SharedRepository;
  paths: CodeStorePaths;
  tmpDir: string;
  /** Operations on this node's copy alone. */
  git: Git;
  /** What must still be so when the names of an app change. Throws `STORAGE_UNAVAILABLE` where that is over. */
  fenceOf(app: string): Fence;
};

export class SharedGit {
  readonly #options: SharedGitOptions;
  readonly #refs: Refs;
  readonly #serial = new SerialByKey();
  /** Of the last change that the copy has; null until that was read. */
  #number: number | null = null;
  /** As that change left them. */
  #names: Names = NOTHING;
  /** The names of the copy may be others: the cluster has not confirmed a change. */
  #isAhead = true;

  constructor(options: SharedGitOptions) {
    this.#options = options;
    this.#refs = new Refs(options.paths.repository);
  }

  /** Rejects as the operation does, with `STORAGE_UNAVAILABLE`, and with `CONFLICT` where other nodes are always faster. */
  readonly run: Git = async (operation, job) => {
    const { git } = this.#options;
    if (MOVING.has(operation)) return this.#serial.run('', () => this.#move(operation, job));
    if (!OWN.has(operation)) await this.refresh();
    return git(operation, job);
  };

  /** Resolves when the copy has all that was changed before the call. */
  async refresh(): Promise<void> {
    if (!this.#isAhead && (await this.#options.shared.number()) === this.#number) return;
    await this.#serial.run('', () => this.#bring());
  }

  /** Resolves when other nodes can have the commit, before any name leads to it. */
  async share(app: string, commit: string): Promise<void> {
    await this.#serial.run('', async () => {
      await this.#bring();
      await this.#push([], [commit], this.#options.fenceOf(app));
    });
  }

  async #move<O extends GitOperation>(operation: O, job: Parameters<Git>[1]): ReturnType<typeof this.run<O>> {
    for (let tries = 1; ; tries++) {
      await this.#bring();
      const before = this.#names;
      this.#isAhead = true;
      const result = await this.#options.git(operation, job as Parameters<typeof this.run<O>>[1]);
      const after = this.#refs.list(NAMES);
      const changes = changesOf(before, after);
      const tips = changes.flatMap(({ to }) => to ?? []);
      if (changes.length === 0 || (await this.#push(changes, tips, this.#fenceOf(job)))) {
        this.#names = after;
        this.#isAhead = false;
        return result;
      }
      if (tries === TRIES) throw new SvcError('CONFLICT', 'Other nodes change the git repository; try again.');
    }
  }

  #fenceOf(job: object): Fence | null {
    const { app, tag } = job as { app?: string; tag?: { name: string } | string | null };
    const [named] = typeof tag === 'object' && tag !== null ? tag.name.split('/', 1) : [];
    const id = app ?? named;
    return id === undefined ? null : this.#options.fenceOf(id);
  }

  /** Makes the copy what the cluster has. A cluster that has nothing yet gets what the copy has with the next change. */
  async #bring(): Promise<void> {
    const { shared, paths } = this.#options;
    this.#number ??= await numberIn(paths.shared);
    if (!this.#isAhead && (await shared.number()) === this.#number) return;
    const { number, names } = await shared.names();
    if (number > 0) {
      await this.#take(this.#number, number);
      await this.#setNames(names);
    } else await this.#checkFirst();
    await this.#note(number, names);
    this.#isAhead = false;
  }

  async #checkFirst(): Promise<void> {
    const { shared, node } = this.#options;
    const first = (await shared.beginner()) ?? node;
    if (first === node) return;
    throw new ConfigError(
      `The node ${first} began the cluster and has not sent its git repository yet. Start it first, on its data directory.`,
      'cluster',
    );
  }

  async #take(from: number, to: number): Promise<void> {
    if (from === to) return;
    await this.#withFile(async (file) => {
      // It may be a change of names alone.
      await writeFile(file, '', { mode: 0o600 });
      for await (const { id, packed } of this.#options.shared.objects(from, to))
        await appendFile(file, recordOf(id, packed));
      await this.#options.git('takeObjects', { from: file });
    });
  }

  async #setNames(names: Names): Promise<void> {
    const there = this.#refs.any() ? this.#refs.list(NAMES) : NOTHING;
    const changed = [...names].filter(([name, id]) => there.get(name) !== id);
    await inParallel(changed, AT_ONCE, ([name, id]) => this.#refs.put(name, id));
    const gone = [...there.keys()].filter((name) => !names.has(name));
    if (gone.length > 0) await this.#refs.remove(gone);
  }

  /** False where a name stands for something else meanwhile. */
  async #push(changes: readonly NameChange[], tips: string[], fence: Fence | null): Promise<boolean> {
    const { shared, git } = this.#options;
    const known = [...new Set(this.#names.values())];
    const ids = await this.#withFile(async (file) => {
      const written = (await git('writeObjects', { tips, known, to: file })).ids;
      const missing = await shared.missing(written);
      await this.#send(file, missing);
      return written;
    });
    const number = await shared.change(changes, ids, fence);
    // After those of others the copy lacks what they added.
    if (number !== null && number === (this.#number ?? 0) + 1) await this.#note(number, this.#names);
    return number !== null;
  }

  async #send(file: string, missing: ReadonlySet<string>): Promise<void> {
    const { shared } = this.#options;
    let pieces: Pieces = { hashes: [], numbers: [], sizes: [], bytes: [] };
    let size = 0;
    const flush = async (): Promise<void> => {
      if (pieces.hashes.length > 0) await shared.put(pieces);
      pieces = { hashes: [], numbers: [], sizes: [], bytes: [] };
      size = 0;
    };
    for await (const { id, packed } of recordsIn(file)) {
      if (!missing.has(id)) continue;
      for (let number = Math.ceil(packed.length / LIMITS.sharedPieceBytes) - 1; number >= 0; number--) {
        const from = number * LIMITS.sharedPieceBytes;
        const bytes = packed.subarray(from, from + LIMITS.sharedPieceBytes);
        if (size + bytes.length > LIMITS.sharedPieceBytes) await flush();
        pieces.hashes.push(id);
        pieces.numbers.push(number);
        pieces.sizes.push(bytes.length);
        pieces.bytes.push(bytes);
        size += bytes.length;
      }
    }
    await flush();
  }

  async #note(number: number, names: Names): Promise<void> {
    this.#names = names;
    if (number === this.#number) return;
    await writeFileAtomic(this.#options.paths.shared, `${JSON.stringify({ number })}\n`);
    this.#number = number;
  }

  /** A file on the way to or from a job, which is gone when `work` has ended. */
  async #withFile<T>(work: (file: string) => Promise<T>): Promise<T> {
    const file = join(this.#options.tmpDir, `objects-${randomUUID()}`);
    try {
      return await work(file);
    } finally {
      await rm(file, { force: true });
    }
  }
}

async function numberIn(file: string): Promise<number> {
  const { number } = ((await readJson(file, null)) ?? {}) as { number?: unknown };
  return typeof number === 'number' ? number : 0;
}

function changesOf(before: Names, after: Names): NameChange[] {
  const names = new Set([...before.keys(), ...after.keys()]);
  return [...names].flatMap((name) => {
    const [from, to] = [before.get(name) ?? null, after.get(name) ?? null];
    return from === to ? [] : { name, from, to };
  });
}
