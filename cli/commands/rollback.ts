/** `svc rollback`: makes an older version live again. */
import { findVersion, showActivated } from '../activation.ts';
import type { ActivateAnswer } from '../api.ts';
import type { CommandContext } from '../command.ts';
import { appPath } from '../paths.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.at(0);
  const named = args.optionalAt(1);
  const request = named === undefined ? {} : { version: await findVersion(client, app, named) };
  showActivated(terminal, await client.post<ActivateAnswer>(appPath(app, '/rollback'), request));
}
