// Real processes; only the connection is made by the test, so that it can come and go at the wrong moment.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, describe, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { type Frame, Kind } from '../../protocol/wire/frames.ts';
import type { Link } from '../../protocol/wire/link.ts';
import { Child, type ChildSpec } from './child.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-child-'));
const PROGRAMS = {
  /** Lives until its input ends. */
  obedient: 'process.stdin.resume();',
  /** Lives whatever happens. */
  deaf: 'setInterval(() => {}, 1000);',
  broken: 'console.error("it cannot work"); process.exit(3);',
};
for (const [name, code] of Object.entries(PROGRAMS)) writeFileSync(join(folder, `${name}.mjs`), code);
after(() => rmSync(folder, { recursive: true, force: true }));

const children: Child[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.destroy();
});

class Watched {
  readonly child: Child;
  readonly log: string[] = [];
  readonly processes = new Set<number>();
  starts = 0;
  #waiters: (() => boolean)[] = [];

  constructor(program: keyof typeof PROGRAMS, spec: Partial<ChildSpec> = {}) {
    this.child = new Child(
      {
        name: 'child',
        role: 'host',
        entry: join(folder, `${program}.mjs`),
        bootstrap: () => ({}),
        ...spec,
      },
      {
        onReady: () => {},
        onFrame: (frame) => {
          throw new Error(`not expected: ${frame[0]}`);
        },
        onExit: () => this.#changed(),
        onProcess: (pid, _role, alive) => {
          if (alive) this.starts++;
          if (alive) this.processes.add(pid);
          else this.processes.delete(pid);
          this.#changed();
        },
        log: (_level, message) => this.log.push(message),
      },
    );
    children.push(this.child);
  }

  /** Resolves when the condition holds; it is looked at whenever a process comes or goes. */
  until(condition: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const met = () => {
        if (condition()) resolve();
        return condition();
      };
      if (!met()) this.#waiters.push(met);
    });
  }

  connect(): { owner: NonNullable<ReturnType<Child['attach']>>; sent: Frame[] } {
    const sent: Frame[] = [];
    const owner = this.child.attach({ send: (frame: Frame) => sent.push(frame), close: () => {} } as unknown as Link);
    if (!owner) throw new Error('The connection was refused.');
    return { owner, sent };
  }

  run(): { owner: NonNullable<ReturnType<Child['attach']>>; sent: Frame[] } {
    this.child.start();
    const connection = this.connect();
    connection.owner.onFrame([Kind.ready, { pid: 1 }]);
    return connection;
  }

  #changed(): void {
    this.#waiters = this.#waiters.filter((met) => !met());
  }
}

describe('a child process', () => {
  test('that keeps failing is restarted up to the limit, says why, and starts again later or when it is revived', async (t) => {
    const watched = new Watched('broken');
    const { child } = watched;
    child.start();
    await watched.until(() => child.state === 'failed');
    assert.equal(watched.starts, LIMITS.restartIntensity + 1);
    assert.equal(child.restarts, LIMITS.restartIntensity);
    assert.equal(child.lastExit, 'exited with code 3');
    assert.equal(watched.log.at(-1), 'child exited with code 3: it cannot work');
    const failedBy = performance.now();
    assert.deepEqual([child.wake(), child.state], [false, 'failed']);
    const clock = t.mock.method(performance, 'now', () => failedBy + LIMITS.restartWindowMs);
    assert.deepEqual([child.wake(), child.state, child.wake()], [true, 'starting', true]);
    clock.mock.restore();
    await watched.until(() => child.state === 'failed');
    assert.equal(watched.starts, 2 * (LIMITS.restartIntensity + 1));
    child.revive();
    await watched.until(() => watched.starts > 2 * (LIMITS.restartIntensity + 1));
  });

  test('that is replaced starts again at once, however often', async () => {
    const watched = new Watched('deaf');
    const { child } = watched;
    child.start();
    for (let n = 2; n <= 2 * LIMITS.restartIntensity; n++) {
      child.replace('busy');
      await watched.until(() => watched.starts === n);
    }
    assert.deepEqual([child.state, child.lastExit, watched.log.at(-1)], ['starting', 'busy', 'child busy']);
    const [last] = watched.processes;
    child.destroy();
    child.replace('busy');
    await watched.until(() => watched.processes.size === 0);
    assert.deepEqual([child.state, typeof last], ['stopped', 'number']);
  });

  test('that is patient and does not come up is tried again now and then, and does not fail', async () => {
    const watched = new Watched('broken', { patient: true });
    const { child } = watched;
    child.start();
    const before = performance.now();
    await watched.until(() => watched.starts === LIMITS.restartIntensity + 2);
    assert.ok(performance.now() - before >= LIMITS.restartBackoffMaxMs, 'it did not wait');
    assert.equal(child.restarts, LIMITS.restartIntensity + 1);
  });

  test('that cannot even be started counts as one that failed', async () => {
    const watched = new Watched('obedient', { entry: 'x\0' });
    watched.child.start();
    await watched.until(() => watched.child.state === 'failed');
    assert.match(watched.log.at(-1) ?? '', /could not be started/);
  });

  test('is not restarted once it was stopped or destroyed, in any state', async () => {
    const ended: { watched: Watched; starts: number }[] = [];
    for (const end of ['stop', 'destroy'] as const) {
      const starting = new Watched('deaf');
      starting.child.start();
      const failing = new Watched('broken');
      failing.child.start();
      await failing.until(() => failing.child.state === 'backoff' && failing.starts > 1);
      const running = new Watched('obedient');
      running.run();
      for (const watched of [starting, failing, running]) {
        void watched.child[end](100);
        await watched.until(() => watched.child.state === 'stopped' && watched.processes.size === 0);
        ended.push({ watched, starts: watched.starts });
      }
    }
    // By then every wait before a restart would be over.
    const other = new Watched('broken');
    other.child.start();
    await other.until(() => other.child.state === 'failed');
    for (const { watched, starts } of ended)
      assert.deepEqual([watched.child.state, watched.starts], ['stopped', starts]);
  });

  test('is told to finish when it has something to finish, and is killed when it does not', async () => {
    const watched = new Watched('deaf', { flushes: true });
    const { sent } = watched.run();
    await watched.child.stop(10);
    assert.deepEqual(sent, [[Kind.stop, 0, false]]);
    assert.equal(watched.child.lastExit, 'did not stop in time');
  });

  test('ends by itself when its input ends', async () => {
    const watched = new Watched('obedient');
    watched.run();
    await watched.child.stop(30_000);
    assert.equal(watched.child.lastExit, 'was asked to stop');
  });

  test('that loses its connection is replaced; the old connection does not affect the new process', async () => {
    const watched = new Watched('obedient');
    const { child } = watched;
    const old = watched.run();
    process.kill(child.pid as number, 'SIGKILL');
    await watched.until(() => watched.starts === 2);
    const { pid } = child;
    const { owner } = watched.connect();
    old.owner.onFrame([Kind.ready, { pid: 1 }]);
    old.owner.onClose(null);
    assert.equal(child.state, 'starting');
    owner.onFrame([Kind.ready, { pid: 2 }]);
    assert.deepEqual([child.state, child.pid], ['running', pid]);
    owner.onClose(new Error('reset'));
    await watched.until(() => watched.starts === 3);
    assert.equal(child.lastExit, 'connection lost: reset');
  });

  test('that dies says how, even where its connection broke before its exit was known', async () => {
    const watched = new Watched('obedient');
    const { owner } = watched.run();
    owner.onClose(new Error('read ECONNRESET'));
    process.kill(watched.child.pid as number, 'SIGTERM');
    await watched.until(() => watched.starts === 2);
    assert.equal(watched.child.lastExit, 'ended by SIGTERM');
    watched.child.destroy();
  });

  test('that gets ready while it is being stopped is still stopped', async () => {
    const watched = new Watched('obedient');
    watched.child.start();
    const { owner } = watched.connect();
    const stopped = watched.child.stop(30_000);
    owner.onFrame([Kind.ready, { pid: 1 }]);
    await stopped;
    assert.equal(watched.child.state, 'stopped');
  });
});
