import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import type { Notice } from '../../protocol/notice.ts';
import { Channel } from './channel.ts';
import { DeliveryError, inWords } from './delivery.ts';

const notice = (id: string, at = 0): Notice => ({
  id,
  at,
  kind: 'app',
  app: null,
  title: id,
  text: id,
  url: null,
  isWell: false,
});

/** A channel whose clock moves to the next timer by hand, and whose server fails as long as there is an `error`. */
function scripted() {
  const world = {
    now: 0,
    error: null as unknown,
    tried: [] as string[],
    waits: [] as number[],
    done: [] as string[],
    logged: [] as string[],
    gone: 0,
    wake: () => {},
    hold: null as Promise<void> | null,
  };
  const channel = new Channel({
    name: 'ntfy',
    kind: 'ntfy',
    send: async ({ id }) => {
      world.tried.push(id);
      await world.hold;
      if (world.error !== null) throw world.error;
    },
    onDone: ({ id }) => world.done.push(id),
    onGone: () => world.gone++,
    log: (_level, message) => world.logged.push(message),
    now: () => world.now,
    setTimer: (ms, wake) => {
      world.waits.push(ms);
      world.wake = () => {
        world.now += ms;
        wake();
      };
      return () => {
        world.wake = () => {};
      };
    },
  });
  return { world, channel };
}

test('it tries again, ever later, keeps the order, and says once that it fails and once that it works', async () => {
  const { world, channel } = scripted();
  world.error = Object.assign(new Error('at a-secret.example'), { code: 'ECONNREFUSED' });
  for (const id of ['a', 'b']) channel.add(notice(id));
  for (let i = 0; i < 9; i++) {
    await turn();
    world.wake();
  }
  await turn();
  assert.deepEqual(world.waits.slice(0, 4), [10_000, 20_000, 40_000, 80_000]);
  assert.equal(world.waits.at(-1), LIMITS.noticeRetryMaxMs);
  assert.deepEqual(new Set(world.tried), new Set(['a']));
  const { state, waiting, lastFailure } = channel.status();
  assert.deepEqual([state, waiting, lastFailure?.message], ['failing', 2, 'Nothing answers at its address.']);
  world.error = null;
  world.wake();
  for (let i = 0; i < 5; i++) await turn();
  assert.deepEqual(world.done, ['a', 'b']);
  assert.deepEqual(world.logged, [
    'Notices do not reach ntfy: Nothing answers at its address.',
    'Notices reach ntfy again.',
  ]);
  assert.equal(channel.status().state, 'ok');
});

test('what another gateway sends from now on is dropped, also while it is tried, and the next one is sent', async () => {
  const { world, channel } = scripted();
  world.error = new Error('Down.');
  for (const id of ['theirs', 'ours', 'theirs too']) channel.add(notice(id));
  await turn();
  channel.release(({ id }) => id.startsWith('theirs'));
  world.error = null;
  world.wake();
  for (let i = 0; i < 5; i++) await turn();
  assert.deepEqual([world.tried, world.done, channel.status().waiting], [['theirs', 'ours'], ['ours'], 0]);
  let sent = () => {};
  world.hold = new Promise((resolve) => {
    sent = resolve;
  });
  channel.add(notice('under way'));
  channel.release(() => true);
  sent();
  for (let i = 0; i < 5; i++) await turn();
  assert.deepEqual([world.tried.at(-1), world.done], ['under way', ['ours']]);
});

test('what is late or refused is given up, and the next one is sent', async () => {
  const { world, channel } = scripted();
  world.error = new DeliveryError('It answered with 413.', { isRefused: true });
  world.now = LIMITS.noticeKeptMs + 5;
  channel.add(notice('late', 4));
  channel.add(notice('refused', 5));
  for (let i = 0; i < 5; i++) await turn();
  assert.deepEqual([world.tried, world.done], [['refused'], ['late', 'refused']]);
  assert.deepEqual([channel.status().dropped, channel.status().waiting], [2, 0]);
});

test('a full queue lets the oldest go that is not under way', async () => {
  const { world, channel } = scripted();
  let release = () => {};
  world.hold = new Promise((resolve) => {
    release = resolve;
  });
  for (let i = 0; i <= LIMITS.noticesWaiting; i++) channel.add(notice(String(i)));
  assert.deepEqual([channel.status().waiting, world.done], [LIMITS.noticesWaiting, ['1']]);
  release();
  await turn();
  assert.equal(world.done[1], '0');
});

test('an address that is gone is not tried again, nor is a stopped channel; a test that succeeds ends the wait', async () => {
  const gone = scripted();
  gone.world.error = new DeliveryError('', { isGone: true });
  gone.channel.add(notice('a'));
  gone.channel.add(notice('b'));
  for (let i = 0; i < 5; i++) await turn();
  assert.deepEqual([gone.world.tried, gone.world.gone, gone.world.done], [['a'], 1, []]);

  const { world, channel } = scripted();
  world.error = new Error('x');
  channel.add(notice('a'));
  await turn();
  world.error = null;
  assert.deepEqual(await channel.try(notice('test')), { channel: 'ntfy', ok: true });
  for (let i = 0; i < 5; i++) await turn();
  assert.deepEqual(world.done, ['a']);
  channel.stop();
  channel.add(notice('b'));
  await turn();
  assert.deepEqual(world.tried, ['a', 'test', 'a']);
});

test('words for failures name no address', () => {
  const cause = Object.assign(new Error('getaddrinfo ENOTFOUND secret.example'), { code: 'ENOTFOUND' });
  for (const [error, words] of [
    [new TypeError('fetch failed', { cause }), 'Its name has no address.'],
    [
      Object.assign(new Error('550 me@secret.example'), { code: 'EENVELOPE', responseCode: 550 }),
      'The mail server answered with 550.',
    ],
    [
      Object.assign(new Error('x'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }),
      'Its certificate is not trusted (DEPTH_ZERO_SELF_SIGNED_CERT).',
    ],
    [new DOMException('', 'TimeoutError'), 'It did not answer in time.'],
    [
      Object.assign(new Error('connect ECONNREFUSED 192.0.2.1:25'), { code: 'ESOCKET' }),
      'Nothing answers at its address.',
    ],
    ['secret', 'It could not be reached.'],
  ] as const)
    assert.equal(inWords(error), words);
});
