// The jobs process: what it does, what ends a job and what ends the process, and what it cannot reach.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { build } from 'esbuild';
import { LIMITS } from '../../protocol/limits.ts';
import type { IngestJob } from '../../protocol/wire/jobs.ts';
import { appFiles, tarball } from '../../testing/archive.ts';
import { eventually } from '../../testing/edges.ts';
import { buildJobModule } from '../../testing/job-module.ts';
import { type OpenJobs, type OpenJobsOptions, openJobs } from '../../testing/jobs.ts';
import { inTime, LONG_MS } from '../../testing/waiting.ts';

const root = mkdtempSync(join(tmpdir(), 'jobs-'));
after(() => rmSync(root, { recursive: true, force: true }));
const thread = await buildJobModule(root);
let modules = 0;

async function open(t: TestContext, options: OpenJobsOptions = {}): Promise<OpenJobs> {
  const opened = await openJobs(root, { thread, ...options });
  t.after(opened.close);
  return opened;
}

function uploaded(name: string, archive: Buffer): IngestJob {
  const staging = join(root, name);
  mkdirSync(staging);
  writeFileSync(join(root, `${name}.tgz`), archive);
  const source = { archive: join(root, `${name}.tgz`) };
  return { source, commit: null, app: 'notes', staging, uploadedAt: 0, known: [], active: null };
}

/** A module of job threads in the place of the real one: its `ingest` runs this. */
function jobModule(code: string): string {
  const file = join(root, `module-${++modules}.mjs`);
  writeFileSync(
    file,
    `import * as fs from 'node:fs';
export async function ingest({ job, memory }) { ${code} }
export const layOut = ingest;
export async function check({ job }) { return { ok: true, value: { manifestSha256: job.app } }; }`,
  );
  return file;
}

const ordered = (app: string, more: object = {}) => ({ app, ...more }) as unknown as IngestJob;

test('no process runs before the first job, and it ends when there was none for a time', async (t) => {
  let at = 0;
  const { jobs, child } = await open(t, { now: () => at });
  assert.deepEqual([child.state, child.pid], ['stopped', null]);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const done = jobs.check({ code: join(root, 'none'), app: 'none' }).catch(() => {});
  assert.equal(child.state, 'starting');
  await done;
  assert.equal(child.state, 'running');
  at = LIMITS.jobIdleMs;
  t.mock.timers.tick(LIMITS.jobIdleMs);
  await eventually(() => child.state === 'stopped');
  t.mock.timers.reset();
  await assert.rejects(jobs.check({ code: join(root, 'none'), app: 'none' }));
  assert.equal(child.state, 'running', 'and it comes back');
  assert.equal(child.restarts, 0);
});

test('an archive is checked in another process, and its errors come back unchanged', async (t) => {
  const { jobs, child } = await open(t);
  const result = await jobs.ingest(uploaded('good', tarball(appFiles('notes'))));
  assert.ok('staged' in result && result.staged.name === 'Notes');
  assert.ok(child.pid !== null && child.pid !== process.pid);
  await assert.rejects(jobs.ingest(uploaded('bad', tarball({ 'a.sh': '' }))), {
    code: 'ARCHIVE_EXTENSION',
    path: 'a.sh',
    status: 400,
  });
  await assert.rejects(
    jobs.ingest(uploaded('wrong', tarball({ 'app.json': '{}' }))),
    (error: { issues?: unknown[] }) => error.issues?.length === 3,
  );
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
  test(`a job that ${name} fails alone, and the process goes on`, async (t) => {
    const { jobs, child, log } = await open(t, { thread: jobModule(code), threadMemoryMb: 32 });
    await assert.rejects(jobs.ingest(ordered('a')), (error: Error & { code: string }) => {
      assert.equal(error.code, expected.code, error.message);
      assert.doesNotMatch(error.message, /\/some\/path/);
      return true;
    });
    assert.equal(log.length, expected.code === 'INTERNAL' ? 1 : 0, 'the log has the details of a fault of ours');
    assert.deepEqual(await jobs.check({ code: '', app: 'x' }), { manifestSha256: 'x' });
    assert.equal(child.restarts, 0);
  });
}

test('a module that cannot be loaded fails its jobs, and they do not wait for ever', async (t) => {
  const { jobs } = await open(t, { thread: join(root, 'none.mjs') });
  const results = await Promise.allSettled(['a', 'b', 'c'].map((app) => jobs.ingest(ordered(app))));
  for (const result of results) assert.equal(result.status === 'rejected' && result.reason.code, 'INTERNAL');
  await assert.rejects(jobs.ingest(ordered('a')), { code: 'INTERNAL' });
});

test('a job that does not end is ended at its limit, which begins when it starts', async (t) => {
  const { jobs } = await open(t, {
    thread: jobModule(
      `if (job.endless) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); return { ok: true, value: 'done' };`,
    ),
    // Long enough to start a thread on a busy machine.
    jobMs: 5000,
  });
  const endless = [1, 2].map(() => jobs.ingest(ordered('a', { endless: true })));
  const last = jobs.ingest(ordered('a'));
  for (const one of endless) await assert.rejects(one, { code: 'INVALID_ARCHIVE', message: /took too long/ });
  // It waited for longer than a job may take.
  assert.equal(await last, 'done' as never);
});

test('a job that waits for longer than it may is refused, and those before it go on', async (t) => {
  const thread = jobModule(
    `fs.writeFileSync(job.started, '');
     while (!fs.existsSync(job.go)) await new Promise((r) => setTimeout(r, 10));
     return { ok: true, value: 'done' };`,
  );
  const { jobs } = await open(t, { thread, jobMs: LONG_MS, waitMs: 0 });
  const [started, go] = [join(root, 'first-started'), join(root, 'first-go')];
  const first = jobs.ingest(ordered('a', { started, go }));
  await eventually(() => existsSync(started));
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const waiting = jobs.ingest(ordered('a', { started, go }));
  t.mock.timers.tick(LONG_MS);
  await assert.rejects(waiting, { code: 'OVERLOADED', message: 'Checking the upload waited for too long; try again.' });
  t.mock.timers.reset();
  writeFileSync(go, '');
  assert.equal(await first, 'done' as never);
});

test('a job that is started again has only the time that is left of its own', async (t) => {
  let at = 0;
  const thread = jobModule(
    `fs.writeFileSync(job.started, ''); for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);`,
  );
  const { jobs, child } = await open(t, { thread, jobMs: LONG_MS, waitMs: LONG_MS, now: () => at });
  const started = join(root, 'again-started');
  const endless = jobs.ingest(ordered('a', { started }));
  endless.catch(() => {});
  await eventually(() => existsSync(started) && child.stats !== null);
  at = 2 * LONG_MS - 1;
  process.kill(child.pid as number, 'SIGKILL');
  await assert.rejects(inTime(endless, 'the end of the job', LONG_MS), {
    code: 'INVALID_ARCHIVE',
    message: /took too long/,
  });
});

test('a job that was under way when the process was killed is done again, and one that cannot be says so', async (t) => {
  const thread = jobModule(
    `fs.appendFileSync(${JSON.stringify(join(root, 'started'))}, job.mark);
     if (!fs.existsSync(job.go)) for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
     return { ok: true, value: 'done' };`,
  );
  const { jobs, child } = await open(t, { thread });
  const go = join(root, 'go');
  const again = jobs.ingest(ordered('a', { go, mark: 'a' }));
  const cut = jobs.layOut({ id: 'b', go, mark: 'b' } as never);
  cut.catch(() => {});
  await eventually(() => existsSync(join(root, 'started')) && child.stats !== null);
  writeFileSync(go, '');
  process.kill(child.pid as number, 'SIGKILL');
  assert.equal(await again, 'done' as never);
  await assert.rejects(cut, { code: 'OVERLOADED', status: 503, message: /was interrupted: its process/ });
  assert.equal(child.restarts, 1);
});

test('memory over the limit of the process ends only the job that takes it', async (t) => {
  const thread = jobModule(
    `if (job.app !== 'bomb') { await new Promise((r) => setTimeout(r, 500)); return { ok: true, value: 'done' }; }
     const kept = []; for (;;) { kept.push(Buffer.alloc(16 << 20, 1)); await new Promise((r) => setTimeout(r, 10)); }`,
  );
  const { jobs, child } = await open(t, { thread, memoryMb: 400 });
  const bomb = jobs.ingest(ordered('bomb'));
  const other = jobs.ingest(ordered('other'));
  await assert.rejects(bomb, { code: 'INVALID_ARCHIVE', message: /took too much memory/ });
  assert.equal(await other, 'done' as never);
  assert.match(child.lastExit ?? '', /out of memory: it used more than 400 MiB/);
});

test('schemas that take too long to compile are refused with the place of the one it was at', async (t) => {
  const { jobs } = await open(t);
  const oneOf = Array.from({ length: 1500 }, (_, i) => ({ required: [`p${i}`], properties: { [`p${i}`]: {} } }));
  // Several seconds each on a machine that does nothing else.
  const slow = ['slow', 'slower', 'slowest', 'never'].map((name) => ({
    name,
    input: { oneOf, unevaluatedProperties: false },
  }));
  const queries = [{ name: 'good', input: { type: 'object' } }, ...slow];
  const handlers = Object.fromEntries(queries.map(({ name }) => [`queries/${name}.js`, 'export default () => 1;']));
  const files = { ...appFiles('notes'), ...handlers };
  const manifest = { ...JSON.parse(String((files as Record<string, unknown>)['app.json'])), queries };
  const job = jobs.ingest(uploaded('slow', tarball({ ...files, 'app.json': JSON.stringify(manifest) })));
  await assert.rejects(inTime(job, 'the refusal', LONG_MS), {
    code: 'INVALID_MANIFEST',
    path: /^queries\[[1-4]\]\.input$/,
    message: /takes more than 5 s to compile/,
  });
});

test('a job thread cannot reach other files, other processes or the environment', async (t) => {
  const outside = mkdtempSync(join(tmpdir(), 'outside-'));
  t.after(() => rmSync(outside, { recursive: true }));
  process.env.SVC_TEST_SECRET = 'secret';
  t.after(() => delete process.env.SVC_TEST_SECRET);
  const thread = jobModule(`
    const { spawnSync } = await import('node:child_process');
    const { Worker } = await import('node:worker_threads');
    const tries = {
      read: () => fs.readFileSync('/etc/passwd'),
      list: () => fs.readdirSync(${JSON.stringify(outside)}),
      write: () => fs.writeFileSync(${JSON.stringify(join(outside, 'x'))}, ''),
      link: () => fs.symlinkSync('/etc/passwd', ${JSON.stringify(join(root, 'passwd'))}),
      remove: () => fs.rmSync(${JSON.stringify(outside)}, { recursive: true }),
      spawn: () => spawnSync('/bin/true'),
    };
    // Node hands NODE_V8_COVERAGE on to whatever it starts, an empty environment or not.
    const value = { env: Object.keys(process.env).filter((name) => name !== 'NODE_V8_COVERAGE').length, inside: fs.existsSync(job.inside) };
    for (const [name, attempt] of Object.entries(tries)) {
      try { attempt(); value[name] = 'done'; } catch (error) { value[name] = error.code; }
    }
    return { ok: true, value };`);
  const { jobs } = await open(t, { thread });
  const denied = 'ERR_ACCESS_DENIED';
  assert.deepEqual(await jobs.ingest(ordered('a', { inside: thread })), {
    env: 0,
    inside: true,
    read: denied,
    list: denied,
    write: denied,
    link: denied,
    remove: denied,
    spawn: denied,
  } as never);
  assert.ok(existsSync(outside));
});

test('a job thread flushes its writes, also where Node denies that to its process, and gets the code of an error', async (t) => {
  const file = join(root, 'flushing.mjs');
  await build({
    stdin: {
      contents: `
        import { flush, flushElsewhere } from './storage/files/flush.ts';
        import { flushesOfThread } from './workers/jobs/flush-relay.ts';
        flushElsewhere(flushesOfThread());
        export async function ingest({ job }) {
          // As Node does from version 26 on.
          const denying = { sync: async () => { throw Object.assign(new Error('denied'), { code: 'ERR_ACCESS_DENIED' }); } };
          const flushed = job.paths.map((path) => flush(denying, path).then(() => null, ({ code }) => code));
          return { ok: true, value: await Promise.all(flushed) };
        }`,
      resolveDir: join(import.meta.dirname, '../..'),
    },
    bundle: true,
    platform: 'node',
    format: 'esm',
    outfile: file,
  });
  const { jobs, log } = await open(t, { thread: file });
  const paths = [...Array.from({ length: 50 }, () => root), file, join(root, 'gone')];
  const expected = [...paths.slice(1).map(() => null), 'ENOENT'];
  const both = [1, 2].map(() => jobs.ingest({ app: 'a', paths } as never));
  for (const results of await Promise.all(both)) assert.deepEqual(results, expected);
  assert.deepEqual(log, []);
});

test('too many jobs of one kind are refused by its name, and other apps still have places', async (t) => {
  const thread = jobModule(
    `if (job.app === 'a') await new Promise((r) => setTimeout(r, 60_000)); return { ok: true, value: job.app };`,
  );
  const { jobs } = await open(t, { thread });
  const waiting = Array.from({ length: LIMITS.jobQueue }, () => jobs.ingest(ordered('a')));
  const refused = await Promise.any(
    waiting.map((one) =>
      one.then(
        () => null,
        (error: unknown) => error,
      ),
    ),
  );
  assert.deepEqual(
    [(refused as { code?: string }).code, (refused as Error).message],
    ['OVERLOADED', 'Too many uploads and publications wait already; try again.'],
  );
  assert.equal(await jobs.ingest(ordered('b')), 'b' as never);
  const git = Array.from({ length: LIMITS.jobQueue }, () => jobs.git('listVersions', { app: 'a' } as never));
  const refusals = await Promise.any(
    git.map((one) =>
      one.then(
        () => null,
        (error: unknown) => error,
      ),
    ),
  );
  assert.match((refusals as Error).message, /operations on the git repository/);
});

test('a job that is cancelled ends soon, and one that waits at once', async (t) => {
  const started = join(root, 'pack-started');
  const file = jobModule('');
  writeFileSync(
    file,
    `import * as fs from 'node:fs';
     export async function pack({ memory }) {
       fs.writeFileSync(${JSON.stringify(started)}, '');
       const head = new Int32Array(memory, 0, 1);
       while (Atomics.load(head, 0) === 0) await new Promise((r) => setTimeout(r, 10));
       return { ok: false, error: { code: 'OVERLOADED', message: 'The work was cancelled.' } };
     }`,
  );
  const { jobs } = await open(t, { thread: file });
  const [first, second] = [new AbortController(), new AbortController()];
  const work = { workspace: root, work: { sources: [] } };
  const running = jobs.pack(work, first.signal);
  const waiting = jobs.pack(work, second.signal);
  await eventually(() => existsSync(started));
  second.abort();
  await assert.rejects(waiting, { code: 'OVERLOADED', message: 'Packing an app was cancelled.' });
  first.abort();
  await assert.rejects(running, { code: 'OVERLOADED', message: 'The work was cancelled.' });
  await assert.rejects(jobs.pack(work, first.signal), { code: 'OVERLOADED' });
});
