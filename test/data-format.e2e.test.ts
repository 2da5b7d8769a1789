// Data directories of other releases: those of earlier releases keep working, every command refuses later ones with a
// clear message.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, describe, type TestContext, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { DATA_FORMAT } from '../protocol/data-format.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { contentOf, fill } from '../testing/filled-gateway.ts';
import { root, TestGateway } from '../testing/gateway.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

/** Made by earlier releases with scripts/data-directory.ts; the file beside each lists its content. */
const ARCHIVES = join(root, 'test/data-directories');

function newFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function svc(...args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const env = { PATH: process.env.PATH, HOME: tmpdir(), XDG_CONFIG_HOME: join(tmpdir(), 'svc-no-config') };
  const child = spawn(process.execPath, [join(root, 'bin/svc.js'), ...args], { env });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk) => (stdout += chunk));
  child.stderr.on('data', (chunk) => (stderr += chunk));
  const [code] = await inTime(once(child, 'close'), `the end of svc ${args.join(' ')}`, LONG_MS);
  return { code, stdout, stderr };
}

/** Every file with its size and time of change, without the lock that a start takes for a moment. */
const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => statSync(join(folder, name)).isFile())
    .map((name) => [name, statSync(join(folder, name)).size, statSync(join(folder, name)).mtimeMs]);

const names = readdirSync(ARCHIVES).filter((name) => name.endsWith('.tar.gz'));

test('there is a data directory of each earlier format', () => {
  for (let format = 0; format <= DATA_FORMAT; format++)
    assert.ok(names.includes(`format-${format}.tar.gz`), `${format}`);
});

for (const name of names) {
  test(`${name}: the data directory of an earlier release has all its content, and can be written`, async (t) => {
    const dataDir = join(newFolder(t), 'data');
    mkdirSync(dataDir, { mode: 0o700 });
    execFileSync('tar', ['-xzf', join(ARCHIVES, name), '-C', dataDir]);
    const gateway = new TestGateway(dataDir, []);
    t.after(() => gateway.stop());
    await gateway.start();
    // Runs are kept only for a time.
    const { runs: _then, ...before } = JSON.parse(
      readFileSync(join(ARCHIVES, name.replace('.tar.gz', '.json')), 'utf8'),
    );
    const { runs: _now, ...after } = JSON.parse(JSON.stringify(await contentOf(gateway)));
    assert.deepEqual(after, before);
    const again = await gateway.call('POST', '/svc/_automations/shop/count/run?wait=1', { body: {} });
    assert.equal(again.json.output, 2, 'the state of the automation is lost');
    assert.equal((await gateway.write('shop', 'add', { text: 'after' })).status, 201);
    await gateway.kill();
    await gateway.start();
    assert.equal((await gateway.read('shop', 'list')).json.data.length, before.rows.length + 1);
    assert.equal(JSON.parse(readFileSync(join(dataDir, 'format.json'), 'utf8')).format, DATA_FORMAT);
    assert.doesNotMatch(gateway.log, /"level":[456]0/);
    await gateway.stop();
  });
}

test('a backup that an earlier release made comes back with all its content, and can be written', async (t) => {
  const dataDir = join(newFolder(t), 'data');
  const earlier = join(root, 'test/backups/format-1');
  const restored = await svc('restore', `${earlier}.svc-backup.tar.gz`, '--data-dir', dataDir);
  assert.equal(restored.code, 0, restored.stderr);
  copyFileSync(`${earlier}.secrets.key`, join(dataDir, 'secrets.key'));
  const gateway = new TestGateway(dataDir, []);
  t.after(() => gateway.stop());
  await gateway.start();
  const { runs: _then, ...before } = JSON.parse(readFileSync(`${earlier}.json`, 'utf8'));
  const { runs: _now, ...after } = JSON.parse(JSON.stringify(await contentOf(gateway)));
  assert.deepEqual(after, before);
  assert.equal((await gateway.write('shop', 'add', { text: 'after' })).status, 201);
  await gateway.stop();
});

describe('of a gateway with data', () => {
  const gateway = gatewayOfSuite({});
  before(() => fill(gateway));

  test('a newer data directory is refused by every command that would open it, and stays unchanged', async (t) => {
    const folder = newFolder(t);
    await gateway.stop();
    const { dataDir } = gateway;
    const newer = { format: DATA_FORMAT + 1, svcVersion: '7.8.9' };
    const written = readFileSync(join(dataDir, 'format.json'), 'utf8');
    writeFileSync(join(dataDir, 'format.json'), JSON.stringify(newer));
    const before = filesIn(dataDir);
    const words =
      /DATA_FORMAT: The data has format 2, written by svc 7\.8\.9; this release reads formats up to 1\. Nothing was changed\. Run svc 7\.8\.9 or newer on it, or restore a backup[\s\S]+docs\/operations\.md/;
    const commands = [
      ['serve', '--port', '0'],
      ['backup', join(folder, 'backup')],
      ['convert', '--store', 'git'],
    ];
    for (const command of commands) {
      const { code, stderr } = await svc(...command, '--data-dir', dataDir);
      assert.equal(code, 1, command.join(' '));
      assert.match(stderr, words, command.join(' '));
    }
    const doctor = await svc('doctor', '--data-dir', dataDir, '--port', '1');
    assert.equal(doctor.code, 1);
    assert.match(doctor.stdout, /✗ data format +The data has format 2, written by svc 7\.8\.9/);
    assert.deepEqual(filesIn(dataDir), before);
    assert.deepEqual(readdirSync(folder), []);

    writeFileSync(join(dataDir, 'format.json'), 'not JSON');
    const damaged = await svc('serve', '--port', '0', '--data-dir', dataDir);
    assert.equal(damaged.code, 1);
    assert.match(damaged.stderr, /DATA_FORMAT: \S+\/format\.json is damaged\.[\s\S]+remove the file[\s\S]+svc restore/);

    // With the release that wrote it, it works as before.
    writeFileSync(join(dataDir, 'format.json'), written);
    await gateway.start();
    assert.equal((await gateway.read('shop', 'list')).json.data.length, 3);
  });

  test('a backup names the format of its data; a newer one is refused before anything is written', async (t) => {
    const folder = newFolder(t);
    const file = join(folder, 'now');
    assert.equal((await svc('backup', file, '--data-dir', gateway.dataDir)).code, 0);
    const target = join(folder, 'target');
    assert.equal((await svc('restore', file, '--data-dir', target)).code, 0);
    assert.equal(JSON.parse(readFileSync(join(target, 'format.json'), 'utf8')).format, DATA_FORMAT);
    rmSync(target, { recursive: true });

    // The same archive, but for a digit of its manifest.
    const bytes = gunzipSync(readFileSync(file));
    const at = bytes.lastIndexOf(`"dataFormat": ${DATA_FORMAT}`);
    assert.ok(at > 0);
    bytes.write(`"dataFormat": ${DATA_FORMAT + 1}`, at);
    writeFileSync(file, gzipSync(bytes));
    for (const command of [
      ['restore', file, '--data-dir', target],
      ['backup', 'verify', file],
    ]) {
      const { code, stderr } = await svc(...command);
      assert.equal(code, 1);
      assert.match(stderr, /DATA_FORMAT: The data has format 2, written by svc /);
    }
    assert.equal(existsSync(target), false);
  });
});
