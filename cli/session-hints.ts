/** What to do next about a session that cannot be published: commands that can be pasted as they are. */
import type { ErrorBody } from '../protocol/errors.ts';
import type { SessionSubject } from './failure.ts';
import type { Client } from './gateway/client.ts';
import { allSessions } from './sessions.ts';

/** Empty when there is nothing to say beside the message. Rejects when the gateway does not answer. */
export async function sessionHints(body: ErrorBody, client: Client, about: SessionSubject): Promise<string[]> {
  const { session } = about;
  const app = about.app ?? (await onlyApp(client, session)) ?? '<app>';
  const diff = `svc diff ${app} --session ${session}`;
  const update = `svc sessions update ${session} --app ${app}`;
  const publish = `svc publish ${app} --session ${session}`;
  switch (body.code) {
    case 'NO_CHANGES':
      return [`Edit something first: svc dev <dir> --session ${session}`];
    case 'MERGE_CONFLICT':
      // One file is at fault by itself: marks of an update are left in it.
      if (body.path !== undefined) return [`Where they are: ${diff}`, `When all are resolved: ${publish}`];
      return [
        `What the session changes: ${diff}`,
        `Take the published lines in: ${update}`,
        `Choose between the marks, then publish again: ${publish}`,
      ];
    case 'INVALID_MIGRATION':
      if (body.files === undefined) return [];
      return [`Take the other one in: ${update}`, `Rename the session's, then publish again: ${publish}`];
    default:
      return [];
  }
}

/** The apps that the session has files of. */
export async function appsOf(client: Client, session: string): Promise<string[]> {
  return (await allSessions(client)).find(({ sessionId }) => sessionId === session)?.apps ?? [];
}

async function onlyApp(client: Client, session: string): Promise<string | undefined> {
  const [app, ...others] = await appsOf(client, session);
  return others.length === 0 ? app : undefined;
}
