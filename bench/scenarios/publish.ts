/** Authoring on the git store: how long a publication takes, how soon a draft shows an edit, what calls of other apps notice. */
import { join } from 'node:path';
import { type Author, css, openAuthor, reloaded } from '../author.ts';
import { installAll } from '../compare.ts';
import { type Context, type Scenario, sized } from '../context.ts';
import { Daemon } from '../daemon.ts';
import { hasGit, writeHistory } from '../git-history.ts';
import { type Finding, fact, type LoadMeasurement } from '../measurements.ts';
import { formatInterval, median, middleFactor, percentile } from '../statistics.ts';
import { appIds } from './crowd.ts';
import { neighbours } from './publish-neighbours.ts';

/** A store, by its registered apps and the commits that were there before they were. */
type Size = { apps: number; commits: number };
const SIZES: { full: Size[]; smoke: Size[] } = {
  full: [
    { apps: 200, commits: 10_000 },
    { apps: 10, commits: 100 },
  ],
  smoke: [
    { apps: 6, commits: 30 },
    { apps: 6, commits: 6 },
  ],
};

const WARM_UPS = 3;
/** Publications of each store and edits of each kind, at least; more when there is time. */
const TIMES = { full: 20, smoke: 2 };
/** First publications after a start. */
const STARTS = { full: 5, smoke: 1 };

type Store = { name: string; dataDir: string; apps: string[]; daemon: Daemon };

export const publishScenario: Scenario = {
  name: 'publish',
  question:
    'How long does a publication take, how soon does a draft show an edit, and what do calls of other apps notice?',
  run: async (context) => {
    if (!hasGit()) {
      context.progress('  left out: the git program, which writes the history to measure with, is not there');
      return [];
    }
    const stores: Store[] = [];
    try {
      for (const size of sized(context, SIZES)) {
        const name = `${size.apps} apps, ${size.commits.toLocaleString('en')} commits`;
        context.progress(`  making a store of ${name}`);
        stores.push(await makeStore(context, name, size));
      }
      const [large, small] = stores as [Store, Store];
      const measurements: (LoadMeasurement | Finding)[] = [
        ...(await firstPublications(context, large)),
        ...(await publications(context, large, small)),
      ];
      await small.daemon.stop();
      return [...measurements, ...(await drafts(context, large)), ...(await neighbours(context, large))];
    } finally {
      await Promise.all(stores.map(({ daemon }) => daemon.stop()));
    }
  },
};

/** The history first: the uploads then add a version to each of its apps, as they would to one that was removed and is back. */
async function makeStore(context: Context, name: string, { apps: count, commits }: Size): Promise<Store> {
  const dataDir = context.newFolder();
  const apps = appIds(count);
  await (await startOn(context, dataDir)).stop();
  await writeHistory(join(codeStore(dataDir), 'apps.git'), { apps, commits });
  const daemon = await startOn(context, dataDir);
  try {
    await installAll(daemon, apps);
  } catch (error) {
    await daemon.stop();
    throw error;
  }
  return { name, dataDir, apps, daemon };
}

function startOn({ config, profileDir }: Context, dataDir: string): Promise<Daemon> {
  return Daemon.start({ dataDir, config: { ...config, appsStoreRoot: codeStore(dataDir) }, profileDir });
}

function codeStore(dataDir: string): string {
  return join(dataDir, 'code-store');
}

/** What the first publication after a start takes, when no job thread has done one yet. */
async function firstPublications(context: Context, store: Store): Promise<Finding[]> {
  const times: number[] = [];
  const runs = sized(context, STARTS);
  for (let run = 0; run < runs; run++) {
    await store.daemon.stop();
    store.daemon = await startOn(context, store.dataDir);
    const author = await openAuthor(store);
    times.push(await author.publishNext());
    await author.close();
  }
  const detail = `${store.name}; the file was put just before; median of ${runs} starts`;
  return [fact('first publication after a start', median(times), 'ms', detail)];
}

async function publications(context: Context, ...stores: [Store, Store]): Promise<Finding[]> {
  const authors = await Promise.all(stores.map((store) => openAuthor(store)));
  for (let i = 0; i < WARM_UPS; i++) for (const author of authors) await author.publishNext();
  const times: number[][] = stores.map(() => []);
  const [large, small] = times as [number[], number[]];
  await inTurns(context, async (turn) => {
    for (const at of turn % 2 === 0 ? [0, 1] : [1, 0]) times[at]?.push(await (authors[at] as Author).publishNext());
  });
  for (const author of authors) await author.close();
  const quotient = median(large) / median(small);
  const factor = middleFactor(large.map((ms, i) => ms / (small[i] as number)));
  return [
    ...stores.flatMap(({ name }, i) => {
      const where = i === 0 ? 'large store' : 'small store';
      const own = times[i] ?? [];
      const said = `${name}; one changed file, ${own.length} publications`;
      return [
        fact(`publication, ${where}, p50`, median(own), 'ms', said),
        fact(`publication, ${where}, p99`, percentile(own, 0.99), 'ms', said),
      ];
    }),
    fact(
      'publication, large of small store, p50',
      quotient,
      '×',
      `${large.length} publications of each in turns; of neighbours ${formatInterval(factor)}`,
    ),
  ];
}

/** From an edit to the `reload` of an open draft, and to the preview that shows it, as a browser then asks for it. */
async function drafts(context: Context, { daemon, dataDir, apps, name }: Store): Promise<Finding[]> {
  const app = apps[0] as string;
  const author = await openAuthor({ daemon, apps });
  await author.edit(app, css('first'));
  await author.shows(app, css('first'));
  const events = await author.changes(app);
  const editBy = (how: string, edit: (text: string) => Promise<void>) => {
    return { how, edit, reloads: [] as number[], shown: [] as number[] };
  };
  const edits = [
    editBy('PUT', (text) => author.edit(app, text)),
    editBy('a write into the worktree', (text) => author.write(codeStore(dataDir), app, text)),
  ];
  const editOnce = async ({ how, edit, reloads, shown }: (typeof edits)[number], turn: number): Promise<void> => {
    const text = css(`${how} ${turn}`);
    const startedAt = performance.now();
    const edited = edit(text);
    await reloaded(events);
    const reload = performance.now() - startedAt;
    await author.shows(app, text);
    const preview = performance.now() - startedAt;
    await edited;
    // Before the first turn code gets compiled.
    if (turn < 0) return;
    reloads.push(reload);
    shown.push(preview);
  };
  for (let i = 0; i < WARM_UPS; i++) for (const one of edits) await editOnce(one, -1 - i);
  await inTurns(context, async (turn) => {
    for (const one of edits) await editOnce(one, turn);
  });
  events.close();
  await author.close();
  return edits.flatMap(({ how, reloads, shown }) => {
    const detail = `${name}; ${reloads.length} edits of a style sheet`;
    return [
      fact(`${how} to reload, p50`, median(reloads), 'ms', detail),
      fact(`${how} to reload, p99`, percentile(reloads, 0.99), 'ms', detail),
      fact(`${how} to the new preview, p50`, median(shown), 'ms', detail),
    ];
  });
}

/** As often as it must be, and then for as long as the run's seconds are. */
async function inTurns(context: Context, once: (turn: number) => Promise<void>): Promise<void> {
  const times = sized(context, TIMES);
  const until = performance.now() + context.options.seconds * 1000;
  for (let turn = 0; turn < times || performance.now() < until; turn++) await once(turn);
}
