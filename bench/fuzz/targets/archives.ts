/** Archives: whatever is uploaded, nothing is written outside its staging folder, and a refusal leaves nothing at all. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { LIMITS } from '../../../protocol/limits.ts';
import { appFiles, type Entry, gnuName, paxName, tar, tarEntry } from '../../../testing/archive.ts';
import { ingest } from '../../../workers/jobs/content/ingest.ts';
import { anyBytes, awkwardText, mutated, usually } from '../arbitraries.ts';
import { type FuzzedGateway, startFuzzed } from '../gateway.ts';
import { refusalOf } from '../oracle.ts';
import { check, type Target } from '../target.ts';
import words from '../words.json' with { type: 'json' };

const APP = 'notes';

const part = fc.oneof(
  fc.constantFrom(...words.pathParts, `${'x'.repeat(250)}.js`, `${'y'.repeat(300)}.js`, 'x/'.repeat(120)),
  awkwardText,
);
const name = fc
  .tuple(fc.constantFrom('', '/', './', '../', '//', '\\\\h\\', 'C:\\'), fc.array(part, { minLength: 1, maxLength: 4 }))
  .map(([start, parts]) => start + parts.join('/'));
const content = fc.oneof(
  fc.string({ maxLength: 40 }),
  fc.constantFrom(Buffer.alloc(600, 0xff), Buffer.alloc(100_000), gzipSync('x'), tar({ 'a.js': '1' }), '\ud800'),
);
const type = usually(fc.constantFrom('0', '5'), fc.constantFrom(...words.types));
const size = fc.option(fc.constantFrom(0, 1, 511, 512, 513, 2 ** 20, 2 ** 30, 2 ** 33 - 1), {
  freq: 8,
  nil: undefined,
});
const entry: fc.Arbitrary<Entry[]> = fc.oneof(
  fc
    .record({ name, content, type, link: fc.constantFrom('', '/etc/passwd', '../../x', 'index.html'), size })
    .map(({ size: claimed, ...rest }) => [claimed === undefined ? rest : { ...rest, size: claimed }]),
  fc.tuple(name, content).map(([long, text]) => [paxName(long), { name: 'short.js', content: text }]),
  fc.tuple(name, content).map(([long, text]) => [gnuName(long), { name: 'short.js', content: text }]),
  fc.constantFrom(...words.paxRecords).map((record) => [
    { name: 'PaxHeader/x', type: 'x', content: record },
    { name: 'b.js', content: 'x' },
  ]),
);

const SOUND: Entry[] = Object.entries({
  ...appFiles(APP, { queries: [{ name: 'list', input: { type: 'object' } }] }),
  'queries/list.js': 'export default () => 1;\n',
  'migrations/0001_x.sql': 'CREATE TABLE t (v);',
  'style.css': 'p { margin: 0 }\n'.repeat(200),
}).map(([path, text]) => ({ name: path, content: text }));

const withEntries = fc
  .tuple(fc.array(entry, { maxLength: 6 }), fc.boolean())
  .map(([more, first]) => gzipSync(tar(first ? [...more.flat(), ...SOUND] : [...SOUND, ...more.flat()]), { level: 1 }));
const changedTar = mutated(fc.constant(tar(SOUND)), 3).map((bytes) => gzipSync(bytes, { level: 1 }));
const changedGzip = mutated(fc.constant(gzipSync(tar(SOUND))), 3);
const junk = anyBytes(200);
const archive = fc.oneof(
  withEntries,
  changedTar,
  changedGzip,
  junk,
  junk.map((bytes) => gzipSync(bytes)),
);

const withMore = (more: Entry[]): Buffer => gzipSync(tar([...SOUND, ...more]), { level: 1 });

/** Little to send, much to unpack. */
const bomb = fc.oneof(
  fc.constantFrom(1, 8, 72).map((mib) => gzipSync(Buffer.alloc(mib * 2 ** 20), { level: 9 })),
  fc
    .integer({ min: 4000, max: 6000 })
    .map((files) => withMore(Array.from({ length: files }, (_, i) => ({ name: `f/${i}.js`, content: '1' })))),
  fc.integer({ min: 1, max: 12 }).map((files) => {
    const content = Buffer.alloc(LIMITS.archiveFileBytes);
    return withMore(Array.from({ length: files }, (_, i) => ({ name: `${i}.js`, content })));
  }),
  fc.constant(
    gzipSync(
      Buffer.concat([...SOUND.map(tarEntry), tarEntry({ name: 'a.js', size: 2 ** 33 - 1 }), Buffer.alloc(2 ** 22)]),
      { level: 1 },
    ),
  ),
  fc.constant(Buffer.concat(Array.from({ length: 200 }, () => gzipSync(tar(SOUND))))),
);

/** The real job on the real disk, in `folder`. */
async function take(folder: string, bytes: Buffer): Promise<void> {
  const staging = join(folder, 'staging');
  const file = join(folder, 'upload.tgz');
  // What an input left that failed.
  rmSync(folder, { recursive: true });
  mkdirSync(staging, { recursive: true });
  writeFileSync(file, bytes);
  const refusal = await refusalOf(async () => {
    const job = { source: { archive: file }, commit: null, app: APP, staging, uploadedAt: Date.UTC(2026, 0, 1) };
    await ingest({ ...job, known: [], active: null });
    assert.deepEqual(readdirSync(staging).sort(), ['code', 'prepared']);
  });
  if (refusal !== null) assert.match(refusal.code, /^(?:INVALID_(?:ARCHIVE|MANIFEST|MIGRATION|AUTOMATION)|ARCHIVE_)/);
  assert.deepEqual(readdirSync(folder).sort(), refusal === null ? ['staging', 'upload.tgz'] : ['upload.tgz']);
  for (const found of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    assert.ok(found.isFile() || found.isDirectory(), `${found.name} is neither file nor folder`);
  }
}

/** The same over HTTP: typed answers, and nothing left of what was refused. */
async function upload(fuzzed: FuzzedGateway, bytes: Buffer): Promise<void> {
  const { gateway } = fuzzed;
  const { status, text } = await fuzzed.post(`/svc/_apps/${APP}/upload`, bytes);
  assert.ok(status < 500, `${status} ${text.slice(0, 300)}`);
  assert.deepEqual(readdirSync(join(gateway.dataDir, 'tmp')), [], 'something is left of an upload');
  await fuzzed.assertSound();
}

export const archives: Target = {
  name: 'archives',
  claim: 'An upload is stored whole or refused with a typed error; nothing is written elsewhere, nothing is left.',
  open: async (stage) => {
    const folder = stage.newFolder();
    const fuzzed = await startFuzzed(stage, {});
    return [
      check('entries and bytes', 20_000, archive, (bytes) => take(folder, bytes)),
      check('bombs', 200, bomb, (bytes) => take(folder, bytes)),
      check('over HTTP', 6000, archive, (bytes) => upload(fuzzed, bytes)),
    ];
  },
};
