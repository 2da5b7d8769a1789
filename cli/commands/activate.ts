/** `svc activate`: makes a stored version live. */
import { activateVersion, findVersion } from '../activation.ts';
import type { CommandContext } from '../command.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.at(0);
  await activateVersion(client, terminal, app, await findVersion(client, app, args.at(1)));
}
