/** A gateway on a disk that fails when it is told to, with what is changed in it and what was acknowledged by it. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { TestGateway } from '../../testing/gateway.ts';
import type { Random } from '../../testing/random.ts';
import { FaultyDisk } from '../../testing/shim/disk.ts';
import { Ledger, type Load, markedLedgerApp } from '../../testing/write-ledger.ts';
import type { CampaignContext } from './campaign.ts';
import { Changes } from './changes.ts';

export const LEDGERS = ['ledger-a', 'ledger-b'];

export class StruckGateway {
  readonly gateway: TestGateway;
  readonly disk: FaultyDisk;
  readonly random: Random;
  readonly changes: Changes;
  readonly ledger = new Ledger();

  /** `syncDelayUs`: an fsync takes up to this long, and the disk keeps the journal that a power cut needs. */
  constructor(
    { newFolder, random }: CampaignContext,
    {
      config = {},
      store = 'tarball',
      syncDelayUs,
    }: { config?: object; store?: 'tarball' | 'git'; syncDelayUs?: number },
  ) {
    const folder = newFolder();
    const dataDir = join(folder, 'data');
    const configFile = join(folder, 'config.json');
    writeFileSync(configFile, JSON.stringify({ log: 'warn', ...config }));
    this.random = random.fork();
    this.disk = new FaultyDisk(dataDir, join(folder, 'disk'));
    this.gateway = new TestGateway(dataDir, ['--config', configFile, '--store', store], this.disk.env);
    this.changes = new Changes(this.gateway, this.disk.env, this.random.fork());
    if (syncDelayUs !== undefined) this.disk.keepJournal(syncDelayUs);
  }

  /** Puts the ledgers and these apps into it. It must run. */
  async install(more: Record<string, Record<string, string | Buffer>> = {}): Promise<void> {
    const ledgers = LEDGERS.map((id) => [id, markedLedgerApp(id)] as const);
    for (const [id, files] of [...ledgers, ...Object.entries(more)]) {
      const { status, text } = await this.gateway.upload(id, files);
      if (status !== 201) throw new Error(`The upload of ${id} was answered ${text}.`);
    }
  }

  /** What a load that has stopped was told, with all before it, compared with what is stored. */
  compare(load: Load) {
    this.ledger.add(load);
    return this.ledger.verify(this.gateway.dataDir);
  }

  async end(): Promise<void> {
    this.disk.strike([]);
    await this.gateway.stop();
    this.disk.close();
  }
}
