/** A gateway on a disk that fails when it is told to, with what is changed in it and what was acknowledged by it. */
import { join } from 'node:path';
import type { StartOptions } from '../../testing/gateway.ts';
import { FaultyDisk } from '../../testing/shim/disk.ts';
import { Ledger, markedLedgerApp } from '../../testing/write-ledger.ts';
import type { CampaignContext } from './campaign.ts';
import { Changes } from './changes.ts';

export const LEDGERS = ['ledger-a', 'ledger-b'];

/**
 * `syncDelayUs`: an fsync takes up to this long, and the disk keeps the journal that a power cut needs. `start` also puts the ledgers
 * into it.
 */
export function struckGateway(
  context: CampaignContext,
  { syncDelayUs, ...options }: StartOptions & { syncDelayUs?: number },
) {
  const folder = context.newFolder();
  const random = context.random.fork();
  const disk = new FaultyDisk(join(folder, 'data'), join(folder, 'disk'));
  const gateway = context.newGateway({ ...options, env: disk.env }, folder);
  const changes = new Changes(gateway, disk.env, random.fork());
  if (syncDelayUs !== undefined) disk.keepJournal(syncDelayUs);
  const start = async () => {
    await gateway.start();
    for (const id of LEDGERS) await gateway.install(id, markedLedgerApp(id));
  };
  return { gateway, disk, random, changes, ledger: new Ledger(), start };
}
