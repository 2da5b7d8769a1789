import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { eventually } from '../../testing/edges.ts';
import { type App, FakeSupervisor, failure } from '../../testing/fake-supervisor.ts';

const APP = {
  files: {
    'queries/one.js': 'export default () => 1;',
    'queries/slow.js': `export default ({ log }) => new Promise((done) => { log.info('running'); setTimeout(done, 50, 'done'); });`,
    'queries/forever.js': `export default ({ log }) => { log.info('running'); return new Promise(() => {}); };`,
    'queries/loop.js': `export default async ({ log }) => { log.info('running'); await new Promise((go) => setTimeout(go, 10)); for (;;); };`,
    // As long as there is no database, the writer would run the statement, and never end.
    'queries/native.js': `export default async ({ log, db }) => {
      await db.exec('CREATE TABLE t (v)');
      log.info('running');
      await new Promise((go) => setTimeout(go, 10));
      return db.get('with n(v) as (select 1 union all select v + 1 from n) select count(*) from n');
    };`,
    'queries/memory.js': `const kept = []; export default async () => { for (;;) kept.push(new Array(10_000).fill(1.5)); };`,
    'queries/buffers.js': `const kept = []; export default async ({ input }) => {
      for (;;) { kept.push(new Uint8Array(1 << 20).fill(1)); if (input.rest) await new Promise((go) => setTimeout(go, 1)); }
    };`,
    'queries/shared.js': `const kept = []; export default async () => { for (;;) kept.push(new Uint8Array(new SharedArrayBuffer(1 << 20)).fill(1)); };`,
    'queries/garbage.js': `export default async () => {
      for (let n = 0; n < 400; n++) { new Uint8Array(1 << 20).fill(1); if (n % 20 === 0) await new Promise((go) => setTimeout(go, 5)); }
      return 'done';
    };`,
    'queries/timer.js': `export default async () => { setTimeout(() => { throw new Error('in a timer'); }, 0); return new Promise(() => {}); };`,
    'queries/event.js': `export default async () => { const t = new EventTarget(); t.addEventListener('x', () => { throw new Error('in a listener'); }); t.dispatchEvent(new Event('x')); return new Promise(() => {}); };`,
  },
};

let supervisor: FakeSupervisor;

async function running(app: App, tool: string): Promise<void> {
  app.query(tool).catch(() => {});
  await app.log(({ msg }) => msg === 'running');
}

for (const spare of [false, true]) {
  describe(`actors of a host ${spare ? 'with' : 'without'} a spare thread`, () => {
    before(async () => {
      supervisor = await FakeSupervisor.start({ spare });
    });
    afterEach(() => supervisor.endApps());
    after(() => supervisor.close());

    test('many start at once, answer, and stop', async () => {
      const apps = await Promise.all(Array.from({ length: 4 }, () => supervisor.app(APP)));
      const outcomes = await Promise.all(apps.map((app) => app.query('one')));
      assert.deepEqual(
        outcomes.map(({ value }) => value),
        [1, 1, 1, 1],
      );
      assert.equal((await supervisor.ping()).counters?.actors, 4);
      for (const app of apps) app.stop();
      assert.deepEqual(
        await Promise.all(apps.map((app) => app.exited)),
        apps.map(() => ({ reason: 'stopped', detail: '' })),
      );
      assert.equal((await supervisor.ping()).counters?.actors, 0);
    });

    test('a stop lets the calls in flight finish', async () => {
      const app = await supervisor.app(APP);
      const slow = app.query('slow');
      await app.log(({ msg }) => msg === 'running');
      app.stop();
      assert.equal((await slow).value, 'done');
      assert.equal((await app.exited).reason, 'stopped');
    });

    test('memory over the limit ends that actor alone', async () => {
      const other = await supervisor.app(APP);
      const app = await supervisor.app(APP);
      app.query('memory').catch(() => {});
      assert.deepEqual(await app.exited, { reason: 'memory', detail: 'The app needed more than 64 MiB of memory.' });
      assert.equal((await other.query('one')).value, 1);
    });
  });
}

test('an app that takes the spare thread is followed by the next one', {
  skip: !existsSync('/proc/self/task'),
}, async () => {
  const host = await FakeSupervisor.start({ spare: true });
  try {
    const threads = () => readdirSync(`/proc/${host.host.pid}/task`).length;
    for (let apps = 1; apps <= 3; apps++) {
      const before = threads();
      await host.app(APP);
      await eventually(() => threads() > before);
    }
  } finally {
    await host.endApps();
    await host.close();
  }
});

describe('actors', () => {
  before(async () => {
    supervisor = await FakeSupervisor.start({ spare: false });
  });
  afterEach(() => supervisor.endApps());
  after(() => supervisor.close());

  for (const [tool, what] of [
    ['forever', 'waits for ever'],
    ['loop', 'never yields'],
  ] as const) {
    test(`force ends a thread whose call ${what}, and no other`, async () => {
      const other = await supervisor.app(APP);
      const app = await supervisor.app(APP);
      await running(app, tool);
      app.stop(true);
      assert.equal((await app.exited).reason, 'stopped');
      assert.equal((await other.query('one')).value, 1);
    });
  }

  test('a stop does not wait for a call that was cancelled', async () => {
    const app = await supervisor.app(APP);
    await running(app, 'forever');
    app.cancel(app.lastCall, 'deadline');
    app.stop();
    assert.equal((await app.exited).reason, 'stopped');
  });

  for (const [tool, message] of [
    ['timer', 'in a timer'],
    ['event', 'in a listener'],
  ] as const) {
    test(`an error outside every call ends the actor and is logged: ${message}`, async () => {
      const other = await supervisor.app(APP);
      const app = await supervisor.app(APP);
      app.query(tool).catch(() => {});
      assert.deepEqual(await app.exited, { reason: 'crash', detail: message });
      const line = await app.log(({ msg }) => msg === `An error that nothing caught ended the app: ${message}`);
      assert.match((line.err as { stack: string }).stack, new RegExp(`queries/${tool}\\.js:1:`));
      assert.equal((await other.query('one')).value, 1);
    });
  }

  for (const [tool, input, what] of [
    ['buffers', { rest: true }, 'that answers'],
    ['buffers', {}, 'that does not answer'],
    ['shared', {}, 'with shared memory'],
  ] as const) {
    test(`memory outside the heap ends the actor ${what}, and no other, whatever that does`, async () => {
      const busy = await supervisor.app(APP);
      await running(busy, 'loop');
      const app = await supervisor.app(APP);
      app.query(tool, input).catch(() => {});
      const { reason, detail } = await app.exited;
      assert.deepEqual(
        [reason, /more than 64 MiB of memory outside of its heap/.test(detail)],
        ['memory', true],
        detail,
      );
      assert.equal((await supervisor.ping()).counters?.actors, 1);
    });
  }

  test('unused buffers do not count against an actor', async () => {
    const app = await supervisor.app(APP);
    assert.equal((await app.query('garbage')).value, 'done');
    assert.equal((await app.query('one')).value, 1);
  });

  test('the end of its connection to the supervisor ends the actor', async () => {
    const app = await supervisor.app(APP);
    app.disconnect();
    assert.deepEqual(await app.exited, { reason: 'crash', detail: 'The connection to the supervisor was lost.' });
  });

  test('a failed start is distinguished from a crash', async () => {
    const broken = await supervisor.app({ ...APP, validators: 'exports.queries = {' });
    assert.deepEqual(await broken.exited, { reason: 'failed_to_start', detail: 'Unexpected end of input' });
    assert.equal((await supervisor.ping()).counters?.actors, 0);
  });

  test('a version whose prepared folder is gone does not start, and its message holds no path', async () => {
    const first = await supervisor.app(APP, { app: 'same' });
    rmSync(join(first.spec.preparedDir, 'validators.js'));
    const app = supervisor.startAgain(first);
    const { reason, detail } = await app.exited;
    assert.equal(reason, 'failed_to_start');
    assert.ok(!detail.includes(supervisor.dir), detail);
  });
});

describe('the host ends at once', () => {
  for (const [tool, what] of [
    [null, 'without calls'],
    ['forever', 'with a call that waits for ever'],
    ['loop', 'with a call that never yields'],
    ['native', 'with a call in an endless SQL statement'],
  ] as const) {
    for (const how of ['input ends', 'supervisor goes away'] as const) {
      test(`when its ${how}, ${what}`, async () => {
        supervisor = await FakeSupervisor.start();
        try {
          const app = await supervisor.app(APP);
          if (tool === null) assert.equal((await failure(app.query('none'))).code, 'UNKNOWN_QUERY');
          else await running(app, tool);
          const exit = once(supervisor.host, 'exit');
          if (how === 'input ends') supervisor.host.stdin?.end();
          else supervisor.dropHostLink();
          await exit;
        } finally {
          await supervisor.close();
        }
      });
    }
  }
});
