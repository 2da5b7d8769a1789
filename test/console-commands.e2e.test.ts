/**
 * Everything that the console does has a documented route and a command: the addresses in its sources, and the commands
 * that no other test covers.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { packBytes } from '../cli/dev/app-folder.ts';
import { allRoutes } from '../supervisor/routes/all.ts';
import type { Services } from '../supervisor/services.ts';
import { appOf } from '../testing/apps.ts';
import { say } from '../testing/chat.ts';
import { onEachStore } from '../testing/edges.ts';
import { root } from '../testing/gateway.ts';
import { STUB_RUNNERS } from '../testing/stub-runner.ts';

/** Addresses that no command requests literally, and the command that does the same. */
const OTHERWISE: Record<string, string> = {
  '/svc/_enter': 'svc open: the link that it prints leads there',
  '/svc/:/': 'svc open',
  '/svc/_draft/:/:/': 'svc open --workspace',
  '/svc/:/_chat/windows/:/turns/:/events': 'svc chat: what it sent is answered with this stream',
  '/_svc-conversations/apps/:/sessions/:/turns/:/events': 'svc chat: what it sent is answered with this stream',
  '/svc/_automations/:/:/enabled': 'svc automations enable and disable',
  '/svc/_openapi.json': 'a document',
  '/svc/_docs/:': 'a document, which the package has in docs/',
  '/svc/_docs/': 'a picture of a document',
  '/svc/_console/:': 'a script of the console',
  '/svc/_apps/_import': 'svc push, of an archive',
  '/svc/_apps/_fetch': 'curl, then svc push of the archive',
  '/svc/_notices/push-key': 'only a browser can agree to notices',
  '/svc/_notices/browsers': 'only a browser can agree to notices',
  '/svc/_notices/browsers/:': 'only a browser can agree to notices',
  '/svc/_session/length': 'signInHours of the configuration',
  '/svc/_auth/password': 'who has an account signs in with a browser',
  '/svc/_auth/confirm': 'who has an account signs in with a browser',
  '/svc/_auth/invitation': 'who has an account signs in with a browser',
  '/svc/_auth/link': 'who has a link opens it with a browser',
  '/svc/_auth/join': 'who has an account signs in with a browser',
  '/svc/_auth/join/options': 'who has an account signs in with a browser',
  '/svc/_auth/passkey': 'who has an account signs in with a browser',
  '/svc/_auth/passkey/options': 'who has an account signs in with a browser',
  '/svc/_auth/passkeys': 'who has an account signs in with a browser',
  '/svc/_auth/passkeys/options': 'who has an account signs in with a browser',
  '/svc/_people/:/passkeys': 'svc people link, and then the console: only browsers have passkeys',
  '/svc/_people/:/passkeys/:': 'svc people link, and then the console: only browsers have passkeys',
  '/svc/_oauth/request': 'who connects a program signs in with a browser',
  '/svc/_oauth/consent': 'who connects a program signs in with a browser',
  '/svc/_auth/proxy': 'who has an account signs in with a browser',
  '/svc/_auth/provider/:': 'who has an account signs in with a browser',
  '/svc/_auth/provider/:/callback': 'who has an account signs in with a browser',
  '/svc/_people/:/identities': 'providers are linked with a browser',
  '/svc/_people/:/identities/:': 'providers are linked with a browser',
  '/svc/_people/:/picture': 'who has an account chooses a picture with a browser',
  '/svc/_people/:/sessions/:': 'svc people signout, of all sessions at once',
  '/svc/_apps/:/icon': 'a picture',
  '/svc/_turn/runner-status': 'svc agents',
  '/svc/_apps/:/versions/:/archive': 'svc pull',
  '/svc/_sessions/:/apps/:/folder': 'svc dev: its files are in a folder of one’s own',
  '/svc/_sessions/:/apps/:/tests': 'svc test',
  '/svc/_apps/:/meta': 'svc push, with another app.json',
  '/svc/_apps/:/duplicate': 'svc pull, then svc push under another id',
  '/_svc-conversations/apps/:/blobs/:': 'svc chat --attach: a picture that was sent',
};

/** The addresses in the sources of a folder, those in keys of routes too, with `:` for their variable parts. */
function addressesIn(folder: string): Set<string> {
  const names = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' });
  const texts = names
    .filter((name) => /\.tsx?$/.test(name) && !name.includes('.test.'))
    .map((name) => readFileSync(join(root, folder, name), 'utf8').replace(/\/\*\*[\s\S]*?\*\//g, ''));
  const found = texts.flatMap((text) =>
    [...text.matchAll(/[`'"](?:[A-Z]+ )?(\/_?svc[/_-][^`'"\s<]*)/g)].map(([, address = '']) =>
      address
        .replace(/\$\{[^}]*\}?|:\w+/g, ':')
        .replace(/[?#].*/, '')
        .replace(/(?<=[^/_:]):+$/, ''),
    ),
  );
  return new Set(found.filter((address) => address !== '/svc/'));
}

test('each address that the console asks for is documented, and asked for by a command', () => {
  const routes = allRoutes({ automations: {} } as Services).map(({ path }) => {
    const pattern = path.replaceAll('.', '\\.').replace(/:\w+/g, '[^/]+').replace('*', '.*');
    return new RegExp(`^${pattern}$`);
  });
  const commands = addressesIn('cli');
  const asked = addressesIn('console');
  assert.ok(asked.size > 40, `${asked.size} addresses were found`);
  for (const address of asked) {
    assert.ok(
      routes.some((route) => route.test(address)),
      `${address} is a route`,
    );
    assert.ok(commands.has(address) || Object.hasOwn(OTHERWISE, address), `${address} is asked for by a command`);
  }
  for (const address of Object.keys(OTHERWISE)) assert.ok(asked.has(address), `${address} is asked for by the console`);
});

onEachStore({ config: STUB_RUNNERS }, (gateway, store) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-commands-'));
  after(() => rmSync(folder, { recursive: true, force: true }));

  const svc = (...args: string[]) => {
    const line = [join(root, 'bin/svc.js'), ...args, '--url', gateway.url, '--token', gateway.token];
    return new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) => {
      execFile(process.execPath, line, { cwd: folder }, (error, stdout, stderr) =>
        resolve({ code: error?.code ?? 0, stdout, stderr }),
      );
    });
  };
  const works = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await svc(...args);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  const document = async (...args: string[]) => JSON.parse(await works(...args, '--json'));
  const answer = async (path: string) => (await gateway.call('GET', path)).json;
  const isRefused = async (args: string[], words: RegExp) => {
    const { code, stderr } = await svc(...args);
    assert.notEqual(code, 0);
    assert.match(stderr, words);
    assert.match(stderr, /\n {2}\S/, 'a next step');
  };

  const shop = (title: string) =>
    appOf('shop', {
      automations: { echo: '({ input }) => ({ output: input })' },
      files: { 'index.html': `<title>${title}</title>` },
      manifest: {
        knobs: [
          {
            key: 'theme',
            label: 'Theme',
            type: 'segmented',
            default: 'light',
            options: ['light', 'dark'].map((value) => ({ value, label: value })),
          },
        ],
      },
    });
  before(async () => assert.equal((await gateway.upload('shop', shop('First'))).status, 201));

  test(`${store}: settings of a page are shown, set and reset`, async () => {
    assert.match(await works('settings', 'shop'), /^SETTING +VALUE +TAKES +LABEL\ntheme +light +light, dark +Theme\n$/);
    assert.match(await works('settings', 'shop', 'theme', 'dark'), /✓ theme of shop is dark/);
    assert.deepEqual((await document('settings', 'shop')).settings, { theme: 'dark' });
    await isRefused(['settings', 'shop', 'theme', 'red'], /"red" is not a value[\s\S]*Values: light, dark/);
    await isRefused(['settings', 'shop', 'them', 'dark'], /no setting "them"[\s\S]*Did you mean "theme"/);
    assert.match(await works('settings', 'shop', 'theme', '--default'), /is light again/);
    assert.deepEqual((await answer('/svc/_apps/shop/settings')).settings, {});
  });

  test(`${store}: an archive is uploaded unchanged, and versions are deleted`, async () => {
    const files = Object.entries(shop('Second')).map(([path, text]) => ({ path, bytes: Buffer.from(text) }));
    const archive = await packBytes(files);
    writeFileSync(join(folder, 'shop.tar.gz'), archive);
    writeFileSync(join(folder, 'half.tgz'), archive.subarray(0, archive.length / 2));
    writeFileSync(join(folder, 'other.tgz'), await packBytes([{ path: 'shop/app.json', bytes: Buffer.from('{}') }]));
    assert.match(await works('push', 'shop.tar.gz'), /✓ shop .* is live/);
    await isRefused(['push', 'half.tgz'], /half\.tgz is not a gzipped tar archive|no app\.json/);
    await isRefused(['push', 'other.tgz'], /other\.tgz has no app\.json with an id at its top/);
    const [live, old] = await document('versions', 'shop');
    await isRefused(['versions', 'rm', 'shop', old.versionId], /needs a confirmation/);
    await isRefused(['versions', 'rm', 'shop', live.versionId, '--yes'], /VERSION_ACTIVE[\s\S]*svc activate shop/);
    await isRefused(['versions', 'rm', 'shop'], /<version> is missing/);
    assert.match(await works('versions', 'rm', 'shop', old.versionId, '--yes'), /is deleted/);
    assert.equal((await answer('/svc/_apps/shop/versions')).length, 1);
  });

  test(`${store}: a run is repeated with its input, and counted`, async () => {
    const first = { body: { input: { day: 'monday' } } };
    const { runId } = (await gateway.call('POST', '/svc/_automations/shop/echo/run?wait=1', first)).json;
    const again = await document('run', 'again', runId, '--wait');
    assert.notEqual(again.runId, runId);
    assert.deepEqual(again.output, { day: 'monday' });
    await isRefused(['run', 'again', 'none'], /UNKNOWN_RUN/);
    const insights = await works('insights', '--days', '7');
    assert.match(
      insights,
      /^AUTOMATION[\s\S]*shop\/echo +2 +0 .* –\n[\s\S]*\nDAY[\s\S]*\n2 runs, 0 failed; 0 tokens in, 0 out\n$/,
    );
    assert.equal((await document('insights')).totals.runs, 2);
    await isRefused(['insights', '--days', '400'], /from 1 to 366/);
  });

  test(`${store}: conversations are listed, printed and deleted`, async () => {
    assert.match((await svc('chats', 'shop')).stderr, /There are no conversations\. Begin one: svc chat shop/);
    const modes = store === 'git' ? ['data', 'full'] : ['data'];
    for (const mode of modes) await say(gateway, 'shop', `in-${mode}`, 'say Hello', { mode });
    assert.deepEqual(
      (await document('chats', 'shop')).map(({ id }: { id: string }) => id).sort(),
      modes.map((m) => `in-${m}`),
    );
    await isRefused(['run', 'again', (await answer('/svc/_runs?app=shop'))[0].runId], /a turn of a chat/);
    for (const mode of modes) {
      assert.match(await works('chats', 'show', 'shop', `in-${mode}`), /^› say Hello\n[\s\S]*Hello/);
      await isRefused(['chats', 'rm', 'shop', `in-${mode}`], /needs a confirmation/);
      assert.match(await works('chats', 'rm', 'shop', `in-${mode}`, '--yes'), /is deleted/);
    }
    assert.deepEqual(await answer('/svc/shop/_chat/windows'), []);
    await isRefused(['chats', 'show', 'shop', 'in-data'], /There is no conversation "in-data"/);
    await isRefused(['chats', 'drop', 'shop', 'x'], /"drop" is not a verb[\s\S]*Verbs: show, rm/);
  });
});
