/**
 * The files of an app's versions, on both stores: what changes between them, and how folders take them and give them back: the routes
 * with their refusals, `svc versions`, `svc push`, `svc pull` and `svc publish` of folders.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { tarball } from '../testing/archive.ts';
import { svc as commandLine, type RunOptions } from '../testing/command-line.ts';
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

const refused = (answer: Answer, status: number, code: string) =>
  assert.equal(`${answer.status} ${answer.json?.error?.code}`, `${status} ${code}`, answer.text);

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
      // With another version than the live one.
      const named = await gateway.call('GET', `${at(second, 'diff')}?from=${encodeURIComponent(first)}`);
      assert.deepEqual([named.json.from, named.json.to], [first, second]);
      const page = named.json.files.find(({ path }: { path: string }) => path === 'index.html');
      assert.match(page.patch, /-.*First.*\n\+.*Second/);
      for (const from of ['', '../x', 'v_20200101T000000000Z_000000'])
        refused(
          await gateway.call('GET', `${at(second, 'diff')}?from=${encodeURIComponent(from)}`),
          404,
          'UNKNOWN_VERSION',
        );
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

  describe('folders and versions', () => {
    const home = mkdtempSync(join(tmpdir(), 'svc-folders-'));
    after(() => rmSync(home, { recursive: true, force: true }));

    /** Runs `svc …` in this process, and returns what it says when it ends with this code. */
    const svc = async (line: string, code = 0, options: RunOptions = {}): Promise<string> => {
      const env = { HOME: home, SVC_URL: gateway.url, SVC_TOKEN: gateway.token };
      const outcome = await commandLine(line.split(' '), { env, cwd: home, ...options });
      assert.equal(outcome.code, code, `svc ${line}: ${outcome.stdout}${outcome.stderr}`);
      return outcome.stdout + outcome.stderr;
    };
    const file = (path: string) => readFileSync(join(home, path), 'utf8');
    const edit = (path: string, from: string, to: string) => {
      assert.ok(file(path).includes(from), `${path} has ${from}`);
      writeFileSync(join(home, path), file(path).replace(from, to));
    };
    const versions = async (app: string) => (await gateway.call('GET', `/svc/_apps/${app}/versions`)).json;
    /** The names of the files of a folder, hidden ones left out. */
    const names = (folder: string) =>
      readdirSync(join(home, folder), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(join(home, folder).length + 1))
        .filter((name) => !name.startsWith('.'))
        .sort();
    /** A folder with an app whose page has ten lines; `more` are other files. */
    const make = (app: string, more: Record<string, string> = {}) => {
      const lines = Array.from({ length: 10 }, (_, at) => `<p>${at}</p>\n`).join('');
      const files = { ...appOf(app, { queries: { list: '() => []' } }), 'index.html': lines, ...more };
      for (const [path, text] of Object.entries(files)) {
        mkdirSync(join(home, app, path, '..'), { recursive: true });
        writeFileSync(join(home, app, path), text);
      }
    };

    test('an upload says what it replaced, refuses to replace another version than it names, and keeps its message and sender', async () => {
      const body = { name: 'robot', tools: 'all' };
      const { token } = (await gateway.call('POST', '/svc/_tokens', { body })).json;
      const upload = (version: string, query = '', options = {}) =>
        gateway.call('POST', `/svc/_apps/said/upload${query}`, {
          body: tarball(appOf('said', { manifest: { version } })),
          headers: { 'content-type': 'application/gzip' },
          ...options,
        });
      const first = (await upload('1', '?message=Begin%20%C3%BC', { token })).json;
      assert.equal('replaced' in first, false);
      const second = (await upload('2', `?ifLive=${encodeURIComponent(first.versionId)}`)).json;
      const [, row] = await versions('said');
      assert.deepEqual(second.replaced, { versionId: first.versionId, publishedAt: row.uploadedAt, by: 'robot' });
      const late = await upload('3', `?ifLive=${encodeURIComponent(first.versionId)}`);
      assert.deepEqual([late.status, late.json.error.code, late.json.error.path], [409, 'WOULD_REPLACE', 'ifLive']);
      assert.ok(late.json.error.message.includes(second.versionId), late.text);
      assert.equal((await versions('said')).length, 2, 'nothing was stored');
      const same = await upload('2', `?ifLive=${encodeURIComponent(first.versionId)}`);
      assert.deepEqual([same.status, 'replaced' in same.json], [200, false], 'what is live already replaces nothing');
      const stored = await upload('3', '?ifLive=other&activate=0');
      assert.deepEqual([stored.status, 'replaced' in stored.json], [201, false], 'what is only stored neither');
      assert.deepEqual(
        (await versions('said')).map(({ message, by }: Record<string, string>) => [message, by]),
        [
          [undefined, undefined],
          [undefined, undefined],
          ['Begin ü', 'robot'],
        ],
      );
      for (const wrong of ['?message=', `?message=${'x'.repeat(501)}`])
        assert.equal((await upload('4', wrong)).json.error.code, 'BAD_REQUEST');
    });

    test('a version is downloaded as an archive of what was sent, which can be pushed', async () => {
      const hook = JSON.stringify({ name: 'In', prompt: 'x', triggers: [{ kind: 'webhook', pending: true }] }, null, 2);
      make('packed', {
        'automations/in/automation.json': hook,
        'automations/in/handler.js': 'export default () => {};',
      });
      await svc('push packed');
      const [{ versionId }] = await versions('packed');
      const path = `/svc/_apps/packed/versions/${encodeURIComponent(versionId)}/archive`;
      const { bytes, headers } = await gateway.call('GET', path);
      assert.equal(headers['content-type'], 'application/gzip');
      assert.match(String(headers['content-disposition']), /^attachment; filename="packed-v[\w]+\.tgz"$/);
      writeFileSync(join(home, 'packed.tgz'), bytes);
      assert.match(await svc('push packed.tgz'), /unchanged since an earlier upload|is live/);
      // One that was made of the folder has what the folder came from in it, which is no file of the app.
      const own = { ...Object.fromEntries(names('packed').map((name) => [name, file(`packed/${name}`)])) };
      const made = await gateway.upload('packed', { ...own, '.svc-app': file('packed/.svc-app') }, '?activate=0');
      assert.deepEqual([made.status, made.json.files], [200, names('packed').length], made.text);
      assert.deepEqual(readdirSync(join(gateway.dataDir, 'tmp')), []);
      refused(await gateway.call('GET', path, { token: null }), 401, 'UNAUTHORIZED');
      refused(await gateway.call('GET', path.replace('packed/', 'none/')), 404, 'UNKNOWN_APP');
      await svc('pull packed again');
      assert.deepEqual(names('again'), names('packed'));
      if (store === 'git') assert.equal(file('again/automations/in/automation.json'), hook);
      // The gateway has written an address into it, which is no change of the folder's own.
      edit('again/index.html', '<p>0', '<p>zero');
      await svc('push again');
      assert.match(await svc('pull packed packed'), /taken {4}index\.html/);
      assert.equal(file('packed/automations/in/automation.json'), hook);
    });

    test('an older copy does not go live in silence', async () => {
      make('notes2');
      await svc('push notes2 -m Begin');
      cpSync(join(home, 'notes2'), join(home, 'older'), { recursive: true });
      cpSync(join(home, 'notes2'), join(home, 'bare'), { recursive: true });
      rmSync(join(home, 'bare/.svc-app'));
      edit('notes2/index.html', '<p>1', '<p>one');
      await svc('push notes2 -m One');
      const live = (await versions('notes2'))[0].versionId;
      edit('older/index.html', '<p>8', '<p>eight');
      const said = await svc('push older', 1);
      assert.match(
        said,
        /WOULD_REPLACE: Live is .*svc versions notes2\n.*svc pull notes2 older\n.*svc push older --force/s,
      );
      assert.match(await svc('push bare', 1), /These are the files of .* live is .*svc push bare --force/s);
      assert.match(await svc('push bare', 1, { tty: true, stdin: 'n\n' }), /Make the older ones live\?/);
      assert.equal(JSON.parse(await svc('push bare --json', 1)).error.code, 'WOULD_REPLACE');
      assert.equal((await versions('notes2')).find(({ active }: { active: boolean }) => active).versionId, live);
      // A yes, and what was replaced is named; the folder knows what it is now.
      assert.match(await svc('push bare', 0, { tty: true, stdin: 'y\n' }), /replaced .*, published/);
      // Who rolls back, corrects and pushes again replaces nothing newer.
      edit('notes2/index.html', '<p>2', '<p>two');
      assert.doesNotMatch(await svc('push notes2 -m Two'), /replaced/);
      assert.match(await svc('push older --force'), /replaced .*, published/);
      assert.match(await svc('versions notes2'), /MESSAGE\n[\s\S]*Two\n/);
    });

    test('svc pull takes the live version into a new folder, and what is new into one that was not changed', async () => {
      make('shared', { 'css/a.css': 'a {}\n' });
      await svc('push shared');
      assert.match(await svc('pull shared there/mine'), /files +4 files/);
      assert.deepEqual(names('there/mine'), names('shared'));
      assert.match(await svc('pull shared there/mine'), /already/);
      writeFileSync(join(home, 'shared/new.js'), 'export {};\n');
      rmSync(join(home, 'shared/css'), { recursive: true });
      edit('shared/index.html', '<p>3', '<p>three');
      await svc('push shared');
      const { written, deleted, conflicts } = JSON.parse(await svc('pull shared there/mine --json'));
      assert.deepEqual([written, deleted, conflicts], [['index.html', 'new.js'], ['css/a.css'], []]);
      assert.deepEqual(names('there/mine'), names('shared'));
      edit('there/mine/index.html', '<p>4', '<p>four');
      assert.match(await svc('push there/mine'), /is live/, 'it knows what it came from');
      assert.match(await svc('pull packed there/mine', 1), /folder of the app "shared"/);
      mkdirSync(join(home, 'unsaid'));
      cpSync(join(home, 'shared/app.json'), join(home, 'unsaid/app.json'));
      writeFileSync(join(home, 'unsaid/own.txt'), 'own');
      assert.match(await svc('pull shared unsaid', 1), /does not say which version it is from: .*own\.txt/s);
      assert.deepEqual(names('unsaid'), ['app.json', 'own.txt']);
    });

    test('changes of the folder are merged with what is new on the git store, and refuse it on the other', async () => {
      make('both');
      await svc('push both');
      cpSync(join(home, 'both'), join(home, 'mine'), { recursive: true });
      edit('both/index.html', '<p>1', '<p>one');
      await svc('push both');
      edit('mine/index.html', '<p>8', '<p>eight');
      writeFileSync(join(home, 'mine/own.txt'), 'own');
      if (store === 'tarball') {
        assert.match(
          await svc('pull both mine', 1),
          /changes of its own.*: index\.html, own\.txt\.\n.*svc pull both <dir>/s,
        );
        assert.match(file('mine/index.html'), /<p>1<.*<p>eight/s);
        return;
      }
      assert.match(await svc('pull both mine'), /taken {4}index\.html\n$/);
      assert.match(file('mine/index.html'), /<p>one<.*<p>eight/s);
      assert.equal(file('mine/own.txt'), 'own');
      await svc('push mine');
      edit('both/index.html', '<p>8', '<p>acht');
      assert.match(await svc('pull both both', 1), /resolve {2}index\.html/);
      assert.match(file('both/index.html'), /<<<<<<< workspace\n<p>acht.*=======\n<p>eight.*>>>>>>> published/s);
      assert.match(await svc('push both', 1), /still marked in index\.html/);
    });

    test('svc publish of a folder merges from the version that it came from, and takes what it merged', async () => {
      if (store === 'tarball') return;
      make('drafted');
      await svc('publish ./drafted -m Begin');
      cpSync(join(home, 'drafted'), join(home, 'late'), { recursive: true });
      edit('drafted/index.html', '<p>1', '<p>one');
      await svc('publish ./drafted -m One');
      edit('drafted/index.html', '<p>one', '<p>uno');
      await svc('push drafted -m Uno');
      // Its workspace has the other folder's files, and a later base.
      edit('late/index.html', '<p>8', '<p>eight');
      assert.match(await svc('publish ./late -m Eight'), /taken +index\.html/);
      assert.match(file('late/index.html'), /<p>uno<.*<p>eight/s);
      edit('drafted/index.html', '<p>8', '<p>otto');
      const advice = /MERGE_CONFLICT.*\n.*svc pull drafted \.\/drafted\n.*svc publish \.\/drafted\n/;
      assert.match(await svc('publish ./drafted', 1), advice);
      assert.match(await svc('pull drafted ./drafted', 1), /resolve {2}index\.html/);
      assert.match(await svc('publish ./drafted', 1), /svc publish \.\/drafted\n/);
      const resolved = file('drafted/index.html').replace(/<<<<<<< workspace\n|=======\n.*?>>>>>>> published\n/gs, '');
      writeFileSync(join(home, 'drafted/index.html'), resolved);
      await svc('publish ./drafted -m Otto');
      assert.match(await svc('pull drafted late'), /taken {4}index\.html\n$/);
      // A publication by the name of the app is the folder's too, whose next edit of a line is in conflict with nothing.
      edit('late/index.html', '<p>otto', '<p>acht');
      await svc('dev late --once');
      await svc('publish drafted --workspace dev-drafted -m Acht');
      edit('late/index.html', '<p>acht', '<p>huit');
      await svc('dev late --once');
      await svc('publish drafted --workspace dev-drafted -m Huit');
      const [{ versionId, message, commit }] = await versions('drafted');
      assert.equal(message, 'Huit');
      await svc('dev late --once');
      const { app, ...origin } = JSON.parse(file('late/.svc-app'));
      assert.deepEqual([app, origin.version, origin.commit], ['drafted', versionId, commit]);
    });
  });
});
