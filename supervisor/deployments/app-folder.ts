/** The folder of an app as deployments make it, mark it, and take back what they put into it. */
import { exists, mkdirDurable, removeDurable, renameDurable, writeFileAtomic } from '../../storage/atomic-file.ts';
import { AppPaths, type Layout } from '../../storage/layout.ts';
import { moveToTrash, purgeApp } from '../../storage/trash.ts';

/** The folder of a new app, which a crash before it is registered leaves marked as nobody's: there with the mark, or not. */
export async function makeFolder(app: AppPaths, staged: string): Promise<void> {
  const { dir, disposable } = new AppPaths(staged);
  await mkdirDurable(dir);
  await writeFileAtomic(disposable, '');
  await renameDurable(dir, app.dir);
}

/** A folder of an app that is not registered was left by a crash, in a first upload or a removal. Nobody may use it any more. */
export async function clearFolder(layout: Layout, id: string, now: number): Promise<void> {
  // A first upload or a purge that was cut off marked it as holding nothing that anybody wants back.
  if (await exists(layout.app(id).disposable)) await purgeApp(layout, id);
  else await moveToTrash(layout, id, now);
}

/** The app and its versions stay as they are, whatever was under way. */
export async function removeMarks(app: AppPaths): Promise<void> {
  for (const mark of [app.incoming, app.disposable]) if (await exists(mark)) await removeDurable(mark);
}
