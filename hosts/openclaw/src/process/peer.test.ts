// Calls over a channel, with both ends in this process.
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { TurnEvents } from '../turn-events.ts';
import { type Answers, Peer, PeerError, type Port } from './peer.ts';

/** Two ends; what is no data cannot be sent, as between processes. */
function pair(one: Answers, other: Answers): [Peer, Peer] {
  const [left, right] = [new EventEmitter(), new EventEmitter()];
  const port = (own: EventEmitter, far: EventEmitter): Port => ({
    on: (event, listener) => own.on(event, listener),
    send: (message) => {
      const copy = structuredClone(message);
      setImmediate(() => far.emit('message', copy));
      return true;
    },
  });
  return [new Peer(port(left, right), one), new Peer(port(right, left), other)];
}

test('each end answers the other, and an error keeps its code and path', async () => {
  const fail = () => {
    throw Object.assign(new Error('No.'), { code: 'BAD_REQUEST', path: 'x', secret: 1 });
  };
  const [one, other] = pair({ hello: (name: never) => `hello ${name}` }, {
    twice: async (n: number) => 2 * n,
    fail,
  } as Answers);
  assert.deepEqual(await Promise.all([one.call('twice', 3), other.call('hello', 'you'), one.call('twice', 4)]), [
    6,
    'hello you',
    8,
  ]);
  await assert.rejects(one.call('fail', null), { name: 'PeerError', message: 'No.', code: 'BAD_REQUEST', path: 'x' });
  await assert.rejects(one.call('nothing', null), /no call "nothing"/);
});

test('what is no data fails where it was sent, as an argument and as an answer', async () => {
  const [one] = pair({}, { give: () => () => {}, echo: (value: never) => value });
  await assert.rejects(one.call('echo', { f: () => {} }), /could not be cloned/);
  await assert.rejects(one.call('give', null), /could not be cloned/);
  assert.equal(await one.call('echo', 1), 1);
});

test('a caller that gives up is told, and so is who works for it; an end that is lost fails all', async () => {
  let begin: (signal: AbortSignal) => void = () => {};
  const begun = new Promise<AbortSignal>((resolve) => {
    begin = resolve;
  });
  const [one, other] = pair({}, { hang: (_args: never, signal: AbortSignal) => new Promise(() => begin(signal)) });
  const controller = new AbortController();
  const asked = one.call('hang', null, controller.signal);
  const signal = await begun;
  const ended = new Promise((resolve) => signal.addEventListener('abort', resolve));
  controller.abort(new Error('enough'));
  await assert.rejects(asked, /enough/);
  await ended;
  await assert.rejects(one.call('hang', null, controller.signal), /enough/);
  const lost = one.call('hang', null);
  one.close('It is gone.');
  await assert.rejects(lost, PeerError);
  await assert.rejects(one.call('hang', null), /It is gone/);
  other.close('It is gone.');
});

test('the events of a turn come in order, before its end and its error', async () => {
  const read = async (events: TurnEvents) => {
    const types: string[] = [];
    for await (const { type } of events) types.push(type);
    return types;
  };
  const events = new TurnEvents();
  const all = read(events);
  events.push({ type: 'a' });
  await null;
  events.push({ type: 'b' });
  events.end();
  assert.deepEqual(await all, ['a', 'b']);
  const failing = new TurnEvents();
  failing.push({ type: 'a' });
  failing.fail(new Error('no'));
  const reader = failing[Symbol.asyncIterator]();
  assert.equal((await reader.next()).value?.type, 'a');
  await assert.rejects(reader.next(), /no/);
});
