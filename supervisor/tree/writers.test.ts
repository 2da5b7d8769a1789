import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import type { ConnectionProgress } from '../../protocol/wire/frames.ts';
import { standIn } from '../../testing/stand-in.ts';
import type { Child, ChildSpec } from './child.ts';
import { Writers } from './writers.ts';

/** A process that is only named. */
class Process {
  readonly spec: ChildSpec;
  state = 'stopped';
  pid: number | null = null;
  stats = { counters: { statements: 0, migrations: 0 } };

  constructor(spec: ChildSpec) {
    this.spec = spec;
  }

  get name(): string {
    return this.spec.name;
  }

  start(): void {
    this.state = 'running';
    this.pid = 1;
  }

  destroy(): void {
    this.state = 'stopped';
    this.pid = null;
  }

  async stop(): Promise<void> {
    this.destroy();
  }
}

let now: number;
let writers: Writers;
const progress: ConnectionProgress[] = [[11, 3, 0]];
const UNKNOWN = { progress: [], isPartial: true };

beforeEach(() => {
  now = 1e9;
  writers = writersThat();
});

const writersThat = (mayIsolate?: boolean) =>
  new Writers(
    standIn({
      socket: (name) => `/${name}.sock`,
      writer: ({ name, only, elsewhere, before }) => ({
        name,
        role: 'writer',
        entry: '',
        bootstrap: () => ({ only, elsewhere: elsewhere(), before: before() }),
      }),
    }),
    (spec) => new Process(spec) as unknown as Child,
    () => now,
    mayIsolate,
  );

const processOf = (name: string) => writers.find(name) as unknown as Process;
const told = (name: string) => processOf(name).spec.bootstrap() as Record<string, unknown>;
const isolate = (app: string) => writers.isolate(app, `/${app}`);

test('a separate writer takes over what the shared one said; a later one of the app knows nothing', () => {
  writers.handover.writerStuck(progress);
  assert.equal(isolate('a'), true);
  writers.handover.writerEnded();
  const before = { progress, isPartial: false };
  assert.deepEqual(told('writer-1'), { only: '/a', elsewhere: {}, before });
  assert.deepEqual(told('writer'), { only: null, elsewhere: { '/a': '/writer-1.sock' }, before });
  assert.deepEqual(told('writer-1').before, UNKNOWN);
  assert.equal(isolate('a'), true);
  assert.equal(writers.all.length, 2);
});

test('where a writer ended without a word, others than those that were reported are unknown for a while', () => {
  writers.handover.writerEnded();
  now += LIMITS.handoverMs / 2;
  writers.handover.writerStuck(progress);
  writers.handover.writerEnded();
  assert.deepEqual(told('writer').before, { progress, isPartial: true });
  now += LIMITS.handoverMs / 2 + 1;
  assert.deepEqual(told('writer').before, { progress, isPartial: false });
  now += LIMITS.handoverMs;
  assert.deepEqual(told('writer').before, { progress: [], isPartial: false });
});

test('at a node of a cluster no app gets a separate writer', () => {
  writers = writersThat(false);
  assert.deepEqual([writers.hasRoom, isolate('todos')], [false, false]);
  assert.match(writers.whyNoRoom, /a node of a cluster/);
});

test('when too many apps have a separate writer, one that is idle loses it', () => {
  const apps = Array.from({ length: LIMITS.ownWriters }, (_, n) => `app${n}`);
  assert.deepEqual(
    apps.map((app) => [writers.hasRoom, isolate(app)]),
    apps.map(() => [true, true]),
  );
  assert.deepEqual([writers.hasRoom, isolate('late')], [false, false]);
  assert.match(writers.whyNoRoom, /^too many apps/);
  now += 2 * LIMITS.writerStuckMs + 1;
  // The first one has worked since.
  processOf('writer-1').stats.counters.statements = 5;
  writers.tidy(() => true);
  assert.deepEqual([writers.hasRoom, isolate('late')], [true, true]);
  const { elsewhere, before } = told('writer');
  assert.deepEqual(Object.keys(elsewhere as object).sort(), ['/app0', '/app2', '/app3', '/late']);
  // It may have taken something in the last moment.
  assert.deepEqual(before, UNKNOWN);
});

test('a writer with a migration under way is not idle', () => {
  for (let n = 0; n < LIMITS.ownWriters; n++) {
    isolate(`app${n}`);
    processOf(`writer-${n + 1}`).stats.counters.migrations = 1;
  }
  now += 2 * LIMITS.writerStuckMs + 1;
  writers.tidy(() => true);
  assert.deepEqual([writers.hasRoom, isolate('late')], [false, false]);
});

test('the writer of an app that was removed ends after a while, and starts again if it comes back', async () => {
  isolate('a');
  writers.tidy(() => false);
  now += LIMITS.ownWriterIdleMs;
  writers.tidy(() => false);
  assert.equal(processOf('writer-1').state, 'running');
  now += 1;
  writers.tidy(() => false);
  assert.equal(processOf('writer-1').state, 'stopped');
  assert.equal(writers.socketOf('/a'), '/writer.sock');
  assert.equal(processOf('writer-1').state, 'running');
});

test('apps that come back after their writer ended take no more processes than others', async () => {
  const apps = Array.from({ length: LIMITS.ownWriters }, (_, n) => `app${n}`);
  for (const app of apps) isolate(app);
  now += 2 * LIMITS.ownWriterIdleMs;
  writers.tidy(() => false);
  const ended = processOf('writer-1');
  assert.equal(ended.state, 'stopped');
  for (const app of apps) isolate(`late-${app}`);
  for (const app of apps) writers.socketOf(`/${app}`);
  assert.equal(writers.all.length, 1 + LIMITS.ownWriters);
  assert.equal(ended.state, 'stopped');
});

test('no app gets a separate writer once all writers are stopped', async () => {
  const stopped = writers.stop();
  assert.deepEqual([writers.hasRoom, isolate('a')], [false, false]);
  await stopped;
  assert.deepEqual(writers.all, [writers.main]);
});
