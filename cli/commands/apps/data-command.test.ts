// `svc sql` while its gateway ends: nobody knows what became of a write.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { svc, TOKEN } from '../../../testing/command-line.ts';
import { EXIT } from '../../failure.ts';

/** Takes each request, and ends its connection instead of an answer: before it, or in the middle of it. */
async function startEnding(t: TestContext, begins: boolean): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      if (begins) response.writeHead(200, { 'content-length': '100' }).write('{', () => request.socket.destroy());
      else request.socket.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

for (const begins of [false, true])
  test(`SQL whose answer ${begins ? 'breaks off' : 'does not come'}`, async (t) => {
    const env = { SVC_URL: await startEnding(t, begins), SVC_TOKEN: TOKEN };
    const written = await svc(['sql', 'notes', 'INSERT INTO notes VALUES (1)', '--json'], { env });
    const { code, message } = JSON.parse(written.stderr || written.stdout).error;
    assert.deepEqual([written.code, code], [EXIT.failed, 'OUTCOME_UNKNOWN']);
    assert.match(message, /may be stored or not/);
    const told = await svc(['sql', 'notes', 'INSERT INTO notes VALUES (1)'], { env });
    assert.match(told.stderr, /OUTCOME_UNKNOWN: .*\n.*svc sql notes "SELECT/);
    const read = await svc(['sql', 'notes', 'SELECT 1'], { env });
    assert.equal(read.code, EXIT.unreachable);
    assert.doesNotMatch(read.stderr, /stored/);
  });

test('SQL that no gateway takes', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const env = { SVC_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, SVC_TOKEN: TOKEN };
  server.close();
  await once(server, 'close');
  const { code, stderr } = await svc(['sql', 'notes', 'INSERT INTO notes VALUES (1)'], { env });
  assert.equal(code, EXIT.unreachable, stderr);
});
