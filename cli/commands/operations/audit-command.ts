/** `svc audit`: who did what to the gateway, the newest first. */
import { LIMITS } from '../../../protocol/limits.ts';
import type { CommandContext } from '../../command.ts';
import { readList, showList } from '../../resource.ts';
import { AUDIT } from '../../resources.ts';

export async function audit({ args, terminal, connect }: CommandContext): Promise<void> {
  const limit = args.number('lines', 1, LIMITS.listRowsMax);
  showList(terminal, AUDIT, (await readList(connect(), AUDIT, [], { limit })).rows);
}
