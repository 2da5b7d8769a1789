import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { heldConnections } from './crowd.ts';

test('a connection is held until the server ends it, though its client does not read', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const client = connect(port, '127.0.0.1').pause();
  t.after(() => client.destroy());
  await once(client, 'connect');
  const [served] = await accepted;

  assert.deepEqual([...heldConnections(port)], [client.localPort]);

  served.destroy();
  await once(served, 'close');
  assert.deepEqual([...heldConnections(port)], []);
});
