/** What is decoded is what was encoded, and nothing else is taken for it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32 } from 'node:zlib';
import { addPages, decodePages, encodeDeflated, encodePages, type PageSet, SET_BYTES, split } from './page-set.ts';

/** A page of `pageBytes` with text at its beginning and end, as pages of tables have. */
function page(text: string, pageBytes = 4096): Uint8Array {
  const bytes = Buffer.alloc(pageBytes);
  bytes.write(text, 0);
  bytes.write(text, pageBytes - text.length);
  return bytes;
}

const SET: PageSet = {
  pageBytes: 4096,
  size: 9,
  pages: new Map([
    [7, page('seven')],
    [1, page('one')],
    [3, Buffer.alloc(4096)],
    [9, Buffer.alloc(4096, 'full')],
  ]),
};

for (const [name, encode] of [['plain', encodePages] as const, ['deflated', encodeDeflated] as const]) {
  test(`a ${name} set is read as it was`, async () => {
    const { pageBytes, size, pages } = decodePages(await encode(SET));
    assert.deepEqual([pageBytes, size, [...pages.keys()]], [4096, 9, [1, 3, 7, 9]]);
    for (const [number, bytes] of pages) assert.ok(Buffer.from(bytes).equals(SET.pages.get(number) as Uint8Array));
  });

  test(`each changed or missing byte of a ${name} set is found`, async () => {
    const bytes = await encode({ ...SET, pages: new Map([[1, page('one')]]) });
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes);
      (changed[at] as number) ^= 0x10;
      assert.throws(() => decodePages(changed), { code: 'STORE_DAMAGED' }, `byte ${at}`);
      assert.throws(() => decodePages(bytes.subarray(0, at)), { code: 'STORE_DAMAGED' }, `the first ${at}`);
    }
  });
}

test('a set that lies about its sizes is refused, with a right checksum too', () => {
  for (const [at, value] of [
    [8, 7], // coding
    [12, 4095], // bytes of a page
    [12, 1 << 20],
    [16, 8], // size below the last page
    [20, 5], // more pages than there are
    [20, 3],
    [20, 0xffff_ffff],
    [24, 0], // number of the first page
    [28, 4097], // its run of zeros
  ] as const) {
    const bytes = encodePages(SET);
    bytes.writeUInt32BE(value, at);
    bytes.writeUInt32BE(crc32(bytes.subarray(8)), 4);
    assert.throws(() => decodePages(bytes), { code: 'STORE_DAMAGED' }, `${value} at ${at}`);
  }
});

test('a page that is mostly zeros takes few bytes', () => {
  assert.ok(encodePages({ ...SET, pages: new Map([[1, page('a row')]]) }).length < 60);
});

test('later pages replace earlier ones, and those beyond the size are dropped', () => {
  const set: PageSet = { ...SET, pages: new Map(SET.pages) };
  addPages(set, { pageBytes: 4096, size: 3, pages: new Map([[1, page('later')]]) });
  assert.deepEqual([set.size, [...set.pages.keys()].sort()], [3, [1, 3]]);
  assert.ok(Buffer.from(set.pages.get(1) as Uint8Array).equals(page('later')));
});

test('a large set is split into sets that each can be read', () => {
  const count = Math.ceil((2.5 * SET_BYTES) / 4096);
  const pages = new Map(Array.from({ length: count }, (_, n) => [n + 1, page(`${n}`)] as const));
  const sets = split({ pageBytes: 4096, size: count, pages }).map((set) => decodePages(encodePages(set)));
  assert.deepEqual(
    sets.flatMap((set) => [...set.pages.keys()]),
    [...pages.keys()],
  );
  assert.equal(sets.length, 3);
});
