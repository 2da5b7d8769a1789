import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startGateway } from '../../testing/command-line.ts';
import { allSessions } from './api.ts';
import { Client } from './client.ts';

test('all open sessions are read page by page', async (t) => {
  const rows = Array.from({ length: 501 }, (_, n) => ({ sessionId: `s${n}`, apps: [] }));
  const { url, env } = await startGateway(t, {
    'GET /svc/_sessions?limit=500': { json: rows.slice(0, 500) },
    'GET /svc/_sessions?limit=500&before=s499': { json: rows.slice(500) },
  });
  const client = new Client({ url, urlFrom: '--url', token: env.SVC_TOKEN, tokenFrom: '--token' });
  assert.deepEqual(await allSessions(client), rows);
});
