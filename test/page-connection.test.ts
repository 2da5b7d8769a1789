/** How often the page bridge looks for an unreachable gateway, on a clock of the test. */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
// @ts-expect-error The bridge is JavaScript.
import { watchConnection } from '../console/bridge/streams/connection.js';

/** The parts of a browser that it uses. */
function setUp(t: { after(cleanup: () => void): void }) {
  const page = { visibilityState: 'visible' };
  const gateway = { answer: () => Promise.reject<Response>(new TypeError('refused')), asked: 0 };
  const globals = {
    document: page,
    location: { href: 'http://notes.test/' },
    addEventListener: () => {},
    fetch: () => {
      gateway.asked++;
      return gateway.answer();
    },
  };
  const before = { ...globalThis } as Record<string, unknown>;
  Object.assign(globalThis, globals);
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => {
    mock.timers.reset();
    for (const name of Object.keys(globals)) (globalThis as Record<string, unknown>)[name] = before[name];
  });
  const told: string[] = [];
  const connection = watchConnection((status: string) => told.push(status));
  /** Milliseconds between the attempts within so many seconds. */
  const watch = async (seconds: number) => {
    const gaps: number[] = [];
    let last = 0;
    for (let now = 100; now <= seconds * 1000; now += 100) {
      const asked = gateway.asked;
      mock.timers.tick(100);
      // The answer has arrived and was handled.
      await new Promise((resolve) => setImmediate(resolve));
      if (gateway.asked === asked) continue;
      gaps.push(now - last);
      last = now;
    }
    return gaps;
  };
  return { page, gateway, told, connection, watch };
}

test('attempts become rarer up to one in half a minute, and differ from page to page', async (t) => {
  const { gateway, told, connection, watch } = setUp(t);
  await connection.check();
  const gaps = await watch(600);
  for (const [at, gap] of gaps.entries()) {
    const longest = Math.min(1000 * 2 ** at, 30_000);
    assert.ok(gap >= longest / 2 - 100 && gap <= longest + 100, `attempt ${at} came after ${gap} ms`);
  }
  assert.ok(new Set(gaps.slice(6)).size > 3, `no jitter: ${gaps.join(' ')}`);
  assert.deepEqual(told, ['offline'], 'told once');
  gateway.answer = async () => Response.json({ signedIn: true });
  await watch(31);
  assert.deepEqual(told, ['offline', 'online']);
  assert.deepEqual(await watch(120), [], 'a connected page does not poll');
});

test('a signed-out page looks every few seconds, and a hidden page not at all', async (t) => {
  const { page, gateway, told, connection, watch } = setUp(t);
  gateway.answer = async () => Response.json({ signedIn: false });
  connection.refused();
  const gaps = await watch(120);
  assert.ok(gaps.length >= 11 && gaps.every((gap) => gap >= 4900 && gap <= 10_100), gaps.join(' '));
  page.visibilityState = 'hidden';
  assert.deepEqual(await watch(120), []);
  assert.deepEqual(told, ['signed-out']);
});
