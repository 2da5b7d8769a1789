/** `svc rollback`: makes an older version live again. */
import { activateVersion, findVersion } from '../activation.ts';
import type { VersionRecord } from '../api.ts';
import type { CommandContext } from '../command.ts';
import { CommandError } from '../failure.ts';
import { appPath } from '../paths.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.at(0);
  const named = args.optionalAt(1);
  const versions = named === undefined ? await client.get<VersionRecord[]>(appPath(app, '/versions')) : [];
  const target = named === undefined ? versionBefore(versions, app) : await findVersion(client, app, named);
  await activateVersion(client, terminal, app, target);
}

/** The newest version that is older than the live one; `versions` are newest first. */
function versionBefore(versions: VersionRecord[], app: string): string {
  const live = versions.findIndex(({ active }) => active);
  const before = versions[live + 1];
  if (live < 0)
    throw new CommandError(`"${app}" has no live version to go back from.`, `Name one: svc versions ${app}`);
  if (before === undefined)
    throw new CommandError(`No older version of "${app}" is stored.`, `What is stored: svc versions ${app}`);
  return before.versionId;
}
