/** `svc files` as a person uses it, against a real gateway: up, listed, down again, deleted. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { root } from '../testing/gateway.ts';

describe('svc files', () => {
  const gateway = gatewayOfSuite({});
  const folder = mkdtempSync(join(tmpdir(), 'svc-files-'));
  after(() => rmSync(folder, { recursive: true, force: true }));

  const svc = (...args: string[]) => {
    const line = [join(root, 'bin/svc.js'), ...args, '--url', gateway.url, '--token', gateway.token];
    return new Promise<{ status: unknown; stdout: string; stderr: string }>((resolve) => {
      execFile(process.execPath, line, { cwd: folder }, (error, stdout, stderr) =>
        resolve({ status: error?.code ?? 0, stdout, stderr }),
      );
    });
  };
  const works = async (...args: string[]) => {
    const outcome = await svc(...args);
    assert.equal(outcome.status, 0, outcome.stderr);
    return outcome;
  };

  test('a file goes up, is listed, comes back and is deleted', async () => {
    assert.equal((await gateway.upload('album', appOf('album', { manifest: { blobQuotaMb: 1 } }))).status, 201);
    const empty = await works('files', 'ls', 'album');
    assert.match(empty.stderr, /The app keeps no files\. Upload one: svc files put album <file>/);
    assert.deepEqual(JSON.parse((await works('files', 'ls', 'album', '--json')).stdout), []);

    const photo = randomBytes(300_000);
    const sha256 = createHash('sha256').update(photo).digest('hex');
    writeFileSync(join(folder, 'photo.JPG'), photo);
    const stored = await works('files', 'put', 'album', 'photo.JPG');
    assert.match(stored.stdout, new RegExp(`✓ photo\\.JPG is stored, 293 KiB, image/jpeg[^]*${sha256}`));
    writeFileSync(join(folder, 'rows'), 'a,b');
    const rows = JSON.parse((await works('files', 'put', 'album', 'rows', '--type', 'text/csv', '--json')).stdout);
    assert.deepEqual([rows.size, rows.type], [3, 'text/csv']);

    const listed = await works('files', 'ls', 'album');
    assert.match(listed.stdout, new RegExp(`SHA-256 +TYPE +SIZE +STORED\n${rows.sha256.slice(0, 16)}  text/csv`));
    assert.match(listed.stderr, /2 files, 293 KiB of 1 MiB/);
    const [largest, ...others] = JSON.parse(
      (await works('files', 'ls', 'album', '--sort', 'largest', '-n', '1', '--json')).stdout,
    );
    assert.deepEqual([largest.sha256, others], [sha256, []]);
    assert.match((await works('files', 'ls', 'album', '-n', '1')).stderr, /1 of 2 files/);

    const got = await works('files', 'get', 'album', sha256.slice(0, 8).toUpperCase());
    assert.match(got.stdout, new RegExp(`✓ ${sha256.slice(0, 16)}\\.jpg is written, 293 KiB, image/jpeg`));
    assert.ok(readFileSync(join(folder, `${sha256.slice(0, 16)}.jpg`)).equals(photo));
    const again = await svc('files', 'get', 'album', sha256);
    assert.deepEqual([again.status, again.stderr.split('\n')[0]], [1, `✗ ${sha256.slice(0, 16)}.jpg already exists.`]);
    await works('files', 'get', 'album', rows.sha256, '--out', 'copy.csv');
    assert.equal(readFileSync(join(folder, 'copy.csv'), 'utf8'), 'a,b');
    assert.ok(!readdirSync(folder).some((name) => name.endsWith('.tmp')));

    writeFileSync(join(folder, 'film.mp4'), randomBytes(900_000));
    const refused = await svc('files', 'put', 'album', 'film.mp4');
    assert.match(refused.stderr, /^✗ QUOTA_EXCEEDED: .*\n +Delete files that the app no longer needs/);
    assert.match((await svc('files', 'put', 'album', 'rows', '--type', 'csv')).stderr, /must be a media type/);
    const asked = await svc('files', 'rm', 'album', sha256);
    assert.deepEqual([asked.status, asked.stderr.split('\n')[0]], [2, '✗ This needs a confirmation.']);
    assert.match((await works('files', 'rm', 'album', sha256.slice(0, 12), '--yes')).stdout, /of album is deleted/);
    const gone = await svc('files', 'get', 'album', sha256);
    assert.match(gone.stderr, /No file of "album" begins with .*\n +List them: svc files ls album/);
    assert.equal((await svc('files', 'ls', 'nothing')).status, 1);
  });
});
