/** What the history of the git store costs: publications one after the other, and what a year of them takes on the disk. */
import { execFileSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { LIMITS } from '../../protocol/limits.ts';
import { countLoose } from '../../storage/git/packing.ts';
import { eventually } from '../../testing/waiting.ts';
import { openAuthor, PUBLISHED } from '../author.ts';
import { installAll } from '../compare.ts';
import { type Context, type Scenario, sized, withDaemon } from '../context.ts';
import type { Daemon } from '../daemon.ts';
import { hasGit } from '../git-history.ts';
import { type Finding, fact } from '../measurements.ts';
import { appIds } from './crowd.ts';

const PUBLICATIONS = { full: 400, smoke: 20 };
/** Of a busy gateway. */
const A_YEAR = 365 * 50;
const PACKED_MS = 60_000;
const MIB = 1024 * 1024;

export const historyScenario: Scenario = {
  name: 'history',
  question: 'What do publications leave on the disk, and what does a year of 50 a day?',
  run: async (context) => {
    if (!hasGit()) {
      context.progress('  left out: the git program, which counts the objects, is not there');
      return [];
    }
    const store = join(context.newFolder(), 'code-store');
    const work = async (daemon: Daemon) => {
      const apps = appIds(PUBLISHED);
      await installAll(daemon, apps);
      return await measure(context, daemon, apps, join(store, 'apps.git'));
    };
    return withDaemon(context, work, { config: { appsStoreRoot: store } });
  },
};

async function measure(context: Context, daemon: Daemon, apps: string[], repository: string): Promise<Finding[]> {
  const publications = sized(context, PUBLICATIONS);
  const before = countObjects(repository);
  const author = await openAuthor({ daemon, apps });
  for (let n = 0; n < publications; n++) await author.publishNext();
  await author.close();
  await packed(repository);
  const after = countObjects(repository);
  const objects = (after.loose + after.packed - before.loose - before.packed) / publications;
  const looseBytes = (after.looseBytes / after.loose) * objects;
  const packedBytes = after.packed === 0 ? looseBytes : (after.packedBytes / after.packed) * objects;
  const tagBytes = blocksOf(join(repository, 'refs', 'tags', apps[0] as string, 'v1'));
  const year = A_YEAR * (packedBytes + tagBytes) + LIMITS.gitLooseObjects * (looseBytes / objects);
  const detail = `${publications} publications of one changed file, ${objects.toFixed(1)} objects each; ${after.packed} of ${after.packed + after.loose} objects packed`;
  const size = (name: string, bytes: number): Finding => fact(name, bytes / MIB, 'MiB', detail);
  return [
    size('1,000 publications, loose', 1000 * (looseBytes + tagBytes)),
    size('1,000 publications, packed', 1000 * (packedBytes + tagBytes)),
    size('of that, their tags', 1000 * tagBytes),
    size('a year of 50 publications a day', year),
  ];
}

/** Nobody says when the work in the background is done: until as few are loose as are left loose. */
async function packed(repository: string): Promise<void> {
  const isDone = () => countLoose(repository) < LIMITS.gitLooseObjects + LIMITS.gitPackEvery * 20;
  await eventually(PACKED_MS, isDone);
}

/** Bytes are those of whole blocks. */
function countObjects(repository: string): { loose: number; looseBytes: number; packed: number; packedBytes: number } {
  const text = execFileSync('git', ['-C', repository, 'count-objects', '-v'], { encoding: 'utf8' });
  const of = (name: string): number => Number(new RegExp(`^${name}: (\\d+)`, 'm').exec(text)?.[1] ?? 0);
  const packs = join(repository, 'objects', 'pack');
  const packedBytes = readdirSync(packs).reduce((sum, name) => sum + blocksOf(join(packs, name)), 0);
  return { loose: of('count'), looseBytes: of('size') * 1024, packed: of('in-pack'), packedBytes };
}

function blocksOf(path: string): number {
  return statSync(path).blocks * 512;
}
