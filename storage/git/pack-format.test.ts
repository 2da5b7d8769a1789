// A pack that would become more than it may is refused by what it says of itself.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { deflateSync } from 'node:zlib';
import { LIMITS } from '../../protocol/limits.ts';
import { checkPackSizes } from './pack-format.ts';

const BLOB = 3;
const OFS_DELTA = 6;
const REF_DELTA = 7;

/** Seven bits a byte, the lowest first. */
function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  do {
    bytes.push((rest % 128) + (rest >= 128 ? 128 : 0));
    rest = Math.floor(rest / 128);
  } while (rest > 0);
  return Buffer.from(bytes);
}

function object(type: number, content: Buffer, size = content.length, base = Buffer.alloc(0)): Buffer {
  const rest = Math.floor(size / 16);
  const head = Buffer.from([(rest > 0 ? 128 : 0) + type * 16 + (size % 16)]);
  return Buffer.concat([head, rest > 0 ? varint(rest) : Buffer.alloc(0), base, deflateSync(content)]);
}

/** A delta on the object so many bytes before it. */
function onBase(distance: number, content: Buffer): Buffer {
  const bytes = [distance & 0x7f];
  for (let rest = distance >> 7; rest > 0; rest >>= 7) bytes.unshift(0x80 | (--rest & 0x7f));
  return object(OFS_DELTA, content, undefined, Buffer.from(bytes));
}

/** A first object, and as many deltas, each on the one before it. */
function chain(count: number, result: number): Buffer[] {
  const objects = [object(BLOB, Buffer.from('a'.repeat(10)))];
  for (let at = 0; at < count; at++) objects.push(onBase((objects.at(-1) as Buffer).length, delta(10, result)));
  return objects;
}

function pack(...objects: Buffer[]): Buffer {
  const head = Buffer.alloc(12);
  head.write('PACK');
  head.writeUInt32BE(2, 4);
  head.writeUInt32BE(objects.length, 8);
  const bytes = Buffer.concat([head, ...objects]);
  return Buffer.concat([bytes, createHash('sha1').update(bytes).digest()]);
}

const delta = (base: number, result: number) => Buffer.concat([varint(base), varint(result), Buffer.from([0x90, 1])]);

test('objects and deltas of permitted sizes pass', () => {
  const large = object(BLOB, randomBytes(20_000));
  checkPackSizes(
    pack(
      object(BLOB, Buffer.alloc(0)),
      large,
      onBase(large.length, delta(20_000, 300)),
      onBase(large.length + onBase(large.length, delta(20_000, 300)).length, delta(20_000, LIMITS.gitObjectBytes)),
    ),
  );
  checkPackSizes(pack(...chain(LIMITS.gitDeltaDepth, 10)));
});

const TOO_LARGE: [what: string, objects: Buffer[]][] = [
  ['a large object, before it is inflated', [object(BLOB, Buffer.from('not looked at'), 1.5e9)]],
  ['one behind another', [object(BLOB, Buffer.from('x')), object(BLOB, Buffer.alloc(0), LIMITS.gitObjectBytes + 1)]],
  ['a delta that becomes large', chain(1, 1.5e9)],
  ['a long chain of deltas', chain(LIMITS.gitDeltaDepth + 1, 10)],
  [
    'many that are large together',
    Array.from({ length: LIMITS.gitBundleInflatedBytes / LIMITS.gitObjectBytes + 1 }, () =>
      chain(1, LIMITS.gitObjectBytes),
    ).flat(),
  ],
  // Some 12 GiB of results, and 300 GiB of work.
  [
    'chains that take work with their square',
    Array.from({ length: 16 }, () => chain(50, LIMITS.gitObjectBytes)).flat(),
  ],
];

for (const [what, objects] of TOO_LARGE) {
  test(`refused: ${what}`, () => {
    assert.throws(() => checkPackSizes(pack(...objects)), { code: 'BACKUP_TOO_LARGE', status: 413 });
  });
}

const BROKEN: [what: string, bytes: Buffer][] = [
  ['no pack', Buffer.alloc(40)],
  ['one that says less than it has', pack(object(BLOB, Buffer.from('abcdef'), 3))],
  ['one that says more than it has', pack(object(BLOB, Buffer.from('abc'), 6))],
  ['an end in a header', pack(Buffer.from([0xb0 + 0x80]))],
  ['no data', pack(Buffer.from([0x31]))],
  ['a delta without sizes', pack(...chain(0, 0), onBase(chain(0, 0)[0]!.length, Buffer.from([0x80])))],
  ['a delta on a name', pack(...chain(0, 0), object(REF_DELTA, delta(10, 10), undefined, Buffer.alloc(20)))],
  ['a delta on what is no object', pack(...chain(0, 0), onBase(chain(0, 0)[0]!.length - 1, delta(10, 10)))],
  ['a delta on itself', pack(onBase(0, delta(10, 10)))],
  ['a delta on what is before the pack', pack(...chain(0, 0), onBase(5000, delta(10, 10)))],
];

for (const [what, bytes] of BROKEN) {
  test(`an error: ${what}`, () => assert.throws(() => checkPackSizes(bytes)));
}
