/** A real file system of 16 MiB (tmpfs) that runs full under a gateway, and has space again. */
import { randomBytes } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Counts } from '../../testing/clients.ts';
import { fill } from '../../testing/full-disk.ts';
import { TestGateway } from '../../testing/gateway.ts';
import { mountSmall, whyNoSmallDisk } from '../../testing/mount.ts';
import { pause, within } from '../../testing/waiting.ts';
import { Ledger, Load, ledgerApp } from '../../testing/write-ledger.ts';
import { Bystanders } from './bystanders.ts';
import type { CampaignContext, CampaignReport } from './campaign.ts';
import { leftovers } from './remains.ts';

const ROUNDS = { full: 10, smoke: 2 };
const SIZE = '16m';
/** An app that nobody has called. */
const COLD = 'cold';
const HEAL_MS = 20_000;

export async function fillSmallDisk(context: CampaignContext, report: CampaignReport): Promise<void> {
  const missing = whyNoSmallDisk();
  if (missing !== null) {
    report.skipped.push(missing);
    return;
  }
  const folder = context.newFolder();
  const mount = join(folder, 'disk');
  const unmount = mountSmall(mount, SIZE);
  const config = join(folder, 'config.json');
  writeFileSync(config, JSON.stringify({ log: 'warn' }));
  const gateway = new TestGateway(join(mount, 'data'), ['--config', config, '--store', 'tarball']);
  try {
    await fillAgainAndAgain(context, gateway, mount, report);
  } finally {
    await gateway.stop();
    unmount();
  }
}

/** SQLite needs 32 KiB to open a database: a full disk has them or the caller hears of it. */
async function readCold(gateway: TestGateway, full: boolean): Promise<string[]> {
  const { status, text } = await gateway.read(COLD, 'count');
  return status === 200 || (full && status === 507) ? [] : [`The first read of an app was answered ${text}`];
}

async function fillAgainAndAgain(
  context: CampaignContext,
  gateway: TestGateway,
  mount: string,
  report: CampaignReport,
): Promise<void> {
  const rounds = context.rounds ?? ROUNDS[context.extent];
  const ledger = new Ledger();
  const outcomes = new Counts();
  const uploads = new Counts();
  let reads = 0;
  await gateway.start();
  for (const app of ['small', 'quiet', COLD]) await gateway.upload(app, ledgerApp(app));
  for (let round = 1; round <= rounds; round++) {
    const violations: string[] = [];
    const load = new Load(gateway, { apps: ['small'], clients: 6, prefix: `t${round}` });
    const bystanders = new Bystanders(gateway, [
      ['small', 'count'],
      ['quiet', 'count'],
    ]);
    await load.more(10);
    await bystanders.start('small');
    const filler = join(mount, 'filler');
    fill(filler);
    await pause(500);
    const upload = await gateway.upload('small', {
      ...ledgerApp('small'),
      'page.html': randomBytes(1024 * 1024).toString('hex'),
    });
    const code = `${upload.status} ${upload.status < 300 ? '' : upload.json.error.code}`;
    uploads.count(code);
    if (code !== '507 STORAGE_FULL') violations.push(`An upload to a full disk was answered ${upload.text}`);
    if (![...load.outcomes.keys()].includes('507 STORAGE_FULL'))
      violations.push(`The disk did not run full: ${load.outcomes.list()}.`);
    violations.push(...(await readCold(gateway, true)), ...leftovers(gateway.dataDir));
    rmSync(filler);
    if ((await within(HEAL_MS, load.more(10))) === 'late')
      violations.push(`No write was acknowledged for ${HEAL_MS} ms after there was space: ${load.outcomes.list()}.`);
    if (!(await bystanders.change(HEAL_MS))) violations.push('The stream of changes says nothing any more.');
    await load.stop();
    await bystanders.stop();
    violations.push(...(await readCold(gateway, false)));
    reads += bystanders.reads;
    for (const [outcome, count] of load.outcomes) {
      outcomes.count(outcome, count);
      if (outcome !== '201' && outcome !== '507 STORAGE_FULL') violations.push(`A write was answered ${outcome}.`);
    }
    ledger.add(load);
    violations.push(...load.violations, ...bystanders.violations, ...ledger.verify(gateway.dataDir).violations);
    report.violations.push(...violations.map((text) => `tmpfs, round ${round}: ${text}`));
    context.progress(`tmpfs of ${SIZE}: ${round} of ${rounds}`);
    if (violations.length > 0) return;
  }
  report.figures.push(
    { name: `tmpfs of ${SIZE}: times run full`, value: String(rounds) },
    { name: 'tmpfs: writes', value: outcomes.list() },
    { name: 'tmpfs: uploads while full', value: uploads.list() },
    { name: 'tmpfs: reads meanwhile, all answered 200', value: String(reads) },
  );
}
