/** Every route says whose data it is about, so that a cluster sends each request to the node that has it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { RESOURCES } from './resources.ts';
import { type Resource, type RouteRow, row } from './row.ts';
import { type Subject, subjectsOf } from './subjects.ts';

const SUBJECTS = subjectsOf();
const nameOf = ({ method, path }: RouteRow): string => `${method} ${path}`;

function subjectOf(name: string): Subject | undefined {
  return [...SUBJECTS].find(([each]) => nameOf(each) === name)?.[1];
}

function namesOf(subject: Subject): string[] {
  return [...SUBJECTS].flatMap(([each, of]) => (of === subject ? [nameOf(each)] : [])).sort();
}

function namesLike({ of }: { of: string }): string[] {
  return [...SUBJECTS]
    .flatMap(([each, about]) => (typeof about === 'object' && about.of === of ? nameOf(each) : []))
    .sort();
}

test('every route has a subject', () => {
  for (const { rows } of RESOURCES)
    for (const each of rows) assert.ok(SUBJECTS.get(each) !== undefined, `${nameOf(each)} has no subject`);
});

test('a new route whose row does not say whose data it is about fails, and names itself', () => {
  const unknown = row({
    method: 'GET',
    path: '/svc/_weather',
    needs: 'admin',
    title: 'Show the weather',
    does: 'Shows it.',
    answer: {},
  });
  const resource: Resource = { name: 'Weather', page: 'weather', about: '', rows: [unknown] };
  assert.throws(() => subjectsOf([resource]), /GET \/svc\/_weather: .* add it to the exceptions/);
});

test('an exception stands for a route that there is', () => {
  const text = readFileSync(new URL('./subjects.ts', import.meta.url), 'utf8');
  const known = new Set([...SUBJECTS.keys()].map(nameOf));
  const named = [...text.matchAll(/^ {2}'([A-Z]+ \/\S*)':/gm)].map(([, name]) => name as string);
  assert.ok(named.length > 30);
  for (const name of named) assert.ok(known.has(name), `${name} is no route any more`);
});

test('what is about one app names it in its path, query or body', () => {
  const inPath = (name: string): Subject => ({ of: 'app', in: 'path', name, without: 'any' });
  assert.deepEqual(subjectOf('GET /svc/_apps/:id'), inPath('id'));
  assert.deepEqual(subjectOf('POST /svc/_automations/:app/:id/run'), inPath('app'));
  assert.deepEqual(subjectOf('GET /svc/_draft/:sid/:id/*'), inPath('id'));
  assert.deepEqual(subjectOf('PUT /svc/_sessions/:sid/apps/:id/files/*'), inPath('id'));
  assert.deepEqual(subjectOf('GET /_svc-conversations/apps/:id/sessions/:sid'), inPath('id'));
  assert.deepEqual(subjectOf('POST /svc/_tool/svc_read'), { of: 'app', in: 'body', name: 'app', without: 'any' });
  assert.deepEqual(subjectOf('POST /svc/_apps/_import'), { of: 'app', in: 'query', name: 'id', without: 'any' });
  const ref: Subject = { of: 'app', in: 'query', name: 'ref', without: 'every' };
  assert.deepEqual(subjectOf('GET /svc/_runs'), { of: 'app', in: 'query', name: 'app', without: ref });
});

test('what is about a workspace goes to the app that it names there, else to one that the workspace has', () => {
  const workspace: Subject = { of: 'workspace', in: 'path', name: 'sid' };
  assert.deepEqual(subjectOf('DELETE /svc/_sessions/:sid'), workspace);
  assert.deepEqual(subjectOf('POST /svc/_sessions/:sid/publish'), {
    of: 'app',
    in: 'body',
    name: 'app',
    without: workspace,
  });
});

test('people, sign-ins, tokens and shares are data of the gateway', () => {
  for (const name of [
    'GET /svc/_people',
    'POST /svc/_session',
    'GET /svc/_enter',
    'DELETE /svc/_tokens/:id',
    'GET /svc/_apps/:id/shares',
    'POST /svc/_oauth/token',
    'PUT /_svc-user/prefs',
    'GET /svc/_audit',
  ])
    assert.equal(subjectOf(name), 'gateway', name);
});

test('these need an answer of all nodes, these a look at who has the one thing, and these no node can do', () => {
  assert.deepEqual(namesOf('every'), ['GET /svc/_apps', 'GET /svc/_insights', 'GET /svc/_sessions', 'GET /svc/_trash']);
  assert.deepEqual(namesLike({ of: 'run' }), [
    'GET /svc/_runs/:runId',
    'GET /svc/_runs/:runId/events',
    'GET /svc/_runs/:runId/nodes',
    'POST /svc/_runs/:runId/cancel',
    'POST /svc/_runs/:runId/pin',
  ]);
  assert.deepEqual(namesLike({ of: 'webhook' }), ['POST /_svc-hook/*']);
  assert.deepEqual(namesLike({ of: 'trashed' }), ['DELETE /svc/_trash/:id', 'POST /svc/_trash/:id/restore']);
  assert.deepEqual(namesLike({ of: 'whole' }), [
    'POST /svc/_backup',
    'POST /svc/_backups/files',
    'POST /svc/_code/export',
    'POST /svc/_code/import',
    'PUT /svc/_backups',
  ]);
});
