/** Asks the process that holds the windows of a data directory (`main.ts`), and starts it where there is none. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Layout } from '../../storage/layout.ts';
import { socketFolderAt } from '../../storage/processes/socket-folder.ts';
import { entryPoint } from '../../supervisor/tree/entry-points.ts';
import type { Browser } from './browsers.ts';
import { type Answer, type Request, SOCKET } from './messages.ts';
import type { Page, Shown } from './windows.ts';

/** How often another process that starts the windows at this moment is waited for, and for how long. */
const TRIES = 40;
const TRY_MS = 250;

/** Opens a window, or brings the one that shows this page to the front. Rejects with the browser's own words. */
export async function showWindow(
  layout: Layout,
  { program, profile }: Browser,
  page: Page,
  env: NodeJS.ProcessEnv,
): Promise<Shown> {
  for (let tries = 1; ; tries++) {
    const answer = await ask(layout, { show: page });
    if (answer !== null && 'shown' in answer) return answer.shown;
    if (answer !== null && 'error' in answer) throw new Error(answer.error);
    if (tries > TRIES) throw new Error('The process that holds the windows does not answer.');
    const holder = fork(entryPoint('window'), [program, profile, layout.dataDir], {
      detached: true,
      stdio: 'ignore',
      execArgv: [],
      env,
    });
    const [first] = (await Promise.race([once(holder, 'message'), once(holder, 'exit')])) as [unknown];
    holder.unref();
    if (holder.connected) holder.disconnect();
    // Another process has started them meanwhile, and will listen.
    if (typeof first === 'number') await new Promise((resolve) => setTimeout(resolve, TRY_MS));
  }
}

/** Closes all windows; false where there are none. */
export async function closeWindows(layout: Layout): Promise<boolean> {
  return (await ask(layout, { close: true })) !== null;
}

/** Null when nobody listens. */
async function ask(layout: Layout, request: Request): Promise<Answer | null> {
  const folder = socketFolderAt(layout.window);
  if (folder === null) return null;
  const socket = createConnection(join(folder, SOCKET));
  try {
    await once(socket, 'connect');
    socket.end(JSON.stringify(request));
    return JSON.parse(await text(socket)) as Answer;
  } catch {
    socket.destroy();
    return null;
  }
}
