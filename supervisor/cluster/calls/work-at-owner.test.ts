// Work for an app is done at the node that has it, and looked for while it moves; what may have been done is not done again.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { bucketOf } from '../../../protocol/buckets.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { APP, signal, startNode, type TestNode } from '../../../testing/cluster-nodes.ts';
import type { AtOwnerOptions, WorkForApp } from '../../dispatch/at-owner.ts';
import { workAtOwner } from './work-at-owner.ts';

const BUCKET = bucketOf(APP);
const READS: AtOwnerOptions = { repeats: true };
const WRITES: AtOwnerOptions = { repeats: false };

/** A node that does this work for the apps that it has. */
async function worker<G, A>(t: TestContext, name: string, options: AtOwnerOptions, work: WorkForApp<G, A>) {
  const node = await startNode(t, { name, kind: 'node', next: () => assert.fail('Nothing is sent on.') });
  return { node, ask: workAtOwner(node.owners, node.calls.ofNodes)('work', options, work) };
}

function own(nodes: TestNode[], { name, address }: Pick<TestNode, 'name' | 'address'>, epoch = 1): void {
  for (const { known } of nodes) known.set(BUCKET, { node: name, address, epoch });
}

const named = (name: string) => async (app: string, given: unknown) => ({ name, app, given });

test('it is done where the app is, with what is given, and its error is the same', async (t) => {
  const one = await worker(t, 'one', WRITES, named('one'));
  const two = await worker(t, 'two', WRITES, async (app, given: number | null) => {
    if (given === null) throw new SvcError('INVALID_INPUT', 'Give a number.', { path: 'given' });
    return { name: 'two', app, given };
  });
  own([one.node, two.node], two.node);
  for (const { ask } of [one, two]) {
    assert.deepEqual(await ask(APP, 7), { name: 'two', app: APP, given: 7 });
    await assert.rejects(ask(APP, null), { code: 'INVALID_INPUT', message: 'Give a number.', path: 'given' });
  }
});

test('a node sees whether it is reached at an address', async (t) => {
  const { node } = await worker(t, 'one', READS, named('one'));
  const { node: other } = await worker(t, 'two', READS, named('two'));
  const why = (address: string) => node.calls.ofNodes.whyNotReached(address);
  assert.equal(await why(node.address), null);
  assert.equal(await why(other.address), 'something else answers there');
  assert.equal(await why('http://127.0.0.1:1'), 'nothing takes connections there');
});

test('nothing stays under way of work that fails before it begins', async (t) => {
  const { node, ask } = await worker(t, 'one', WRITES, () => {
    throw new Error('at once');
  });
  own([node], node);
  await assert.rejects(ask(APP, 1), /at once/);
  assert.equal(node.owners.underWay.ended(BUCKET), null);
});

test('an app is found that has no owner yet, whose owner is not known to have changed, and that comes here', async (t) => {
  const nodes = await Promise.all(['one', 'two', 'three'].map((name) => worker(t, name, WRITES, named(name))));
  const [one, two, three] = nodes as [(typeof nodes)[0], (typeof nodes)[0], (typeof nodes)[0]];
  const askedOne = one.ask(APP, 1);
  own([one.node, two.node, three.node], two.node, 1);
  assert.equal((await askedOne).name, 'two');
  own([two.node, three.node], three.node, 2);
  assert.equal((await one.ask(APP, 2)).name, 'three');
  // The one that had it knows nobody else: it is asked for again until this node has it.
  own([three.node], { name: 'nobody', address: 'http://127.0.0.1:1' }, 3);
  const asked = one.ask(APP, 3);
  own([one.node], one.node, 4);
  assert.equal((await asked).name, 'one');
});

test('a node that takes no connections was asked for nothing: the next owner is', async (t) => {
  const one = await worker(t, 'one', WRITES, named('one'));
  const two = await worker(t, 'two', WRITES, named('two'));
  own([one.node], { name: 'gone', address: 'http://127.0.0.1:1' });
  const asked = one.ask(APP, 1);
  own([one.node, two.node], two.node, 2);
  assert.equal((await asked).name, 'two');
});

test('of a node that goes away after it was asked, only what may be done twice is asked for again', async (t) => {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.once('data', () => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const gone = { name: 'gone', address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  const two = await worker(t, 'two', WRITES, named('two'));
  const writes = await worker(t, 'writes', WRITES, named('writes'));
  own([writes.node], gone);
  await assert.rejects(writes.ask(APP, 1), {
    code: 'STORAGE_UNAVAILABLE',
    message: /whether this was done is not known/,
  });
  assert.equal(sockets.length, 1);
  const reads = await worker(t, 'reads', READS, named('reads'));
  own([reads.node], gone);
  const asked = reads.ask(APP, 1);
  server.once('connection', () => own([reads.node, two.node], two.node, 2));
  assert.equal((await asked).name, 'two');
});

test('who has left is told so at once, also the node that works for it', async (t) => {
  const begun = signal();
  const left = signal();
  const one = await worker(t, 'one', { repeats: true, ms: null }, named('one'));
  const two = await worker(t, 'two', READS, async (_app, _given, aborted) => {
    aborted?.addEventListener('abort', () => left.fire());
    begun.fire();
    await left.fired('the end of the work');
  });
  own([one.node, two.node], two.node);
  const caller = new AbortController();
  const asked = one.ask(APP, 1, caller.signal);
  await begun.fired('the work');
  const reason = new Error('The run has ended.');
  caller.abort(reason);
  await assert.rejects(asked, reason);
  await left.fired('the end of the work');
  // While it waits for an owner.
  one.node.known.delete(BUCKET);
  await assert.rejects(one.ask(APP, 1, caller.signal), reason);
});
