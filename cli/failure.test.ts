import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { GatewayError } from '../protocol/http/gateway-error.ts';
import { startGateway, svc, temporaryFolder } from '../testing/command-line.ts';
import {
  CommandError,
  EXIT,
  errorBodyOf,
  exitCodeOf,
  fileFault,
  messageOf,
  UnreachableError,
  UsageError,
} from './failure.ts';

const answered = (status: number) => new GatewayError(status, { code: 'X', message: 'x' });
const CODES: [what: string, error: unknown, code: number][] = [
  ['a wrong command line', new UsageError('x'), 2],
  ['no gateway', new UnreachableError('x', 'y'), 3],
  ['401: the token is missing or wrong', answered(401), 64],
  ['403: the token may not do that', answered(403), 64],
  ['any other refusal', answered(404), 1],
  ['a failure of the gateway', answered(500), 1],
  ['a failure on this side', new CommandError('x', 'y'), 1],
  ['anything else', 'x', 1],
];

for (const [what, error, code] of CODES) test(`${what} ends with ${code}`, () => assert.equal(exitCodeOf(error), code));

const fault = (code: string, syscall: string, paths: object) =>
  Object.assign(new Error(`${code}: raw`), { code, syscall, ...paths });

test('a file error becomes a sentence with the path', () => {
  const denied = fault('EACCES', 'mkdir', { path: '/root/app' });
  assert.equal(fileFault(denied), '/root/app cannot be made: permission is denied.');
  assert.equal(messageOf(denied), '/root/app cannot be made: permission is denied.');
  assert.equal(errorBodyOf(denied).message, '/root/app cannot be made: permission is denied.');
  const moved = fault('EISDIR', 'rename', { path: '/a.tmp', dest: '/a' });
  assert.equal(fileFault(moved), '/a cannot be used: it is a folder.');
  assert.equal(fileFault(fault('EACCES', 'listen', { address: '::1' })), null, 'an address is no file');
  assert.equal(messageOf(fault('EBADF', 'close', { path: '/a' })), 'EBADF: raw');
});

test('a file given instead of a folder is named', async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'notes'));
  for (const file of ['notes/app.js', 'apps.json', 'broken.bundle']) writeFileSync(join(folder, file), '');
  const { env, seen } = await startGateway(t, {});
  const script = `${join(folder, 'notes/app.js')} is a file, not an app's folder.`;
  for (const [line, said] of [
    ['push notes/app.js', script],
    ['push notes/app.js --id notes', script],
    ['dev notes/app.js --once', script],
    ['dev nowhere --once', `The folder ${join(folder, 'nowhere')} does not exist.`],
    ['import apps.json', 'apps.json is neither a folder nor a .bundle.'],
    [
      'new apps.json/notes',
      `${join(folder, 'apps.json/notes/actions')} cannot be made: a folder in its path is a file.`,
    ],
  ] as const) {
    const { code, stderr } = await svc(line.split(' '), { env, cwd: folder });
    assert.equal(code, EXIT.failed, stderr);
    assert.ok(stderr.startsWith(`✗ ${said}\n`), `svc ${line}: ${stderr}`);
  }
  assert.equal(seen.length, 0, 'nothing is sent');
});
