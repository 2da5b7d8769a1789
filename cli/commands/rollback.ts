/** `svc rollback`: makes an older version live again. */

import type { CommandContext } from '../command.ts';
import { findVersion, showActivated } from '../gateway/activation.ts';
import type { ActivateAnswer } from '../gateway/api.ts';
import { appPath } from '../gateway/paths.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.at(0);
  const named = args.optionalAt(1);
  const request = named === undefined ? {} : { version: await findVersion(client, app, named) };
  showActivated(terminal, await client.post<ActivateAnswer>(appPath(app, '/rollback'), request));
}
