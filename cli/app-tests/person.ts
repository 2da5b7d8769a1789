/** Makes a person for a test: an account of the app's gateway, with a session of its console for their calls. */
import { randomBytes } from 'node:crypto';
import { PAGE_KEY_HEADER } from '../../protocol/http/page-key.ts';

type Call = (name: string, input?: unknown) => Promise<unknown>;

/** The calls are as those of the app, by this person. */
export type TestPerson = { readonly id: string; readonly name: string; readonly query: Call; readonly action: Call };

/** An app under test, of which a person uses only requests. */
type Asked = {
  readonly id: string;
  request(
    method: string,
    path: string,
    options: { headers?: Record<string, string>; body?: unknown },
  ): Promise<Response>;
};

/** What a page of the console sends. The access token is left out. */
const AT_CONSOLE = { host: 'svc.localhost:8787', 'sec-fetch-site': 'same-origin', authorization: '' };

/** Invites somebody to the app in a role, and takes the invitation. Resolves with the id, and the headers of their calls. */
export async function join(
  app: Asked,
  name: string,
  role: string,
): Promise<{ id: string; headers: Record<string, string> }> {
  const email = `${randomBytes(8).toString('hex')}@example.org`;
  const invited = await app.request('POST', '/svc/_invitations', { body: { email, grants: [{ app: app.id, role }] } });
  const { url } = (await answerOf(invited)) as { url: string };
  const code = new URLSearchParams(new URL(url).hash.slice(1)).get('invitation');
  const body = { code, name, password: randomBytes(16).toString('hex') };
  const joined = await app.request('POST', '/svc/_auth/join', { headers: AT_CONSOLE, body });
  const { person, pageKey } = (await answerOf(joined)) as { person: { id: string }; pageKey: string };
  const [cookie = ''] = (joined.headers.get('set-cookie') ?? '').split(';');
  return { id: person.id, headers: { ...AT_CONSOLE, cookie, [PAGE_KEY_HEADER]: pageKey } };
}

async function answerOf(response: Response): Promise<unknown> {
  if (response.ok) return await response.json();
  const { error } = (await response.json()) as { error: { message: string } };
  throw new TypeError(error.message);
}
