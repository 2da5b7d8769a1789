/**
 * Saves a data directory of this release and what it holds, for test/data-format.e2e.test.ts of later ones:
 * `node --import tsx scripts/data-directory.ts test/data-directories/format-<n>`, after a build.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { contentOf, fill } from '../testing/filled-gateway.ts';
import { TestGateway } from '../testing/gateway.ts';

const [target] = process.argv.slice(2);
if (target === undefined) throw new Error('Name what to write, without .tar.gz.');
const folder = mkdtempSync(join(tmpdir(), 'svc-data-directory-'));
try {
  const gateway = new TestGateway(join(folder, 'data'), []);
  await gateway.start();
  await fill(gateway);
  writeFileSync(`${target}.json`, `${JSON.stringify(await contentOf(gateway), null, 2)}\n`);
  await gateway.stop();
  // The same bytes whoever makes it, and nothing of what ran.
  const settings = ['--sort=name', '--owner=0', '--group=0', '--numeric-owner', '--exclude=./run', '--exclude=./tmp'];
  execFileSync('tar', [...settings, '-czf', `${resolve(target)}.tar.gz`, '-C', gateway.dataDir, '.']);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
