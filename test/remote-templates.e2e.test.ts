/** Templates of a remote catalog, from the configuration to a live app. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { tarball } from '../testing/archive.ts';
import { eventually } from '../testing/edges.ts';
import { startGateway } from '../testing/gateway.ts';

const good = tarball(appOf('weather', { queries: { today: "() => 'sunny'" }, manifest: { name: 'Weather' } }));
const climbing = tarball([{ name: '../outside.txt', content: 'x' }]);

const row = (id: string, archive: Buffer) => ({
  id,
  name: id,
  description: 'From afar.',
  version: '1.0.0',
  url: `${id}.tgz`,
  sha256: createHash('sha256').update(archive).digest('hex'),
});

test('a template of a catalog is listed, cloned under another name and published', async (t) => {
  const archives: Record<string, Buffer> = { '/weather.tgz': good, '/climbing.tgz': climbing };
  const server = createServer((request, response) => {
    if (request.url === '/all.json')
      response.end(JSON.stringify({ templates: [row('weather', good), row('climbing', climbing)] }));
    else response.end(archives[request.url ?? '']);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const templatesUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/all.json`;
  const gateway = await startGateway(t, { config: { appsStoreRoot: 'code-store', templatesUrl } });
  const listed = async (id: string) =>
    (await gateway.call('GET', '/svc/_templates')).json.find((one: { id: string }) => one.id === id);
  await eventually(async () => (await listed('weather')) !== undefined);
  assert.equal((await listed('weather')).source, 'remote');
  assert.equal((await listed('todos')).source, 'bundled');

  const clone = (body: object) => gateway.call('POST', '/svc/_apps/_clone', { body });
  const made = await clone({ templateId: 'weather', id: 'harbour', publish: true });
  assert.equal(made.status, 201, made.text);
  assert.equal((await gateway.read('harbour', 'today', {})).json.data, 'sunny');
  const refused = await clone({ templateId: 'climbing' });
  assert.deepEqual([refused.status, refused.json.error.code], [400, 'ARCHIVE_PATH'], refused.text);
  assert.deepEqual((await gateway.call('GET', '/svc/_sessions')).json, [], 'neither of them left a workspace');
});
