import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AnswerBudget, type WaitingAnswer } from './exchange.ts';

function waiting(cut: string[], name: string, bytes: number): WaitingAnswer {
  return { bytes, cutOff: () => cut.push(name) };
}

test('over the limit the longest idle readers are cut off, until the others fit', () => {
  const cut: string[] = [];
  const budget = new AnswerBudget(100);
  const [first, second, third] = ['first', 'second', 'third'].map((name) => waiting(cut, name, 30));
  for (const answer of [first, second, third]) budget.wait(answer as WaitingAnswer);
  assert.deepEqual(cut, []);
  budget.progress(first as WaitingAnswer);
  budget.wait(waiting(cut, 'fourth', 70));
  assert.deepEqual(cut, ['second', 'third']);
  assert.equal(budget.held, 100);
});

test('an answer is counted once, and given back once', () => {
  const budget = new AnswerBudget(100);
  const answer = waiting([], 'one', 30);
  budget.wait(answer);
  budget.progress(answer);
  assert.equal(budget.held, 30);
  budget.remove(answer);
  budget.remove(answer);
  budget.progress(answer);
  assert.equal(budget.held, 0);
});

test('the newest is not cut off, even when it does not fit alone', () => {
  const cut: string[] = [];
  const budget = new AnswerBudget(100);
  budget.wait(waiting(cut, 'first', 1));
  budget.wait(waiting(cut, 'second', 101));
  assert.deepEqual(cut, ['first']);
  assert.equal(budget.held, 101);
});
