// A pack that would become more than it may is refused by what it says of itself.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
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
  checkPackSizes(
    pack(
      object(BLOB, Buffer.alloc(0)),
      object(BLOB, Buffer.from('a'.repeat(5000))),
      object(OFS_DELTA, delta(5000, 300), undefined, Buffer.from([0x80, 0x05])),
      object(REF_DELTA, delta(5000, LIMITS.gitObjectBytes), undefined, Buffer.alloc(20, 0x80)),
    ),
  );
});

const TOO_LARGE: [what: string, objects: Buffer[]][] = [
  ['a large object, before it is inflated', [object(BLOB, Buffer.from('not looked at'), 1.5e9)]],
  ['one behind another', [object(BLOB, Buffer.from('x')), object(BLOB, Buffer.alloc(0), LIMITS.gitObjectBytes + 1)]],
  ['a delta that becomes large', [object(OFS_DELTA, delta(10, 1.5e9), undefined, Buffer.from([12]))]],
  ['a delta on a name', [object(REF_DELTA, delta(10, 2 ** 40), undefined, Buffer.alloc(20))]],
  [
    'many that are large together',
    Array.from({ length: LIMITS.gitBundleInflatedBytes / LIMITS.gitObjectBytes + 1 }, () =>
      object(OFS_DELTA, delta(10, LIMITS.gitObjectBytes), undefined, Buffer.from([12])),
    ),
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
  ['a delta without sizes', pack(object(OFS_DELTA, Buffer.from([0x80]), undefined, Buffer.from([1])))],
];

for (const [what, bytes] of BROKEN) {
  test(`an error: ${what}`, () => assert.throws(() => checkPackSizes(bytes)));
}
