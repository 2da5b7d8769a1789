import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { STATE_BYTES } from '../../storage/wal-index.ts';
import { Commits } from './commits.ts';

let commits: Commits;
/** The states of the databases as a look at them finds them; null for none. */
let states: Map<string, Uint8Array | null>;
let time: number;

beforeEach(() => {
  states = new Map();
  time = 0;
  commits = new Commits({
    file: (app) => app,
    now: () => time,
    reader: (file) => ({ read: () => states.get(file) ?? null, close: () => {} }),
  });
});

/** After so many commits of a log. */
function state(commit: number, salt = 1): Uint8Array {
  const bytes = new Uint8Array(STATE_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint32(8, commit, true);
  view.setUint32(32, salt);
  return bytes;
}

test('watchers of an app hear of its commits, in order, until they end their watch', () => {
  states.set('a', state(1));
  const heard: unknown[] = [];
  const end = commits.watch('a', (written) => heard.push(['first', written]));
  const other = commits.watch('a', (written) => heard.push(['second', written]));
  commits.changed('a');
  commits.changed('b');
  end();
  end();
  commits.upToDate('a');
  commits.committed('a', state(1), state(2), ['t']);
  other();
  assert.deepEqual(heard, [
    ['first', 'all'],
    ['second', 'all'],
    ['second', new Set(['t'])],
  ]);
});

test('a watcher may end its watch, or begin another, during a report', () => {
  let heard = 0;
  const end = commits.watch('a', () => {
    heard++;
    end();
    commits.watch('a', () => heard++);
  });
  commits.changed('a');
  assert.equal(heard, 1);
  commits.changed('a');
  assert.equal(heard, 2);
  commits.close();
});

test('a history is up to date once the note of each commit has come', () => {
  states.set('a', state(1));
  const history = commits.upToDate('a');
  assert.ok(history);
  const then = history.now;
  states.set('a', state(2));
  assert.equal(commits.upToDate('a'), null);
  commits.committed('a', state(1), state(2), ['t']);
  assert.equal(commits.upToDate('a'), history);
  assert.equal(history.unchanged(new Set(['u']), then), true);
  assert.equal(history.unchanged(new Set(['t']), then), false);
  assert.equal(history.unchanged(new Set(['t']), history.now), true);
  assert.equal(history.unchanged('all', then), false);
});

test('a commit without a note changes everything, and watchers get a report', () => {
  states.set('a', state(1));
  const history = commits.upToDate('a');
  assert.ok(history);
  const then = history.now;
  const heard: unknown[] = [];
  const end = commits.watch('a', (written) => heard.push(written));
  states.set('a', state(2));
  assert.equal(commits.upToDate('a'), null);
  time += LIMITS.strangeStateMs - 1;
  assert.equal(commits.upToDate('a'), null);
  assert.deepEqual(heard, []);
  time += 1;
  assert.equal(commits.upToDate('a'), history);
  assert.equal(history.unchanged(new Set(['t']), then), false);
  assert.deepEqual(heard, ['all']);
  end();
});

for (const [what, notes] of [
  ['that was lost', [[2, 3]]],
  [
    'that comes late',
    [
      [2, 3],
      [1, 2],
    ],
  ],
  ['that leaves out another one', [[1, 3]]],
] as const) {
  test(`a note ${what} makes everything count as changed`, () => {
    states.set('a', state(1));
    const history = commits.upToDate('a');
    assert.ok(history);
    const then = history.now;
    states.set('a', state(3));
    for (const [before, after] of notes) commits.committed('a', state(before), state(after), ['t']);
    commits.upToDate('a');
    time += LIMITS.strangeStateMs;
    assert.equal(commits.upToDate('a'), history);
    assert.equal(history.unchanged(new Set(['u']), then), false);
  });
}

test('a change of the schema, or of unknown tables, changes everything and gives the schema another number', () => {
  states.set('a', state(1));
  const history = commits.upToDate('a');
  assert.ok(history);
  const { now, schema } = history;
  states.set('a', state(2));
  commits.committed('a', state(1), state(2), null);
  assert.equal(commits.upToDate('a'), history);
  assert.equal(history.unchanged(new Set(['t']), now), false);
  assert.notEqual(history.schema, schema);
});

test('a forgotten app begins with another history, whose schema has a new number', () => {
  states.set('a', state(1));
  const history = commits.upToDate('a');
  commits.forget('a');
  const next = commits.upToDate('a');
  assert.notEqual(next, history);
  assert.notEqual(next?.schema, history?.schema);
});

test('a watcher from before the state is readable gets a report that everything may have changed', () => {
  const heard: unknown[] = [];
  const end = commits.watch('a', (written) => heard.push(written));
  assert.equal(commits.upToDate('a'), null);
  states.set('a', state(7));
  assert.ok(commits.upToDate('a'));
  assert.deepEqual(heard, ['all']);
  assert.ok(commits.upToDate('a'));
  assert.equal(heard.length, 1);
  // So does who watches longer than what is known goes back.
  commits.forget('a');
  states.set('a', state(8));
  assert.ok(commits.upToDate('a'));
  assert.deepEqual(heard, ['all', 'all']);
  end();
});

test('a watcher that begins when the state is known gets no earlier reports', () => {
  states.set('a', state(7));
  const heard: unknown[] = [];
  const end = commits.watch('a', (written) => heard.push(written));
  assert.ok(commits.upToDate('a'));
  assert.deepEqual(heard, []);
  end();
});

test('another process that writes without a pause is noticed', () => {
  states.set('a', state(1));
  const heard: unknown[] = [];
  const end = commits.watch('a', (written) => heard.push(written));
  for (let at = 0; heard.length === 0; at++) {
    assert.ok(at < 100, 'it is not noticed');
    states.set('a', state(at + 2));
    commits.upToDate('a');
    time += LIMITS.strangeStateMs / 2;
  }
  assert.ok(time <= LIMITS.commitLookMs + LIMITS.strangeStateMs);
  end();
});

test('the history of an app that is watched is not dropped for that of another', () => {
  states.set('a', state(1));
  const heard: unknown[] = [];
  const end = commits.watch('a', (written) => heard.push(written));
  for (let n = 0; n <= LIMITS.histories; n++) {
    states.set(`app-${n}`, state(1));
    commits.upToDate(`app-${n}`);
  }
  commits.committed('a', state(1), state(2), ['t']);
  assert.deepEqual(heard, [new Set(['t'])]);
  end();
});

test('a thread gets each known change of the schema, also while the state is unknown', () => {
  states.set('a', state(1));
  commits.upToDate('a');
  // The notes of two commits are on their way; that of the first comes.
  states.set('a', state(3));
  const before = commits.schemaOf('a');
  assert.equal(commits.schemaOf('a'), before);
  commits.committed('a', state(1), state(2), null);
  assert.equal(commits.upToDate('a'), null);
  assert.notEqual(commits.schemaOf('a'), before);
});
