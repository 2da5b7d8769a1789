/** `svc convert`: moves the apps of a stopped gateway from the tarball store to the git store. */
import { resolve } from 'node:path';
import { isDiskFull, SvcError } from '../../../protocol/errors.ts';
import { DEFAULTS } from '../../../protocol/limits.ts';
import { plural } from '../../../protocol/text/units.ts';
import { convertToGit, NotSettledError } from '../../../storage/conversion.ts';
import { checkFormat } from '../../../storage/data-format.ts';
import { type CodeStorePaths, Layout } from '../../../storage/layout.ts';
import { reapChildren } from '../../../storage/processes/children.ts';
import { acquireDataLock } from '../../../storage/processes/data-lock.ts';
import { tagOf } from '../../../storage/processes/tagged.ts';
import type { Config } from '../../../supervisor/config.ts';
import { checkStore, GIT_STORE, storeIn } from '../../../supervisor/deployments/store/open-store.ts';
import type { CommandContext } from '../../command.ts';
import { CommandError, UsageError } from '../../failure.ts';
import { shellPath, shortPath } from '../../terminal/paths.ts';
import { readConfig } from './serve-command.ts';

export async function convert(context: CommandContext): Promise<void> {
  const { args, cwd, terminal } = context;
  if (args.text('store') !== 'git')
    throw new UsageError('Apps move to the git store only: svc convert --store git.', 'The only way back is a backup.');
  const file = args.text('config');
  const config: Partial<Config> = file === undefined ? {} : readConfig(resolve(cwd, file));
  const isNamed = args.has('data-dir') || config.dataDir === undefined;
  const dataDir = isNamed ? context.dataDirectory : resolve(cwd, config.dataDir as string);
  const place = shortPath(dataDir, context);
  const serve = `svc serve --data-dir ${shellPath(place)}`;
  const layout = new Layout(dataDir, config.appsDir ?? undefined, config.appsStoreRoot ?? GIT_STORE);
  const paths = layout.codeStore as CodeStorePaths;
  const found = await storeIn(layout);
  if (found === undefined)
    throw new CommandError(`No gateway has run on ${place}.`, `A new one has the git store: ${serve}`);
  const lock = acquireDataLock(layout.lock);
  try {
    await checkFormat(layout);
    await reapChildren(layout.children, tagOf(layout.dataDir));
    if (found !== null) {
      // Finishes a conversion that a crash interrupted.
      await checkStore(new Layout(dataDir, config.appsDir ?? undefined, found));
      terminal.answer({ dataDir, store: 'git', apps: 0, versions: 0 }, () =>
        terminal.done(`${place} has the git store`),
      );
      return;
    }
    const moved = await convertToGit(layout, paths, config.commitAuthor ?? DEFAULTS.commitAuthor);
    terminal.answer({ dataDir, store: 'git', ...moved }, () => {
      terminal.done(
        `${place} has the git store now: ${plural(moved.apps, 'app')}, ${plural(moved.versions, 'version')}`,
      );
      terminal.facts({ data: 'unchanged', next: serve });
    });
  } catch (error) {
    if (error instanceof NotSettledError)
      throw new CommandError(
        error.message,
        `Start the gateway once and stop it again, then convert: ${serve} --store tarball`,
      );
    if (isDiskFull(error))
      throw new SvcError('STORAGE_FULL', 'There is not enough space; free some, then run it again.', { cause: error });
    throw error;
  } finally {
    lock.release();
  }
}
