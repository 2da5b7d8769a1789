import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { IngestJob } from '../protocol/jobs.ts';
import { appFiles, tarball } from '../test/support/archive.ts';
import { buildJobModule } from '../test/support/job-module.ts';
import { Jobs } from './jobs.ts';

const root = mkdtempSync(join(tmpdir(), 'jobs-'));
after(() => rmSync(root, { recursive: true, force: true }));
const realJobs = await buildJobModule(root);

function uploaded(name: string, archive: Buffer): IngestJob {
  const staging = join(root, name);
  mkdirSync(staging);
  writeFileSync(join(root, `${name}.tgz`), archive);
  const source = { archive: join(root, `${name}.tgz`) };
  return { source, commit: null, app: 'notes', staging, uploadedAt: 0, known: [], active: null };
}

/** A module of job threads in the place of the real one. */
function jobModule(name: string, code: string): string {
  const file = join(root, `${name}.mjs`);
  writeFileSync(file, code);
  return file;
}

test('no thread lives before the first job', async () => {
  const jobs = new Jobs({ file: realJobs });
  assert.equal(await jobs.threads(), 0);
  await jobs.close();
});

test('an archive is taken in another thread, and its errors come back as they were', async () => {
  const jobs = new Jobs({ file: realJobs });
  const result = await jobs.ingest(uploaded('good', tarball(appFiles('notes'))));
  assert.ok('staged' in result && result.staged.name === 'Notes');
  assert.ok((await jobs.threads()) > 0);
  await assert.rejects(jobs.ingest(uploaded('bad', tarball({ 'a.sh': '' }))), {
    code: 'ARCHIVE_EXTENSION',
    path: 'a.sh',
    status: 400,
  });
  await assert.rejects(
    jobs.ingest(uploaded('wrong', tarball({ 'app.json': '{}' }))),
    (error: { issues?: unknown[] }) => error.issues?.length === 3,
  );
  await jobs.close();
});

const DEATHS: [name: string, code: string, expected: { code: string }][] = [
  [
    'runs out of memory',
    'const kept = []; for (;;) kept.push(new Array(1e5).fill(kept.length));',
    { code: 'INVALID_ARCHIVE' },
  ],
  ['exits', 'process.exit(3)', { code: 'INTERNAL' }],
  ['throws', 'throw new Error("a fault at /some/path")', { code: 'INTERNAL' }],
];

for (const [name, code, expected] of DEATHS) {
  test(`a job that ${name} fails alone`, async () => {
    const file = jobModule(
      name.replaceAll(' ', '-'),
      `export async function ingest() { ${code} }\nexport async function check() { return { ok: true, value: { manifestSha256: 'x' } }; }`,
    );
    const jobs = new Jobs({ file, memoryMb: 32 });
    await assert.rejects(jobs.ingest({} as IngestJob), (error: Error & { code: string }) => {
      assert.equal(error.code, expected.code, error.message);
      assert.doesNotMatch(error.message, /\/some\/path/);
      return true;
    });
    assert.deepEqual(await jobs.check({ code: '', app: '' }), { manifestSha256: 'x' });
    await jobs.close();
  });
}

test('a module that cannot be loaded fails its jobs, and they do not wait for ever', async () => {
  const jobs = new Jobs({ file: join(root, 'none.mjs') });
  const results = await Promise.allSettled([1, 2, 3].map(() => jobs.ingest({} as IngestJob)));
  for (const result of results) assert.equal(result.status === 'rejected' && result.reason.code, 'INTERNAL');
  await assert.rejects(jobs.ingest({} as IngestJob), { code: 'INTERNAL' });
  await jobs.close();
});

test('a job that does not end is ended at its limit', async () => {
  const file = jobModule('endless', 'export async function ingest() { for (;;); }');
  const jobs = new Jobs({ file, jobMs: 300 });
  await assert.rejects(jobs.ingest({} as IngestJob), { code: 'INVALID_ARCHIVE', message: /took too long/ });
  await jobs.close();
});
