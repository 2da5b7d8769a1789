/** The app that shows whether a smuggled request ran: its action leaves a row, its query returns its input. */
import { appOf } from '../apps.ts';
import { tarball } from '../archive.ts';

export const WITNESS = 'witness';

/** Ready for upload. */
export function witnessArchive(): Buffer {
  const app = appOf(WITNESS, {
    migrations: ['CREATE TABLE ran (key TEXT NOT NULL)'],
    queries: {
      echo: '({ input }) => input.text',
      ran: 'async ({ db }) => (await db.all("SELECT key FROM ran")).map((row) => row.key)',
    },
    actions: {
      put: { run: '({ body, db }) => db.run("INSERT INTO ran (key) VALUES (?)", [body.key])', writes: ['ran'] },
    },
  });
  return tarball(app);
}

/** A complete request that leaves `key` in the app's table if it runs. */
export function markingRequest(key: string, auth: string): string {
  const body = JSON.stringify({ app: WITNESS, action: 'put', input: { key } });
  return `POST /svc/_tool/svc_write HTTP/1.1\r\nHost: localhost\r\n${auth}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

/** The start of a request whose next header would swallow the request line of the next request on the connection. */
export function swallowingRequest(auth: string): string {
  return `GET /svc/_apps/smuggled HTTP/1.1\r\nHost: localhost\r\n${auth}\r\nX-Swallow: `;
}
