/** What it costs to keep the files of an app in the database of a cluster: after an edit of one file, and for another node. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Layout } from '../../storage/layout.ts';
import { SharedFiles } from '../../storage/shared-files/shared-files.ts';
import type { Subject } from '../../storage/shared-files/subjects.ts';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { FileTables } from '../../testing/shared-files.ts';
import { type Context, type Scenario, sized } from '../context.ts';
import { type Finding, fact, timed } from '../measurements.ts';
import { median } from '../statistics.ts';

const FILES = { full: [20, 2000], smoke: [20] };
const ROUNDS = { full: 30, smoke: 3 };
const FILE_BYTES = 4096;
const APP = { kind: 'app', id: 'bench' } as const satisfies Subject;
/** After a change within a tick of the file system's clock, a file is read once more. */
const QUIET_MS = 200;

export const sharedFilesScenario: Scenario = {
  name: 'shared-files',
  question:
    'How long does it take to store an edit of one file of an app in the database of a cluster, and to fetch the app?',
  run: async (context) => {
    const why = whyNoPostgres();
    if (why !== null) {
      context.progress(`  left out: ${why}`);
      return [];
    }
    const findings: Finding[] = [];
    for (const files of sized<readonly number[]>(context, FILES)) findings.push(...(await measure(context, files)));
    return findings;
  },
};

async function measure(context: Context, count: number): Promise<Finding[]> {
  const tables = await FileTables.make(await database());
  const node = (): { shared: SharedFiles; code: string } => {
    const layout = new Layout(context.newFolder());
    return { shared: new SharedFiles(layout, tables), code: layout.app(APP.id).versionsDir };
  };
  try {
    const { shared, code } = node();
    for (let n = 0; n < count; n++) {
      const folder = join(code, 'v1', `folder-${n % 50}`);
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, `${n}.js`), randomBytes(FILE_BYTES));
    }
    const first = await timed(() => shared.store(APP, 1));
    const edits: number[] = [];
    const unchanged: number[] = [];
    const fetches: number[] = [];
    let [statements, bytes] = [0, 0];
    for (let round = 0; round < sized(context, ROUNDS); round++) {
      await pause(QUIET_MS);
      await shared.store(APP, 1);
      unchanged.push(await timed(() => shared.store(APP, 1)));
      const before = { ...tables };
      writeFileSync(join(code, 'v1/folder-0/0.js'), randomBytes(FILE_BYTES));
      edits.push(await timed(() => shared.store(APP, 1)));
      statements = tables.statements - before.statements;
      bytes = tables.bytes - before.bytes;
    }
    for (let round = 0; round < 3; round++) fetches.push(await timed(() => node().shared.fetch(APP)));
    const of = `${count} files of 4 KiB`;
    return [
      fact(`first store of ${of}`, first, 'ms', 'of an app that the database does not have'),
      fact(`store after an edit, ${of}`, median(edits), 'ms', `${statements} statement, ${bytes} bytes of content`),
      fact(`store of nothing new, ${of}`, median(unchanged), 'ms', 'asks the file system alone'),
      fact(`fetch of ${of}`, median(fetches), 'ms', 'into an empty folder, each file flushed'),
    ];
  } finally {
    await tables.close();
  }
}
