/** Copies an app folder into a session, like `svc dev --once`, to publish it from there. */
import type { ErrorBody } from '../../protocol/errors.ts';
import type { CommandContext } from '../command.ts';
import { GatewayError } from '../failure.ts';
import { readAppId } from './app-folder.ts';
import { DraftFollower } from './draft-follower.ts';

/** A sync that takes longer shows its progress, in milliseconds. */
export const UNSEEN_MS = 300;

/** The session of a folder's app, unless one is named. */
export function sessionOf(app: string, named: string | undefined): string {
  return named ?? `dev-${app}`.slice(0, 64);
}

/** Returns the app, and the session that has its files now. Throws the error that publishing would end with. */
export async function stageFolder(
  { connect, terminal, args }: CommandContext,
  folder: string,
): Promise<{ app: string; session: string }> {
  const app = readAppId(folder);
  const session = sessionOf(app, args.text('session'));
  let fault: ErrorBody | null = null;
  const draft = new DraftFollower({
    connect,
    session,
    app,
    folder,
    tell: (event) => {
      if ('error' in event) fault = event.error;
    },
    startSync: () => terminal.progress(`Sending ${app}`, UNSEEN_MS),
  });
  await draft.open();
  const whole = await draft.update();
  if (!whole && fault !== null) throw new GatewayError(400, fault);
  return { app, session };
}
