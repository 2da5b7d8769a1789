// After any failure, the command line says what to do next, in commands that can be pasted.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ERROR_CODES, type ErrorCode, SvcError } from '../protocol/errors.ts';
import { GatewayError } from '../protocol/http/gateway-error.ts';
import { NEXT_STEPS } from '../protocol/next-steps.ts';
import { failure, startGateway, svc } from '../testing/command-line.ts';
import { COMMANDS } from './commands.ts';
import { explain } from './explain.ts';

const CODES = Object.keys(ERROR_CODES) as ErrorCode[];
const SUBJECT = { app: 'notes', tool: 'add', workspace: 'redesign' };

test('each code has sentences that say what to do, and every command in them exists', () => {
  assert.deepEqual(Object.keys(NEXT_STEPS), CODES, 'in the order of the codes');
  const names = ['help', ...COMMANDS.map(({ name }) => name)];
  for (const [code, step] of Object.entries(NEXT_STEPS)) {
    assert.match(step, /^[A-Z].*\.$/, code);
    for (const [, command = ''] of step.matchAll(/`svc ([a-z]+)[^`]*`/g)) assert.ok(names.includes(command), step);
  }
});

for (const code of CODES)
  test(`${code} comes with what to do, from the gateway and from this side`, async () => {
    const body = { code, message: 'It did not work.' };
    for (const error of [new GatewayError(ERROR_CODES[code].status, body), new SvcError(code, body.message)]) {
      const { title, lines } = await explain(error, undefined, SUBJECT);
      assert.equal(title, `${code}: It did not work.`);
      assert.ok(lines.length > 0);
      const text = lines.join('\n');
      assert.doesNotMatch(text, /`|<app>|<tool>|<workspace>/, 'plain text, with the names that are known');
      assert.doesNotMatch(text, /: svc .*\.$/m, 'a command to paste ends the line');
    }
  });

test('unknown names stay as placeholders', async () => {
  const { lines } = await explain(new GatewayError(503, { code: 'QUARANTINED', message: '' }), undefined, {});
  assert.deepEqual(lines, [
    'See why: svc logs <app>',
    'Then push a version that is repaired, or try again: svc restart <app>',
  ]);
});

test('the advice names the place of the error, not a member of the answer', async () => {
  const told = async (code: ErrorCode, path?: string) => {
    const body = { code, message: 'It is wrong.', ...(path !== undefined && { path }) };
    return (await explain(new GatewayError(400, body), undefined, SUBJECT)).lines;
  };
  assert.ok((await told('INVALID_INPUT', '/limit')).includes('Correct the value at /limit.'));
  assert.ok((await told('INVALID_INPUT', '')).includes('Correct the value.'));
  assert.ok((await told('INVALID_HANDLER')).includes('Correct each place named above.'));
});

test('after a bad request, the advice names the help of the command', async () => {
  const error = new GatewayError(400, { code: 'BAD_REQUEST', message: 'near "selec": syntax error' });
  const { lines } = await explain(error, undefined, { app: 'notes', command: 'sql' });
  assert.deepEqual(lines, ["Its tables: svc sql notes 'SELECT sql FROM sqlite_schema'", 'What it takes: svc help sql']);
});

for (const [what, error, step] of [
  ['a fault of a file', Object.assign(new Error('x'), { code: 'ENOENT', path: '/a' }), /^Check the path/],
  ['a file of another user', Object.assign(new Error('x'), { code: 'EACCES', path: '/a' }), /the user who owns/],
  ['a full disk', Object.assign(new Error('x'), { code: 'ENOSPC' }), /^Free some space/],
  ['an unexpected error', new TypeError('x is undefined'), /svc doctor/],
] as const)
  test(`${what} comes with what to do`, async () => {
    const { lines } = await explain(error, undefined, {});
    assert.match(lines.join('\n'), step);
  });

test('for an app that is not live, the advice says that it is in a workspace or in the trash', async (t) => {
  const WORKSPACES = 'GET /svc/_sessions?limit=500';
  const TRASH = 'GET /svc/_trash?limit=500';
  const { env } = await startGateway(t, {
    'GET /svc/_apps': { json: [{ id: 'todos' }] },
    'POST /svc/_tool/svc_read': failure(404, 'UNKNOWN_APP', 'No such app.'),
    [WORKSPACES]: {
      json: [{ sessionId: 'dev-notes', apps: ['notes', 'board'], touchedAt: 0, createdAt: 0 }],
    },
    [TRASH]: { json: [{ id: 'board-1', app: 'board' }] },
  });
  const told = async (app: string) => (await svc(['read', app, 'list'], { env })).stderr.split('\n').slice(1, -1);
  assert.deepEqual(await told('notes'), [
    '  It is in the workspace dev-notes, and is not published yet.',
    '  Make it live: svc publish notes --workspace dev-notes',
    '  Look at its draft: svc open notes --workspace dev-notes',
  ]);
  assert.deepEqual(await told('board'), ['  It was removed. Get it back: svc trash restore board']);
  assert.deepEqual(await told('nosuch'), ['  Registered apps: todos']);
});
