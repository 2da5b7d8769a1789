import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { type Program, UNKNOWN_PROGRAM } from '../../writer/programs.ts';
import { effect } from '../effects.ts';
import { Reads, statementRuns, writerAsked } from './reads.ts';

const program = (reads: string[] | null, isDeterministic = true): Program => ({
  ...UNKNOWN_PROGRAM,
  reads,
  writes: [],
  isDeterministic,
});

test('the tables of a query are recorded until a statement or an effect makes its result vary', () => {
  const reads = new Reads();
  reads.add(program(['a', 'b']));
  reads.add(program(['b', 'c']));
  assert.deepEqual([reads.tables, reads.keep], [['a', 'b', 'c'], true]);
  effect();
  assert.equal(reads.keep, false);
  reads.end();
  for (const spoil of [
    (one: Reads) => one.add(program([], false)),
    (one: Reads) => one.add(program(null)),
    (one: Reads) => one.asked(),
  ]) {
    const spoiled = new Reads();
    spoil(spoiled);
    assert.equal(spoiled.keep, false);
    spoiled.end();
  }
});

test('a statement counts for each query that runs meanwhile, and for none that has ended', () => {
  const runs = (...tables: string[]) => statementRuns({ program: () => program(tables) });
  statementRuns({ program: () => assert.fail('nobody wants to know') });
  const ended = new Reads();
  ended.end();
  const first = new Reads();
  runs('a');
  const second = new Reads();
  runs('b');
  first.end();
  writerAsked();
  assert.deepEqual([ended.tables, first.tables, second.tables], [[], ['a', 'b'], null]);
  second.end();
});

test('more tables than the limit count as any', () => {
  const names = Array.from({ length: LIMITS.tablesReadChars / 8 }, (_, n) => `t${n}`.padEnd(7, '-'));
  const reads = new Reads();
  reads.add(program(names));
  reads.add(program(names));
  assert.deepEqual([reads.tables?.length, reads.keep], [names.length, true]);
  reads.add(program(['x']));
  assert.deepEqual([reads.tables, reads.keep], [null, false]);
});
