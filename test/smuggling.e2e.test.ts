// Request smuggling: each vector, on both edges, with and without a token, directly and behind proxies, is never read as two requests.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { onEachEdge } from '../testing/edges.ts';
import { missingProxies, Scene } from '../testing/smuggling/scene.ts';
import { VECTORS, WAYS } from '../testing/smuggling/vectors.ts';

const missing = missingProxies();

test('the proxies are installed in CI', () => {
  assert.ok(missing.length === 0 || !process.env.CI, `not installed: ${missing.join(', ')}`);
});

onEachEdge({}, (gateway, edge) => {
  describe(`${VECTORS.length} vectors`, { concurrency: true }, () => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-smuggling-'));
    let scene: Scene;
    before(async () => {
      scene = await Scene.before(gateway, edge, folder);
    });
    after(async () => {
      await scene?.close();
      rmSync(folder, { recursive: true, force: true });
    });
    test('direct, without a token', async () => {
      const [direct] = scene.targets;
      assert.ok(direct);
      assert.deepEqual((await scene.runAll({ ...direct, isStranger: true })).violations, []);
    });
    for (const way of WAYS) {
      const lacking = missing.find((kind) => way.startsWith(kind));
      const options = lacking === undefined ? {} : { skip: `${lacking} is not installed` };
      test(way, options, async () => {
        const target = scene.targets.find((one) => one.way === way);
        assert.ok(target, `no way is called ${way}`);
        assert.deepEqual((await scene.runAll(target)).violations, []);
      });
    }
  });
});
