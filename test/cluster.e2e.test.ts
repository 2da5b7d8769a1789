// Gateways that share a PostgreSQL database: what one has acknowledged another one serves.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { contentOf, fill } from '../testing/filled-gateway.ts';
import { freePort } from '../testing/free-port.ts';
import { gatewayIn, type TestGateway } from '../testing/gateway.ts';
import { database, whyNoPostgres } from '../testing/postgres.ts';

const skip = whyNoPostgres() ?? false;
const SECRET_ENV = 'SVC_CLUSTER_SECRET';

/** A node of the cluster of this database, with a data directory of its own. It is not started. */
function nodeOf(t: TestContext, url: string, name: string): TestGateway {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const cluster = { url, node: name, secretEnv: SECRET_ENV };
  const node = gatewayIn(folder, { store: 'tarball', config: { cluster }, env: { [SECRET_ENV]: 'of this test' } });
  t.after(() => node.stop());
  return node;
}

test('a node with an empty data directory goes on with what a killed one had acknowledged', { skip }, async (t) => {
  const url = await database();
  const one = nodeOf(t, url, 'one');
  await one.start(String(await freePort()));
  await fill(one);
  const was = await contentOf(one);
  await one.kill();
  const two = nodeOf(t, url, 'two');
  await two.start(String(await freePort()));
  assert.equal(two.token, one.token);
  assert.deepEqual(await contentOf(two), was);
  assert.doesNotMatch(two.log, /"level":[56]0/);
});
