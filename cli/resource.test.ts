import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startGateway } from '../testing/command-line.ts';
import { Client } from './gateway/client.ts';
import { age, count, name, readAll, readList, size, tableOf, text } from './resource.ts';
import { AUTOMATIONS, WORKSPACES } from './resources.ts';

test('all open workspaces are read page by page', async (t) => {
  const rows = Array.from({ length: 501 }, (_, n) => ({ sessionId: `s${n}`, apps: [] }));
  const { url, env } = await startGateway(t, {
    'GET /svc/_sessions?limit=500': { json: rows.slice(0, 500) },
    'GET /svc/_sessions?limit=500&before=s499': { json: rows.slice(500) },
  });
  const client = new Client({ url, urlFrom: '--url', token: env.SVC_TOKEN, tokenFrom: '--token' });
  assert.deepEqual(await readAll(client, WORKSPACES), rows);
});

test('the rows are in a member of the answer, which is whole again after the last page', async (t) => {
  const rows = Array.from({ length: 501 }, (_, n) => ({ ref: `a/${n}` }));
  const { url, env } = await startGateway(t, {
    'GET /svc/_automations?app=a': { json: { rows: rows.slice(0, 500), total: 501, errors: [] } },
    'GET /svc/_automations?app=a&after=a%2F499': { json: { rows: rows.slice(500), total: 501, errors: ['x'] } },
  });
  const client = new Client({ url, urlFrom: '--url', token: env.SVC_TOKEN, tokenFrom: '--token' });
  const read = await readList(client, AUTOMATIONS, [], { app: 'a' });
  assert.deepEqual(read, { rows, answer: { rows, total: 501, errors: ['x'] } });
});

test('a column has its unit, and one that may be empty is left out where every row has nothing', () => {
  type Row = { id: string; bytes: number; at: number | null; by?: string };
  const columns = [
    name<Row>('ID', ({ id }) => id),
    size<Row>('SIZE', ({ bytes }) => bytes),
    count<Row>('BYTES', ({ bytes }) => bytes),
    age<Row>('USED', ({ at }) => at, { never: 'never' }),
    text<Row>('BY', ({ by }) => by ?? '', { ifAny: true }),
  ];
  const titles = (rows: Row[]) => tableOf(columns, rows)[0].map((column) => (column as { title: string }).title);
  const row: Row = { id: 'a', bytes: 2048, at: Date.now() };
  assert.deepEqual(tableOf(columns, [row, { ...row, at: null }])[1], [
    [{ text: 'a', format: 'bold' }, '2 KiB', '2,048', { text: 'just now', format: 'dim' }],
    [{ text: 'a', format: 'bold' }, '2 KiB', '2,048', { text: 'never', format: 'dim' }],
  ]);
  assert.deepEqual(titles([row]), ['ID', 'SIZE', 'BYTES', 'USED']);
  assert.deepEqual(titles([row, { ...row, by: 'ann' }]), ['ID', 'SIZE', 'BYTES', 'USED', 'BY']);
});
