/** `svc activate`: makes a stored version live. */

import type { CommandContext } from '../command.ts';
import { findVersion, showActivated } from '../gateway/activation.ts';
import type { ActivateAnswer } from '../gateway/api.ts';
import { appPath } from '../gateway/paths.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.at(0);
  const versionId = await findVersion(client, app, args.at(1));
  showActivated(terminal, await client.post<ActivateAnswer>(appPath(app, '/activate'), { versionId }));
}
