import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkRegister, type Link, type Operation } from './registers.ts';

const CHAIN: Link[] = [
  { n: 1, key: 'a' },
  { n: 2, key: 'b' },
  { n: 3, key: 'c' },
];
const SENT = new Map(['a', 'b', 'c'].map((key, n) => [key, { app: 'ada', from: 10 * n }]));
const write = (n: number, key: string, was: string, from: number, to: number): Operation => ({ n, key, was, from, to });
const read = (n: number, key: string, from: number, to: number): Operation => ({
  n,
  key,
  was: null,
  from,
  to,
  node: 2,
});
const GOOD = [write(1, 'a', '', 0, 5), write(2, 'b', 'a', 10, 15), write(3, 'c', 'b', 20, 25)];

function verdict(operations: Operation[], chain: Link[] = CHAIN): string[] {
  return checkRegister('ada', chain, operations, SENT);
}

test('writes in their order and reads that overlap them are right', () => {
  const reads = [
    read(0, '', 0, 5),
    read(1, 'a', 5, 11),
    read(1, 'a', 8, 14),
    read(2, 'b', 11, 30),
    read(3, 'c', 26, 27),
  ];
  assert.deepEqual(verdict([...GOOD, ...reads]), []);
});

test('a write whose client was never told may have been done at any time after it was sent', () => {
  const [first, , third] = GOOD as [Operation, Operation, Operation];
  assert.deepEqual(verdict([first, third, read(1, 'a', 18, 19)]), []);
  assert.match(
    verdict([first, third, read(2, 'b', 7, 8)])[0] ?? '',
    /a write became 2 \(b\), and 2 \(b\) had been answered 2 ms/,
  );
});

for (const [what, operations, chain, expected] of [
  [
    'a read that goes back',
    [...GOOD, read(1, 'a', 16, 18)],
    CHAIN,
    /a read at node 2 found 1 \(a\), and 2 \(b\) had been answered 1 ms/,
  ],
  [
    'reads of which the later one goes back',
    [read(2, 'b', 11, 12), read(1, 'a', 13, 14)],
    CHAIN,
    /a read at node 2 found 1/,
  ],
  ['a read of what is not stored', [read(2, 'x', 11, 12)], CHAIN, /x was read as 2, where b is stored/],
  ['a lost write', GOOD, CHAIN.slice(0, 2), /c was acknowledged as 3, where nothing is stored/],
  ['a write that is done twice', GOOD, [...CHAIN, { n: 4, key: 'b' }], /b was done as 2 and as 4/],
  [
    'two writes that replace the same',
    [...GOOD.slice(0, 2), write(3, 'c', 'a', 20, 25)],
    CHAIN,
    /c replaced a, and b is stored/,
  ],
  ['two values of one number', GOOD, [...CHAIN, { n: 3, key: 'd' }], /number 4 of the chain is 3 \(d\)/],
  ['a write of nobody', GOOD, [...CHAIN, { n: 4, key: 'z' }], /ada has z, which nobody sent/],
] as [string, Operation[], Link[], RegExp][])
  test(`${what} is wrong`, () => assert.match(verdict(operations, chain).join('\n'), expected));
