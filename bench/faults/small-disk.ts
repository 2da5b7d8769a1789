/** A real file system of 16 MiB (tmpfs) that runs full under a gateway, and has space again. */
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { outcomeOf } from '../../testing/clients.ts';
import { fill } from '../../testing/full-disk.ts';
import { mountSmall, whyNoSmallDisk } from '../../testing/mount.ts';
import { pause } from '../../testing/waiting.ts';
import { Ledger, markedLedgerApp } from '../../testing/write-ledger.ts';
import type { CampaignContext } from './campaign.ts';
import { beginRound, type Subjects } from './disk-round.ts';
import { leftovers } from './stored.ts';

const ROUNDS = { full: 10, smoke: 2 };
const SIZE = '16m';
/** An app that nobody has called. */
const COLD = 'cold';
const FULL = '507 STORAGE_FULL';

export async function fillSmallDisk(context: CampaignContext): Promise<void> {
  const { report, progress } = context;
  const missing = whyNoSmallDisk();
  if (missing !== null) {
    report.skipped.push(missing);
    return;
  }
  const folder = context.newFolder();
  const mount = join(folder, 'disk');
  const unmount = mountSmall(mount, SIZE);
  const gateway = context.newGateway({ env: { TMPDIR: folder } }, mount);
  const readCold = async (expected: RegExp): Promise<string[]> => {
    const answer = await gateway.read(COLD, 'count');
    return expected.test(outcomeOf(answer)) ? [] : [`The first read of an app was answered ${answer.text}`];
  };
  try {
    const rounds = context.rounds ?? ROUNDS[context.extent];
    const filler = join(mount, 'filler');
    const page = { 'page.html': randomBytes(1024 * 1024).toString('hex') };
    await gateway.start();
    for (const app of ['small', 'quiet', COLD]) await gateway.install(app, markedLedgerApp(app));
    const queries: Subjects['queries'] = [
      ['small', 'count'],
      ['quiet', 'count'],
    ];
    const subjects: Subjects = { gateway, ledger: new Ledger(), apps: ['small'], queries };
    const before = report.violations.length;
    for (let number = 1; number <= rounds && report.violations.length === before; number++) {
      const round = await beginRound(subjects, number);
      const { outcomes } = round.load;
      fill(filler);
      await pause(500);
      const upload = await gateway.upload('small', { ...markedLedgerApp('small'), ...page });
      report.add(`tmpfs: uploads while full: ${outcomeOf(upload)}`);
      if (outcomeOf(upload) !== FULL) round.violated(`An upload to a full disk was answered ${upload.text}`);
      if (!outcomes.has(FULL)) round.violated(`The disk did not run full: ${outcomes.list()}.`);
      // SQLite needs 32 KiB to open a database: a full disk has them or the caller hears of it.
      round.violated(await readCold(/^(200|507 )/));
      round.violated(leftovers(gateway.dataDir));
      rmSync(filler);
      await round.heal();
      round.violated(await readCold(/^200/));
      await round.end(`tmpfs, round ${number}`, report, { allowed: /^(201|507 STORAGE_FULL)$/ });
      report.addAll('tmpfs: writes', outcomes);
      report.add(`tmpfs of ${SIZE}: times run full`);
      progress(`tmpfs of ${SIZE}: ${number} of ${rounds}`);
    }
  } finally {
    await gateway.stop();
    unmount();
  }
}
