import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Commits } from './commits.ts';

test('watchers of an app hear of its commits, in order, until they end their watch', () => {
  const commits = new Commits();
  const heard: unknown[] = [];
  const end = commits.watch('a', (written) => heard.push(['first', written]));
  commits.watch('a', (written) => heard.push(['second', written]));
  commits.tell('a', 'all');
  commits.tell('b', 'all');
  end();
  end();
  const tables = new Set(['t']);
  commits.tell('a', tables);
  assert.deepEqual(heard, [
    ['first', 'all'],
    ['second', 'all'],
    ['second', tables],
  ]);
});

test('a watcher may end its watch, or begin another, while it is told', () => {
  const commits = new Commits();
  let heard = 0;
  const end = commits.watch('a', () => {
    heard++;
    end();
    commits.watch('a', () => heard++);
  });
  commits.tell('a', 'all');
  assert.equal(heard, 1);
  commits.tell('a', 'all');
  assert.equal(heard, 2);
});
