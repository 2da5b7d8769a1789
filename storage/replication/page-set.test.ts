/** What is decoded is what was encoded, and nothing else is taken for it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32 } from 'node:zlib';
import { Random } from '../../testing/random.ts';
import {
  addPages,
  decodePages,
  encodeDeflated,
  encodePages,
  type Page,
  type PageSet,
  SET_BYTES,
  split,
  wholeSet,
} from './page-set.ts';

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
    const { pageBytes, size, pages } = wholeSet(decodePages(await encode(SET)));
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
    [28, 3], // its ranges
    [28, 0x8000_0000],
    [32, 0x0000_ffff], // the first of them
    [32, 0x0fff_0002],
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

test('of a page that the log knows only the changes are encoded, and they lead to the page', () => {
  const random = new Random(7);
  for (const pageBytes of [512, 4096, 65_536]) {
    for (let n = 0; n < 600_000 / pageBytes; n++) {
      const base = new Uint8Array(Array.from({ length: pageBytes }, () => random.pick([0, 0, 1, 255])));
      const next = base.slice();
      for (let left = random.between(0, 12); left > 0; left--) {
        const at = random.between(0, pageBytes - 1);
        next.fill(random.between(0, 255), at, at + random.pick([1, 5, 9, pageBytes]));
      }
      const known = new Map([[1, base]]);
      const decoded = decodePages(encodePages({ pageBytes, size: 1, pages: new Map([[1, next]]) }, known));
      assert.throws(() => wholeSet(decoded), { code: 'STORE_DAMAGED', message: /page 1 lacks the version/ });
      const set: PageSet<Page> = { pageBytes, size: 1, pages: new Map([[1, base.slice()]]) };
      // Twice does no harm.
      for (const _ of [1, 2]) addPages(set, decoded);
      assert.deepEqual(wholeSet(set).pages.get(1), next);
    }
  }
  const row = page('a row');
  const changed = encodePages({ ...SET, pages: new Map([[1, row]]) }, new Map([[1, page('a tow')]]));
  assert.equal(changed.length, 24 + 8 + 2 * (4 + 4));
});

test('changes of changes are all of them, and those of another size of page are none', () => {
  const [one, two, three] = [page('one'), page('two'), page('three')] as [Uint8Array, Uint8Array, Uint8Array];
  const changes = (next: Uint8Array, base: Uint8Array) =>
    decodePages(encodePages({ pageBytes: next.length, size: 1, pages: new Map([[1, next]]) }, new Map([[1, base]])));
  const merged = changes(two, one);
  addPages(merged, changes(three, two));
  const set: PageSet<Page> = { pageBytes: 4096, size: 1, pages: new Map([[1, one.slice()]]) };
  addPages(set, merged);
  assert.deepEqual(Buffer.from(wholeSet(set).pages.get(1) as Uint8Array), three);
  assert.deepEqual(
    Buffer.from(wholeSet(changes(page('larger', 8192), one)).pages.get(1) as Uint8Array),
    page('larger', 8192),
  );
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
