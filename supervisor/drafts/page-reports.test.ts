import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import type { LogFollower } from '../../storage/logs/app-log.ts';
import { standIn } from '../../testing/stand-in.ts';
import { handlerFault, type PageError, PageReports } from './page-reports.ts';

const KEY = '_draft/s1/notes';

function reports(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const lines: Record<string, unknown>[] = [];
  const faults: [string, object][] = [];
  const followers = new Set<LogFollower>();
  const watched = { pages: true };
  const taker = new PageReports({
    key: KEY,
    app: 'notes',
    now: () => 0,
    logs: standIn({
      append: (_key, line) => void lines.push(JSON.parse(line)),
      follow: (_key, follower) => {
        followers.add(follower);
        return { resume: () => {}, stop: () => void followers.delete(follower) };
      },
    }),
    changes: standIn({ watched: () => watched.pages, fault: (key, fault) => void faults.push([key, fault]) }),
  });
  const log = (entry: object) => {
    for (const follower of followers) follower(KEY, JSON.stringify({ ts: 0, ...entry }));
  };
  return { taker, lines, faults, log, watched, followers };
}

const error = (message: string): PageError => ({ kind: 'error', message, file: 'app.js', line: 3, column: 9 });

test('errors that a page reports are in the draft’s log, with their position', (t) => {
  const { taker, lines } = reports(t);
  taker.take({ errors: [error('TypeError: x is null')], more: 0 });
  assert.deepEqual(lines, [
    {
      ts: '1970-01-01T00:00:00.000Z',
      level: 'error',
      app: 'notes',
      versionId: null,
      tool: null,
      traceId: null,
      msg: 'TypeError: x is null',
      page: { kind: 'error', file: 'app.js', line: 3, column: 9 },
    },
  ]);
  t.mock.timers.tick(LIMITS.pageErrorsMs);
  assert.equal(lines.length, 1, 'nothing more is said of nothing more');
});

test('of a flood one window has the first, and then how many more there were', (t) => {
  const { taker, lines } = reports(t);
  for (let at = 0; at < 30; at++) taker.take({ errors: [error(`number ${at}`)], more: 100 });
  assert.equal(lines.length, LIMITS.pageErrors);
  t.mock.timers.tick(LIMITS.pageErrorsMs);
  const left = 30 - LIMITS.pageErrors + 3000;
  assert.deepEqual(
    lines.slice(LIMITS.pageErrors).map(({ msg, page }) => [msg, page]),
    [[`… ${left.toLocaleString('en')} more`, { kind: 'more' }]],
  );
  taker.take({ errors: [error('of the next window')], more: 0 });
  assert.equal(lines.at(-1)?.msg, 'of the next window');
});

test('a fault of a handler goes to the open pages; errors of pages do not', (t) => {
  const { faults, log, watched, taker, followers } = reports(t);
  const stack = 'TypeError: it is null\n    at deep (lib/my deep.js:3:12)\n    at async boom (queries/boom.js:3:10)';
  const entry = { level: 'error', tool: 'boom', msg: 'it is null', err: { name: 'TypeError', stack } };
  log(entry);
  log({ level: 'error', tool: null, msg: 'of a page', page: { kind: 'error' } });
  log({ level: 'info', tool: 'boom', msg: 'said' });
  log({ level: 'error', tool: 'boom', msg: 'said by the handler itself' });
  assert.deepEqual(faults, [
    [
      KEY,
      {
        tool: 'boom',
        name: 'TypeError',
        message: 'it is null',
        stack: ['at deep (lib/my deep.js:3:12)', 'at async boom (queries/boom.js:3:10)'],
        file: 'lib/my deep.js',
        line: 3,
        column: 12,
      },
    ],
  ]);
  watched.pages = false;
  log(entry);
  assert.equal(faults.length, 1, 'nobody is there');
  taker.greet();
  taker.greet();
  assert.equal(faults.length, 2, 'a page that comes hears of it, once');
  log(entry);
  taker.forget();
  taker.greet();
  assert.equal(faults.length, 2, 'of files that are no more, nobody does');
  taker.close();
  assert.equal(followers.size, 0);
});

test('a fault without a place, and one whose error is the gateway’s own', () => {
  const fault = (err: object) => handlerFault({ ts: 0, level: 'error', tool: null, msg: 'm', err });
  const bare = { tool: null, name: null, message: 'm', stack: [] };
  assert.deepEqual(fault({}), bare);
  assert.deepEqual(fault({ name: 'SvcError', code: 'HANDLER_ERROR', stack: 'SvcError: m' }), bare);
  assert.deepEqual(fault({ name: 'Error', stack: 'Error: m\n    at queries/imp.js:1:7' }), {
    ...bare,
    name: 'Error',
    stack: ['at queries/imp.js:1:7'],
    file: 'queries/imp.js',
    line: 1,
    column: 7,
  });
  assert.equal(handlerFault({ ts: 0, level: 'error', err: {} })?.message, '');
});
