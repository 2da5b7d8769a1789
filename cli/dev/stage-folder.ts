/** Copies an app folder into a workspace, like `svc dev --once`, to publish it from there. */
import type { ErrorBody } from '../../protocol/errors.ts';
import { GatewayError } from '../../protocol/http/gateway-error.ts';
import type { CommandContext } from '../command.ts';
import { shellPath, shortPath } from '../terminal/paths.ts';
import { contentOf, readAppId, scanAppFolder } from './app-folder.ts';
import { DraftFollower } from './draft-follower.ts';
import { confirmOlder, mayReplace, readOrigin, versionsOf } from './folder-origin.ts';

/** A sync that takes longer shows its progress, in milliseconds. */
export const UNSEEN_MS = 300;

/** The workspace of a folder's app, unless one is named. */
export function workspaceOf(app: string, named: string | undefined): string {
  return named ?? `dev-${app}`.slice(0, 64);
}

/**
 * Returns the app, the workspace that has its files now, and what follows the folder; `taken` are the files that it took from the
 * workspace so far. Throws the error that publishing would end with,
 * and `WOULD_REPLACE` unless a person agrees to publish the files of an older version.
 */
export async function stageFolder(
  context: CommandContext,
  folder: string,
): Promise<{ app: string; workspace: string; draft: DraftFollower; taken: string[] }> {
  const { connect, terminal, args, subject } = context;
  const app = readAppId(folder);
  subject.app = app;
  const shown = shortPath(folder, context);
  // Without a slash it would be the id of an app.
  subject.dir = shellPath(/^[.~/]|\//.test(shown) ? shown : `./${shown}`);
  const workspace = workspaceOf(app, args.text('workspace'));
  const client = connect();
  const content = () => contentOf(folder, scanAppFolder(folder).files);
  const { older } = args.has('force')
    ? {}
    : await mayReplace(client, readOrigin(folder, app), await versionsOf(client, app), content);
  if (older !== undefined) await confirmOlder(terminal, older);
  const taken: string[] = [];
  let fault: ErrorBody | null = null;
  const draft = new DraftFollower({
    connect,
    workspace,
    app,
    folder,
    tell: (event) => {
      if ('error' in event) fault = event.error;
      if (event.event === 'synced') taken.push(...event.taken);
    },
    startSync: () => terminal.progress(`Sending ${app}`, UNSEEN_MS),
  });
  await draft.open();
  const whole = await draft.update();
  if (!whole && fault !== null) throw new GatewayError(400, fault);
  return { app, workspace, draft, taken };
}
