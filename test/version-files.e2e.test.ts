/** The files of an app's versions and what changes between them: the routes with their refusals, and `svc versions`, on both stores. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { onEachStore } from '../testing/edges.ts';
import { type Answer, root } from '../testing/gateway.ts';

const PIXEL = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 1, 2, 3]);
const LINES = 120_000;
const large = (word: string) => `${word}\n`.repeat(LINES);

const notes = (title: string, big: string) =>
  appOf('notes', {
    queries: { list: '() => []' },
    files: {
      'index.html': `<!doctype html><title>${title}</title>\n`,
      'lib/a b.js': 'export const a = 1;\n',
      'icon.png': title === 'First' ? PIXEL : Buffer.concat([PIXEL, PIXEL]),
      'big.txt': big,
    },
  });

onEachStore({}, (gateway, store) => {
  describe('files of versions', () => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-version-files-'));
    let first: string;
    let second: string;

    before(async () => {
      for (const files of [notes('First', large('one')), notes('Second', large('two'))])
        assert.equal((await gateway.upload('notes', files)).status, 201);
      const { json } = await gateway.call('GET', '/svc/_apps/notes/versions');
      [second = '', first = ''] = json.map(({ versionId }: { versionId: string }) => versionId);
    });
    after(() => rmSync(folder, { recursive: true, force: true }));

    const at = (version: string, rest: string, app = 'notes') =>
      `/svc/_apps/${app}/versions/${encodeURIComponent(version)}/${rest}`;
    const refused = (answer: Answer, status: number, code: string) =>
      assert.equal(`${answer.status} ${answer.json?.error?.code}`, `${status} ${code}`, answer.text);

    /** Runs `svc …` as its users do. */
    const svc = (...args: string[]): Promise<{ code: number; stdout: Buffer; stderr: string }> =>
      new Promise((resolve) => {
        const env = { PATH: process.env.PATH, HOME: folder, SVC_URL: gateway.url, SVC_TOKEN: gateway.token };
        const options = { cwd: folder, env, encoding: 'buffer', maxBuffer: 2 ** 26 } as const;
        execFile(process.execPath, [join(root, 'bin/svc.js'), ...args], options, (error, stdout, stderr) =>
          resolve({ code: Number(error?.code ?? 0), stdout, stderr: stderr.toString() }),
        );
      });

    test('each version has its files, as they were sent', async () => {
      const { json } = await gateway.call('GET', at(first, 'files'));
      const paths = json.map(({ path }: { path: string }) => path);
      assert.deepEqual(paths, [...paths].sort());
      assert.ok(paths.includes('lib/a b.js') && paths.includes('app.json'));
      const icon = await gateway.call('GET', at(first, 'files/icon.png'));
      assert.deepEqual(icon.bytes, PIXEL);
      assert.equal(icon.headers['content-disposition'], 'attachment');
      const same = { headers: { 'if-none-match': String(icon.headers.etag) } };
      assert.equal((await gateway.call('GET', at(first, 'files/icon.png'), same)).status, 304);
      assert.equal((await gateway.call('GET', at(second, 'files/icon.png'), same)).status, 200);
      assert.match((await gateway.call('GET', at(second, 'files/lib/a%20b.js'))).text, /a = 1/);
    });

    test('the difference has patches of texts, and marks files that are binary or too large for one', async () => {
      const { json } = await gateway.call('GET', at(first, 'diff'));
      assert.deepEqual([json.from, json.to], [second, first]);
      const files = new Map(json.files.map((file: { path: string }) => [file.path, file]));
      assert.deepEqual([...files.keys()].sort(), ['big.txt', 'icon.png', 'index.html']);
      const file = (path: string) => files.get(path) as Record<string, unknown>;
      assert.match(String(file('index.html').patch), /-.*Second.*\n\+.*First/);
      assert.deepEqual([file('icon.png').binary, file('icon.png').patch], [true, '']);
      assert.deepEqual([file('big.txt').truncated, file('big.txt').patch], [true, '']);
      assert.deepEqual((await gateway.call('GET', at(second, 'diff'))).json.files, []);
    });

    test('unknown versions and files are refused, and no file outside the version is reached', async () => {
      for (const rest of ['files', 'files/app.json', 'diff']) {
        refused(await gateway.call('GET', at(first, rest, 'nobody')), 404, 'UNKNOWN_APP');
        for (const unknown of [store === 'git' ? 'notes/v99' : 'v_20200101T000000000Z_000000', '../x', 'x/../..'])
          refused(await gateway.call('GET', at(unknown, rest)), 404, 'UNKNOWN_VERSION');
        const wrong = await gateway.call('POST', at(first, rest), { body: {} });
        refused(wrong, 405, 'METHOD_NOT_ALLOWED');
        assert.match(String(wrong.headers.allow), /GET/);
      }
      for (const path of [
        'none.txt',
        'lib',
        'app.json/x',
        '..%2f..%2f..%2fsvc.sqlite',
        '%2e%2e%2f%2e%2e%2fconfig.json',
        'lib%2f..%2fapp.json',
        '%2fetc%2fpasswd',
        'app.json%00',
        'a'.repeat(3000),
      ]) {
        const answer = await gateway.call('GET', at(first, `files/${path}`));
        assert.ok([400, 404].includes(answer.status), `${path}: ${answer.status} ${answer.text.slice(0, 200)}`);
        assert.ok(['NOT_FOUND', 'BAD_REQUEST', 'ARCHIVE_PATH'].includes(answer.json.error.code), answer.text);
      }
      refused(await gateway.call('GET', at(first, 'files/%zz')), 400, 'BAD_REQUEST');
    });

    test('they need the right to manage the app', async () => {
      assert.equal((await gateway.upload('other', appOf('other'))).status, 201);
      const tokenFor = async (tools: string, app: string): Promise<string> => {
        const body = { name: `${tools} ${app}`, tools, apps: [app] };
        return (await gateway.call('POST', '/svc/_tokens', { body })).json.token;
      };
      for (const rest of ['files', 'files/app.json', 'diff']) {
        refused(await gateway.call('GET', at(first, rest), { token: null }), 401, 'UNAUTHORIZED');
        refused(await gateway.call('GET', at(first, rest), { token: 'x'.repeat(64) }), 401, 'UNAUTHORIZED');
      }
      for (const [tools, app, status] of [
        ['read', 'notes', 403],
        ['write', 'notes', 403],
        ['all', 'other', 403],
        ['all', 'notes', 200],
      ] as const) {
        const token = await tokenFor(tools, app);
        for (const rest of ['files', 'files/app.json', 'diff'])
          assert.equal(
            (await gateway.call('GET', at(first, rest), { token })).status,
            status,
            `${tools} ${app} ${rest}`,
          );
      }
    });

    test('svc versions lists, prints and compares them', async () => {
      const short = store === 'git' ? '1' : first.slice(-6);
      const listed = JSON.parse((await svc('versions', 'files', 'notes', short, '--json')).stdout.toString());
      assert.deepEqual(listed, (await gateway.call('GET', at(first, 'files'))).json);
      const live = await svc('versions', 'files', 'notes');
      assert.match(live.stdout.toString(), /^FILE +SIZE\napp\.json/);
      assert.ok(live.stderr.includes(`of ${second}`), live.stderr);
      // A program gets the raw bytes.
      assert.deepEqual((await svc('versions', 'show', 'notes', short, 'icon.png')).stdout, PIXEL);
      assert.match((await svc('versions', 'show', 'notes', short, 'lib/a b.js')).stdout.toString(), /^export const a/);
      const json = JSON.parse((await svc('versions', 'show', 'notes', short, 'icon.png', '--json')).stdout.toString());
      assert.deepEqual(json, { path: 'icon.png', versionId: first, size: PIXEL.length, text: null });
      assert.equal((await svc('versions', 'show', 'notes', short, 'icon.png', '--out', 'kept.png')).code, 0);
      assert.deepEqual(readFileSync(join(folder, 'kept.png')), PIXEL);
      const again = await svc('versions', 'show', 'notes', short, 'icon.png', '--out', 'kept.png');
      assert.match(again.stderr, /kept\.png already exists\.\n.*--out/);
      assert.equal(again.code, 1);

      // Without a version: the changes of a rollback.
      const diff = (await svc('versions', 'diff', 'notes')).stdout.toString();
      assert.ok(diff.startsWith(`${second} → ${first}\n`), diff.slice(0, 200));
      assert.match(diff, /M index\.html {2}\+1 -1\n[\s\S]*\+<!doctype html><title>First/);
      assert.match(diff, /M icon\.png {2}binary/);
      const stat = (await svc('versions', 'diff', 'notes', short, '--stat')).stdout.toString();
      assert.doesNotMatch(stat, /doctype/);
      assert.match(stat, /3 files, \+\d+ -\d+\n$/);

      for (const [line, said] of [
        [['files', 'notes', 'v_20200101T000000000Z_000000'], /UNKNOWN_VERSION[\s\S]*svc versions notes/],
        [['files', 'nots'], /UNKNOWN_APP[\s\S]*Did you mean "notes"/],
        [['show', 'notes', short, 'app.jso'], /has no file app\.jso\.\n.*Did you mean "app\.json"/],
        [['show', 'notes', short, '../../x'], /ARCHIVE_PATH/],
      ] as const) {
        const { code, stderr } = await svc('versions', ...line);
        assert.equal(code, 1, stderr);
        assert.match(stderr, said);
      }
    });
  });
});
