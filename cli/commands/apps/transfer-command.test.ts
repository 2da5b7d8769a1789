/** `svc export` into folders, against an HTTP server that speaks the gateway's routes. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { objectId } from '../../../storage/git/object.ts';
import { failure, type Reply, type Routes, startGateway, svc, temporaryFolder } from '../../../testing/command-line.ts';
import { EXIT } from '../../failure.ts';

const FILES = '/svc/_sessions/s1/apps';

/** As a workspace lists it. */
const file = (path: string, text: string) => ({ path, size: text.length, sha: objectId('blob', Buffer.from(text)) });

/** Two live apps, and one without a live version. */
function routes(second: Reply | (() => Reply) = { json: 'second' }): Routes {
  return {
    'GET /svc/_apps': {
      json: [
        { id: 'est', status: 'no_active_version', activeVersion: null },
        { id: 'notes', status: 'active', activeVersion: 'notes/v1' },
        { id: 'todos', status: 'quarantined', activeVersion: 'todos/v2' },
      ],
    },
    'POST /svc/_sessions': { status: 201, json: { sessionId: 's1' } },
    'DELETE /svc/_sessions/s1': { json: {} },
    [`GET ${FILES}/est/files`]: failure(503, 'NO_ACTIVE_VERSION', 'The app "est" has no active version.'),
    [`GET ${FILES}/notes/files`]: { json: [file('queries/list.js', '"first"')] },
    [`GET ${FILES}/notes/files/queries/list.js`]: { json: 'first' },
    [`GET ${FILES}/todos/files`]: { json: [file('app.json', '"second"')] },
    [`GET ${FILES}/todos/files/app.json`]: second,
  };
}

test('apps without a live version are left out, and named', async (t) => {
  const cwd = temporaryFolder(t);
  const gateway = await startGateway(t, routes());
  const { code, stdout, stderr } = await svc(['export', 'far/out'], { env: gateway.env, cwd });
  assert.equal(code, EXIT.ok, stderr);
  assert.match(stdout, /2 apps in .*: notes, todos\n {2}left out.*: est\n/);
  assert.deepEqual(readdirSync(join(cwd, 'far')), ['out'], 'nothing is left beside it');
  assert.deepEqual(readdirSync(join(cwd, 'far/out')).sort(), ['notes', 'todos']);
  assert.equal(readFileSync(join(cwd, 'far/out/notes/queries/list.js'), 'utf8'), '"first"');
  mkdirSync(join(cwd, 'plain'));
  const rights = (folder: string) => statSync(join(cwd, folder)).mode;
  assert.equal(rights('far/out'), rights('plain'), 'it is a folder like any other');

  const told = await svc(['export', 'again', '--json'], { env: gateway.env, cwd });
  const { apps, skipped } = JSON.parse(told.stdout);
  assert.deepEqual([apps, skipped], [['notes', 'todos'], ['est']]);
});

test('an existing empty folder is filled, also the current one, or through a link', async (t) => {
  const cwd = temporaryFolder(t);
  for (const name of ['here', 'linked']) mkdirSync(join(cwd, name));
  symlinkSync('linked', join(cwd, 'link'));
  const gateway = await startGateway(t, routes());
  const { ino } = statSync(join(cwd, 'here'));
  assert.equal((await svc(['export', '.'], { env: gateway.env, cwd: join(cwd, 'here') })).code, EXIT.ok);
  assert.equal((await svc(['export', 'link'], { env: gateway.env, cwd })).code, EXIT.ok);
  for (const name of ['here', 'linked']) assert.deepEqual(readdirSync(join(cwd, name)).sort(), ['notes', 'todos']);
  assert.equal(statSync(join(cwd, 'here')).ino, ino, 'it is the same folder');
});

test('an export that fails half way leaves nothing behind, and blames no app', async (t) => {
  const cwd = temporaryFolder(t);
  mkdirSync(join(cwd, 'there'));
  const gateway = await startGateway(t, routes(failure(503, 'NO_ACTIVE_VERSION', 'It went meanwhile.')));
  for (const target of ['there', 'missing', 'far/missing']) {
    const { code, stderr } = await svc(['export', target], { env: gateway.env, cwd });
    assert.equal(code, EXIT.failed, stderr);
    assert.match(stderr, /svc versions <app>\n.*svc activate <app> <version>/);
    assert.deepEqual([readdirSync(cwd), readdirSync(join(cwd, 'there'))], [['there'], []], target);
  }
  assert.equal(gateway.seen.at(-1)?.method, 'DELETE', 'the workspace is closed');
});

test('Ctrl-C leaves nothing behind', async (t) => {
  const cwd = temporaryFolder(t);
  // The answer stays open, so the command is interrupted while it waits.
  const interrupted = (): Reply => {
    assert.ok(process.emit('SIGINT'), 'a listener gets the signal');
    return { stream: ['half'] };
  };
  const gateway = await startGateway(t, routes(interrupted));
  const { code, stderr } = await svc(['export', 'out'], { env: gateway.env, cwd });
  assert.equal(code, EXIT.failed, stderr);
  assert.match(stderr, /Interrupted; nothing was left behind/);
  assert.deepEqual(readdirSync(cwd), []);
  assert.equal(gateway.seen.at(-1)?.method, 'DELETE', 'the workspace is closed');
});

test('a file and a folder that is not empty are left alone', async (t) => {
  const cwd = temporaryFolder(t);
  mkdirSync(join(cwd, 'full/notes'), { recursive: true });
  const gateway = await startGateway(t, routes());
  await svc(['export', 'apps'], { env: gateway.env, cwd });
  const file = await svc(['export', 'apps/todos/app.json'], { env: gateway.env, cwd });
  assert.deepEqual([file.code, /is a file/.test(file.stderr)], [EXIT.failed, true], file.stderr);
  const full = await svc(['export', 'full'], { env: gateway.env, cwd });
  assert.deepEqual([full.code, /is not empty/.test(full.stderr)], [EXIT.failed, true], full.stderr);
  assert.ok(existsSync(join(cwd, 'full/notes')), 'it is still there');
});
