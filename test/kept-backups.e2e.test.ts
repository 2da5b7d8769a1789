/** Backups that the gateway keeps in its folder: made at once, listed, read again; over HTTP and by `svc backup`. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, renameSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { eventually, onEachStore } from '../testing/edges.ts';
import { root } from '../testing/gateway.ts';

onEachStore({}, (gateway, store) => {
  const svc = (...args: string[]) => {
    const line = [join(root, 'bin/svc.js'), ...args, '--url', gateway.url, '--token', gateway.token];
    return new Promise<{ status: unknown; stdout: string; stderr: string }>((resolve) => {
      execFile(process.execPath, line, (error, stdout, stderr) =>
        resolve({ status: error?.code ?? 0, stdout, stderr }),
      );
    });
  };
  const status = async () => (await gateway.call('GET', '/svc/_backups')).json;
  const files = async () => (await gateway.call('GET', '/svc/_backups/files')).json;
  const verify = (name: string) => gateway.call('POST', `/svc/_backups/files/${name}/verify`);
  const codeOf = ({ status: code, json }: { status: number; json: { error?: { code: string } } }) => [
    code,
    json.error?.code,
  ];

  test(`${store}: one is made at once without a schedule, listed, verified, and restored`, async () => {
    assert.equal((await gateway.upload('notes', appOf('notes'))).status, 201);
    assert.deepEqual(await files(), []);
    assert.match((await svc('backup', 'ls')).stderr, /keeps no backups\. Make one: svc backup now/);
    const begun = await gateway.call('POST', '/svc/_backups/files');
    assert.deepEqual([begun.status, begun.json.running, begun.json.schedule], [202, true, null]);
    const second = await gateway.call('POST', '/svc/_backups/files');
    assert.ok(second.status === 202 || codeOf(second)[1] === 'CONFLICT', second.text);
    await eventually(async () => !(await status()).running);
    const { lastSuccess, lastFailure } = await status();
    assert.equal(lastFailure, null);
    const [newest] = await files();
    assert.equal(newest.file, lastSuccess.file);
    assert.equal(newest.file, join(gateway.dataDir, 'backups', newest.name));
    assert.deepEqual([newest.bytes, newest.damaged], [lastSuccess.bytes, false]);
    assert.ok(Math.abs(newest.madeAt - lastSuccess.at) < 600_000);

    const verified = await verify(newest.name);
    assert.deepEqual([verified.status, verified.json], [200, newest]);
    const made = await svc('backup', 'now', '--json');
    assert.equal(made.status, 0, made.stderr);
    const { file } = JSON.parse(made.stdout);
    const listed = await svc('backup', 'ls');
    assert.match(listed.stdout, /^FILE +MADE +SIZE +STATE\nsvc-\d{8}T\d{6}Z.*\.svc-backup\.tar\.gz .* verified/);
    assert.match((await svc('backup', 'verify', newest.name)).stdout, /✓ svc-.* is intact/);
    const target = join(gateway.dataDir, '..', `restored-${store}`);
    const restored = await new Promise<string>((resolve) =>
      execFile(
        process.execPath,
        [join(root, 'bin/svc.js'), 'restore', file, '--data-dir', target],
        (_e, stdout, stderr) => resolve(stdout + stderr),
      ),
    );
    assert.match(restored, /restored into .*, verified/);
  });

  test(`${store}: a missing folder is distinguished from one without backups`, async () => {
    const folder = join(gateway.dataDir, 'backups');
    renameSync(folder, `${folder}-away`);
    const listed = await svc('backup', 'ls');
    renameSync(`${folder}-away`, folder);
    assert.deepEqual([listed.status, listed.stdout], [0, '']);
    assert.ok(listed.stderr.includes(`in ${folder} are missing. Is its disk mounted?`), listed.stderr);
  });

  test(`${store}: a changed backup is distinguished from a good one, and other names reach no file`, async () => {
    const [newest] = await files();
    writeFileSync(join(gateway.dataDir, 'backups', 'stranger.svc-backup.tar.gz'), 'x');
    for (const name of ['stranger.svc-backup.tar.gz', '..%2Fregistry.json', 'x'])
      assert.deepEqual(codeOf(await verify(name)), [404, 'NOT_FOUND'], name);
    const whole = readFileSync(newest.file);
    truncateSync(newest.file, Math.floor(whole.length / 2));
    assert.deepEqual(codeOf(await verify(newest.name)), [400, 'INVALID_BACKUP']);
    const refused = await svc('backup', 'verify', newest.name);
    assert.deepEqual([refused.status, refused.stderr.split(':')[0]], [1, '✗ INVALID_BACKUP']);
    writeFileSync(newest.file, whole);
    assert.equal((await verify(newest.name)).status, 200);
    const { json } = await gateway.call('POST', '/svc/_tokens', { body: { name: 'p', apps: null, tools: 'all' } });
    const headers = { authorization: `Bearer ${json.token}` };
    for (const [method, path] of [
      ['GET', ''],
      ['POST', ''],
      ['POST', `/${newest.name}/verify`],
    ] as const)
      assert.deepEqual(codeOf(await gateway.call(method, `/svc/_backups/files${path}`, { headers })), [
        403,
        'FORBIDDEN',
      ]);
  });
});
