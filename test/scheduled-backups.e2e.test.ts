// Backups on schedule in the real daemon: made, verified, restored into a working gateway; a failed one shows
// everywhere.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { eventually, onEachStore } from '../testing/edges.ts';
import { contentOf, fill } from '../testing/filled-gateway.ts';
import { root, startGateway, TestGateway } from '../testing/gateway.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

const EVERY_SECOND = '* * * * * *';
/** A folder of another file system, if there is one: backups are copied to it. */
const ELSEWHERE = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

function newFolder(t: TestContext, below = tmpdir()): string {
  const folder = mkdtempSync(join(below, 'svc-test-'));
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

const statusOf = async (gateway: TestGateway) => (await gateway.call('GET', '/svc/_backups')).json;
const reaches = (gateway: TestGateway, state: string) =>
  eventually(async () => (await statusOf(gateway)).state === state);

async function metric(gateway: TestGateway, name: string): Promise<number | undefined> {
  const { text } = await gateway.call('GET', '/svc/_metrics');
  const value = new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1];
  return value === undefined ? undefined : Number(value);
}

onEachStore({ config: { versionRetention: 7 } }, (gateway, store) => {
  test('the drill: a backup on schedule restores everything in a new directory', async (t) => {
    const folder = newFolder(t, ELSEWHERE);
    await fill(gateway);
    const before = await contentOf(gateway);
    const set = await svc('backup', folder, '--schedule', EVERY_SECOND, '--keep', '2', '--data-dir', gateway.dataDir);
    assert.equal(set.code, 0, set.stderr);
    assert.match(
      set.stdout,
      /Backups are made on schedule: \* \* \* \* \* \*\n +next .*\n +in .*\n +keeps +the newest 2\n/,
    );
    let made: string[] = [];
    await eventually(async () => {
      made = [...new Set([...made, (await statusOf(gateway)).lastSuccess?.file].filter(Boolean))];
      return made.length >= 3;
    });
    const off = await svc('backup', '--schedule', 'off', '--data-dir', gateway.dataDir);
    assert.equal(off.code, 0, off.stderr);
    await eventually(async () => (await metric(gateway, 'svc_backup_failures_total')) === 0);
    assert.ok(((await metric(gateway, 'svc_backup_last_success_timestamp_seconds')) ?? 0) > 1_700_000_000);
    await gateway.stop();

    const files = readdirSync(folder).sort();
    assert.equal(files.length, 2, files.join());
    const file = join(folder, files[1] as string);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    const verified = await svc('backup', 'verify', file);
    assert.equal(verified.code, 0, verified.stderr);
    assert.match(verified.stdout, /is intact\n.*\n +holds +1 app, .*\n +data .* checked by SQLite/);
    const target = join(newFolder(t), 'restored');
    const restored = await svc('restore', file, '--data-dir', target);
    assert.equal(restored.code, 0, restored.stderr);
    const config = join(target, 'config.json');
    assert.deepEqual(JSON.parse(readFileSync(config, 'utf8')).backups, { cron: EVERY_SECOND, keep: 2, dir: folder });
    copyFileSync(join(gateway.dataDir, 'secrets.key'), join(target, 'secrets.key'));
    const other = new TestGateway(target, store === 'git' ? [] : ['--store', store]);
    t.after(() => other.stop());
    await other.start();
    assert.deepEqual(await contentOf(other), before);
    assert.equal((await other.write('shop', 'add', { text: 'after' })).status, 201);
    await other.stop();
  });
});

test('a failed one shows in status, routes and metrics, and calls continue', async (t) => {
  const folder = join(newFolder(t), 'kept');
  const gateway = await startGateway(t, { config: { backups: { cron: EVERY_SECOND, keep: 1, dir: folder } } });
  await fill(gateway);
  await reaches(gateway, 'ok');
  // An impossible folder: a file is in its place.
  rmSync(folder, { recursive: true, force: true });
  writeFileSync(folder, '');
  // A backup between the two calls finds the place empty.
  const isNoFolder = ({ lastFailure }: { lastFailure?: { message: string } }) =>
    /kept is not a folder\. Name another/.test(lastFailure?.message ?? '');
  await eventually(async () => isNoFolder(await statusOf(gateway)));
  const { lastFailure, lastSuccess, schedule } = await statusOf(gateway);
  assert.ok(lastFailure.at >= lastSuccess.at);
  assert.deepEqual(schedule, { cron: EVERY_SECOND, keep: 1, dir: folder, setBy: 'configuration' });
  assert.ok(((await metric(gateway, 'svc_backup_failures_total')) ?? 0) >= 1);
  const status = await svc('status', '--data-dir', gateway.dataDir);
  assert.match(status.stdout, /^backups +● failed +.*kept is not a folder\. Name another\.\n +last good one /m);
  assert.equal((await gateway.system()).backups.schedule.dir, folder);
  assert.equal((await gateway.write('shop', 'add', { text: 'meanwhile' })).status, 201);
  assert.match(gateway.log, /A backup on schedule failed: /);
  const changed = await svc('backup', '--schedule', '0 3 * * *', '--data-dir', gateway.dataDir);
  assert.equal(changed.code, 1);
  assert.match(changed.stderr, /CONFLICT.*configuration file has "backups"\. Change it there/s);
  rmSync(folder);
  // A folder that was used and is missing is not made again: its disk may not be mounted.
  await eventually(async () => /is gone\. Is its disk mounted/.test((await statusOf(gateway)).lastFailure.message));
  assert.equal(existsSync(folder), false);
});

test('a gateway that is killed during a backup leaves no partial file, and makes the backup at the next start', async (t) => {
  const folder = newFolder(t);
  const gateway = await startGateway(t, { config: { backups: { cron: EVERY_SECOND, keep: 3, dir: folder } } });
  await fill(gateway);
  await eventually(async () => (await statusOf(gateway)).running);
  await gateway.kill();
  const before = readdirSync(folder);
  for (const name of before.filter((name) => !name.startsWith('.')))
    assert.equal((await svc('backup', 'verify', join(folder, name))).code, 0, name);
  await gateway.start();
  await eventually(() => readdirSync(folder).some((name) => !name.startsWith('.') && !before.includes(name)));
  await gateway.stop();
  assert.deepEqual(readdirSync(join(gateway.dataDir, 'tmp')), []);
  assert.doesNotMatch(readdirSync(folder).join(), /\.tmp/);
});

test('an invalid schedule is refused with a clear message', async (t) => {
  const gateway = await startGateway(t);
  const cases: [body: unknown, status: number, code: string, words: RegExp][] = [
    [{}, 400, 'BAD_REQUEST', /"cron" must be a cron expression such as "0 3 \* \* \*"/],
    [{ cron: 'daily-ish' }, 400, 'BAD_REQUEST', /"cron" must be a cron expression/],
    [{ cron: '0 0 31 2 *' }, 400, 'BAD_REQUEST', /never fires again/],
    [{ cron: '0 3 * * *', keep: 0 }, 400, 'BAD_REQUEST', /"keep" must be an integer from 1 to 1000/],
    [{ cron: '0 3 * * *', keep: 1001 }, 400, 'BAD_REQUEST', /"keep" must be/],
    [{ cron: '0 3 * * *', dir: '' }, 400, 'BAD_REQUEST', /"dir" must be a folder/],
    [{ cron: '0 3 * * *', hours: 1 }, 400, 'BAD_REQUEST', /"hours" must be one of cron, keep, dir/],
    [{ cron: '0 3 * * *', dir: '/proc/none/at/all' }, 409, 'BACKUP_FOLDER', /\/proc\/none\/at\/all/],
    [{ cron: '0 3 * * *', dir: '/dev/null' }, 409, 'BACKUP_FOLDER', /is not a folder/],
  ];
  for (const [body, status, code, words] of cases) {
    const answer = await gateway.call('PUT', '/svc/_backups', { body });
    assert.deepEqual([answer.status, answer.json.error.code], [status, code], JSON.stringify(body));
    assert.match(answer.json.error.message, words);
  }
  assert.equal((await statusOf(gateway)).state, 'off');
  assert.equal((await svc('backup', '--keep', '3', '--data-dir', gateway.dataDir)).code, 2);
  assert.equal((await svc('backup', 'verify', '--data-dir', gateway.dataDir)).code, 2);
  assert.equal((await svc('backup', 'a', 'b', '--data-dir', gateway.dataDir)).code, 2);
  const damaged = join(newFolder(t), 'damaged');
  writeFileSync(damaged, 'no backup');
  const verified = await svc('backup', 'verify', damaged, '--json');
  assert.deepEqual([verified.code, JSON.parse(verified.stdout).error.code], [1, 'INVALID_BACKUP']);
});
