// The icons that are drawn of an app: what they show, and what becomes of an SVG that cannot be drawn.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { crc32, deflateSync, gzipSync, inflateSync } from 'node:zlib';
import { DRAWN_ICONS } from '../../../protocol/http/icons.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { LONG_MS } from '../../../testing/waiting.ts';
import { drawIcons, drawTile, type Icons } from './drawn-icons.ts';
import { drawing, withMemoryLimit } from './svg.ts';

const root = mkdtempSync(join(tmpdir(), 'icons-'));
after(() => rmSync(root, { recursive: true, force: true }));

const SPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"';

function svg(content: string, attributes = 'viewBox="0 0 32 32"'): string {
  return `<svg ${SPACES} ${attributes}>${content}</svg>`;
}

const PAGE = { path: 'index.html', bytes: 0, sha256: '' };

/** The icons of an app with a page and this `icon.svg`. */
async function iconsOf(icon: string | Buffer): Promise<Icons> {
  writeFileSync(join(root, 'icon.svg'), icon);
  return drawIcons(root, [PAGE, { path: 'icon.svg', bytes: Buffer.byteLength(icon), sha256: '' }]);
}

type Decoded = { size: number; at(x: number, y: number): number[] };

/** Parts of the size → RGBA. */
function decode(png: Buffer | undefined): Decoded {
  assert.ok(png);
  assert.equal(png.subarray(0, 8).toString('latin1'), '\x89PNG\r\n\x1a\n');
  const chunks = new Map<string, Buffer>();
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    const named = png.subarray(at + 4, at + 8 + length);
    assert.equal(png.readUInt32BE(at + 8 + length), crc32(named));
    chunks.set(named.subarray(0, 4).toString('latin1'), named.subarray(4));
    at += length + 12;
  }
  assert.deepEqual([...chunks.keys()], ['IHDR', 'IDAT', 'IEND']);
  const header = chunks.get('IHDR') as Buffer;
  const size = header.readUInt32BE(0);
  assert.deepEqual([header.readUInt32BE(4), ...header.subarray(8)], [size, 8, 6, 0, 0, 0]);
  const lines = inflateSync(chunks.get('IDAT') as Buffer);
  assert.equal(lines.length, size * (size * 4 + 1));
  const at = (x: number, y: number): number[] => {
    const line = Math.floor(y * size) * (size * 4 + 1);
    assert.equal(lines[line], 0, 'no filter');
    const from = line + 1 + Math.floor(x * size) * 4;
    return [...lines.subarray(from, from + 4)];
  };
  return { size, at };
}

const WHITE = [255, 255, 255, 255];
const CLEAR = [0, 0, 0, 0];
const BLUE = [0, 128, 255, 255];
const MASKABLE = 'icon-maskable-512.png';

test('each icon has its size; those that are cut to a shape have no corner that is clear', async () => {
  const { files, warnings } = await iconsOf(svg('<rect width="32" height="32" rx="9" fill="#0080ff"/>'));
  assert.deepEqual(warnings, []);
  assert.deepEqual(
    [...files.keys()],
    DRAWN_ICONS.map(({ name }) => name),
  );
  for (const { name, size, purpose } of DRAWN_ICONS) {
    const icon = decode(files.get(name));
    assert.equal(icon.size, size, name);
    assert.deepEqual(icon.at(0.5, 0.5), BLUE, name);
    assert.deepEqual(icon.at(0, 0), purpose === 'any' ? CLEAR : BLUE, name);
  }
});

test('what is half transparent keeps its colour', async () => {
  const { files } = await iconsOf(svg('<rect width="32" height="32" fill="#0080ff" opacity=".5"/>'));
  assert.deepEqual(decode(files.get('icon-192.png')).at(0.5, 0.5), [0, 128, 255, 128]);
});

test('a sign that reaches into the corners of a filled shape is drawn smaller, on the same colour', async () => {
  const sign = '<rect width="32" height="32" fill="#0080ff"/><path d="M4 4h24v24H4z" fill="#fff"/>';
  const icon = decode((await iconsOf(svg(sign))).files.get(MASKABLE));
  const corner = 0.5 - 0.4 / Math.SQRT2;
  assert.deepEqual(icon.at(corner + 0.02, corner + 0.02), WHITE);
  assert.deepEqual(icon.at(corner - 0.02, corner - 0.02), BLUE);
  assert.deepEqual(icon.at(0, 0), BLUE);
});

test('what stands free is put on white, and what white would hide on dark', async () => {
  const star = (fill: string) => svg(`<path d="M16 0l4 12h12l-10 8 4 12-10-8-10 8 4-12L0 12h12z" fill="${fill}"/>`);
  assert.deepEqual(decode((await iconsOf(star('#222'))).files.get(MASKABLE)).at(0, 0), WHITE);
  assert.deepEqual(decode((await iconsOf(star('#ffe'))).files.get(MASKABLE)).at(0, 0), [31, 34, 38, 255]);
  // A ring is no filled shape, although it has the same colour at all sides.
  const ring = svg('<circle cx="16" cy="16" r="14" fill="none" stroke="#222" stroke-width="4"/>');
  assert.deepEqual(decode((await iconsOf(ring)).files.get(MASKABLE)).at(0.5, 0.5), WHITE);
});

test('one that is not square is in the middle, and one that is not even at its sides stays as large', async () => {
  const wide = decode(
    (await iconsOf(svg('<rect width="64" height="16" fill="#0080ff"/>', 'viewBox="0 0 64 16"'))).files.get(
      'icon-192.png',
    ),
  );
  assert.deepEqual([wide.at(0.5, 0.2), wide.at(0.02, 0.5), wide.at(0.5, 0.8)], [CLEAR, BLUE, CLEAR]);
  const halves = '<path d="M0 0h16v32H0z" fill="#0080ff"/><path d="M16 0h16v32H16z" fill="#fff"/>';
  const icon = decode((await iconsOf(svg(halves))).files.get(MASKABLE));
  assert.deepEqual([icon.at(0, 0), icon.at(0.99, 0.99)], [BLUE, WHITE]);
});

test('the tile of an app has its initial, at each size', async () => {
  for (const { name, size, purpose } of DRAWN_ICONS) {
    const icon = decode(Buffer.from(await drawTile({ app: 'notes', name })));
    assert.equal(icon.size, size);
    assert.deepEqual(icon.at(0, 0)[3], purpose === 'any' ? 0 : 255, name);
    // The left stroke of the N.
    assert.deepEqual(icon.at(11 / 32, 0.5), WHITE, name);
  }
  await assert.rejects(drawTile({ app: 'notes', name: 'other.png' }), /No icon is called other.png/);
});

test('an app without an icon or without a page has none', async () => {
  assert.deepEqual(await drawIcons(root, [PAGE]), { files: new Map(), warnings: [] });
  assert.deepEqual(await drawIcons(root, [{ path: 'icon.svg', bytes: 9, sha256: '' }]), {
    files: new Map(),
    warnings: [],
  });
});

test('texts in comments and names like theirs are no texts', async () => {
  const harmless = svg('<!-- <text>x</text> --><desc>a text</desc><g id="text"><rect width="9" height="9"/></g>');
  assert.deepEqual((await iconsOf(harmless)).warnings, []);
});

/** A black picture, whose data is small. */
function largePng(side: number): string {
  const chunk = (type: string, data: Buffer): Buffer => {
    const named = Buffer.concat([Buffer.from(type), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(named));
    return Buffer.concat([length, named, sum]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(side, 0);
  header.writeUInt32BE(side, 4);
  header[8] = 1;
  const parts = [
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.alloc((side / 8 + 1) * side))),
    chunk('IEND', Buffer.alloc(0)),
  ];
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), ...parts]).toString('base64');
}

const uses = Array.from({ length: 12 }, (_, i) => `<g id="u${i + 1}">${`<use xlink:href="#u${i}"/>`.repeat(10)}</g>`);
const entities = [...'bcdefghi'].map((name, i) => `<!ENTITY ${name} "${`&${'abcdefgh'[i]};`.repeat(10)}">`);
const deep = (levels: number, attributes: string) =>
  `${`<g ${attributes}>`.repeat(levels)}<rect width="32" height="32"/>${'</g>'.repeat(levels)}`;

const UNDRAWN: [name: string, icon: string | Buffer, why: RegExp][] = [
  [
    'takes for ever',
    svg(
      '<filter id="f"><feTurbulence baseFrequency=".5" numOctaves="100000000"/></filter><rect width="32" height="32" filter="url(#f)"/>',
    ),
    /takes more than 2 s; make it simpler/,
  ],
  ['nests more than any stack holds', svg(deep(30_000, '')), /limit/],
  [
    'refers to itself ten by ten',
    svg(`<defs><rect id="u0" width="1" height="1"/>${uses.join('')}</defs><use xlink:href="#u12"/>`),
    // Whichever comes first: the renderer's own limit, or ours of time.
    /limit|takes more than 2 s/,
  ],
  [
    'has a picture that is large once it is unpacked',
    svg(`<image width="32" height="32" href="data:image/png;base64,${largePng(16_000)}"/>`),
    /too much memory|shows nothing/,
  ],
  [
    'has entities that grow',
    `<!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa">${entities.join('')}]>${svg('<title>&i;</title>')}`,
    /entity/,
  ],
  [
    'names a file by an entity',
    `<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>${svg('<title>&x;</title>')}`,
    /entity/,
  ],
  [
    'shows a picture of another host',
    svg('<image width="32" height="32" href="http://127.0.0.1:1/x.png"/>'),
    /from another address/,
  ],
  ['shows a file of the machine', svg('<image width="32" height="32" href="file:///etc/passwd"/>'), /shows nothing/],
  ['has text', svg('<text y="20">N</text>'), /it has <text>.*turn it into paths/],
  ['has a page in it', svg('<foreignObject width="9" height="9"/>'), /it has <foreignObject>/],
  ['is empty', svg(''), /shows nothing/],
  ['has no size', svg('<path d="M0 0h9"/>', 'viewBox="0 0 0 0"'), /./],
  ['is as thin as a thread', svg('<rect width="9" height="1"/>', 'viewBox="0 0 100000 1"'), /./],
  ['is no XML', 'hello', /unknown token/],
  ['is no SVG', '<html><body/></html>', /root/],
  ['is not closed', '<svg', /./],
  ['has many comments that do not end', '<!--'.repeat(65_000), /./],
  ['is binary', Buffer.from([0xff, 0xfe, 0x00, 0x01]), /./],
  ['is packed', gzipSync(Buffer.alloc(100_000, 0x20)), /./],
  ['is too large', svg(' '.repeat(LIMITS.iconBytes)), /more than 262144 bytes/],
];

for (const [name, icon, why] of UNDRAWN) {
  test(`an icon that ${name} is a warning, and nothing is drawn`, async () => {
    const { files, warnings } = await iconsOf(icon);
    assert.deepEqual(
      warnings.map(({ path, keyword }) => [path, keyword]),
      [['icon.svg', 'icon']],
    );
    assert.match(warnings[0]?.message ?? '', why);
    assert.equal(files.size, 0);
  });
}

test('an icon with a layer for each of many groups takes no more memory than it may, and says so', async () => {
  const layers = svg(deep(500, 'opacity=".9"'));
  // On a slow machine the time that icons have would be over before.
  const drawn = drawing(layers, (draw) => draw(512), LONG_MS);
  await assert.rejects(drawn, { message: 'drawing it takes too much memory; make it simpler' });
});

test('an icon that has to wait for the processor is drawn', async () => {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  let begun = 0;
  // It waits where others would use the processor.
  const work = () => {
    begun++;
    return Atomics.wait(cell, 0, 0, 300);
  };
  assert.equal(await drawing(svg('<rect width="9" height="9"/>'), work, 200), 'timed-out');
  assert.ok(begun > 1);
});

test("a drawing asks for nothing that loads Node's HTTP client", async () => {
  const asked: string[] = [];
  const names = ['Request', 'Response', 'fetch'];
  const before = names.map((name) => Object.getOwnPropertyDescriptor(globalThis, name) as PropertyDescriptor);
  for (const name of names)
    Object.defineProperty(globalThis, name, { configurable: true, get: () => asked.push(name) });
  try {
    await drawing(svg('<rect width="9" height="9"/>'), (draw) => draw(9));
  } finally {
    for (const [i, name] of names.entries()) Object.defineProperty(globalThis, name, before[i] as PropertyDescriptor);
  }
  assert.deepEqual(asked, []);
});

test('the memory of a module gets a largest size, and a module without one is refused', () => {
  const head = Buffer.from('\0asm\x01\0\0\0', 'latin1');
  // A custom section, then a memory of at least 300 pages.
  const custom = [0, 2, 1, 97];
  const limited = withMemoryLimit(Buffer.from([...head, ...custom, 5, 4, 1, 0, 0xac, 2, 10, 1, 0]));
  assert.deepEqual([...limited], [...head, ...custom, 5, 6, 1, 1, 0xac, 2, 0x80, 0x10, 10, 1, 0]);
  for (const other of [[], custom, [5, 5, 1, 1, 0xac, 2, 9]])
    assert.throws(() => withMemoryLimit(Buffer.from([...head, ...other])), /another memory/);
});
