/** A gateway on a disk that fails when it is told to, with what is changed in it and what was acknowledged by it. */
import { join } from 'node:path';
import type { StartOptions, TestGateway } from '../../testing/gateway.ts';
import type { Random } from '../../testing/random.ts';
import { FaultyDisk } from '../../testing/shim/disk.ts';
import { Ledger, markedLedgerApp } from '../../testing/write-ledger.ts';
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
  constructor(context: CampaignContext, { syncDelayUs, ...options }: StartOptions & { syncDelayUs?: number }) {
    const folder = context.newFolder();
    this.random = context.random.fork();
    this.disk = new FaultyDisk(join(folder, 'data'), join(folder, 'disk'));
    this.gateway = context.newGateway({ ...options, env: this.disk.env }, folder);
    this.changes = new Changes(this.gateway, this.disk.env, this.random.fork());
    if (syncDelayUs !== undefined) this.disk.keepJournal(syncDelayUs);
  }

  /** Starts it, and puts the ledgers into it. */
  async start(): Promise<void> {
    await this.gateway.start();
    for (const id of LEDGERS) await this.gateway.install(id, markedLedgerApp(id));
  }
}
