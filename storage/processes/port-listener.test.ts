import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { listenerOn } from './port-listener.ts';

const LINUX_ONLY = { skip: process.platform === 'linux' ? false : 'there is no /proc' };

for (const host of ['127.0.0.1', '::1']) {
  test(`the process that listens on a port of ${host} is found, with what it was started as`, LINUX_ONLY, async () => {
    const server = createServer().listen(0, host);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const found = listenerOn(port);
    assert.equal(found?.pid, process.pid);
    assert.match(found?.command[0] ?? '', /node/);
    assert.equal(found?.cwd, process.cwd());
    assert.equal(found?.env.PATH, process.env.PATH);
    server.close();
    await once(server, 'close');
    assert.equal(listenerOn(port), null);
  });
}
