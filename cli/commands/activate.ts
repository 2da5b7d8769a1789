/** `svc activate`: makes a stored version live. */
import { findVersion, showActivated } from '../activation.ts';
import type { ActivateAnswer } from '../api.ts';
import type { CommandContext } from '../command.ts';
import { appPath } from '../paths.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.at(0);
  const versionId = await findVersion(client, app, args.at(1));
  showActivated(terminal, await client.post<ActivateAnswer>(appPath(app, '/activate'), { versionId }));
}
