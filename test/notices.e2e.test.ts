/**
 * Notices from the real daemon to servers on loopback that speak SMTP, ntfy and the push protocol (specification, "Notices").
 */
import assert from 'node:assert/strict';
import { createPublicKey, verify } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Notice } from '../protocol/notice.ts';
import type { ChannelStatus, TestResult } from '../protocol/routes/operations/notices-rows.ts';
import { appOf } from '../testing/apps.ts';
import { svc } from '../testing/command-line.ts';
import { eventually } from '../testing/edges.ts';
import { gatewayIn, type TestGateway } from '../testing/gateway.ts';
import { type Mail, MailServer, makeCertificate, PostServer, PushReceiver } from '../testing/notice-servers.ts';

const SHOP = appOf('shop', {
  manifest: { name: 'The Shop' },
  queries: { ask: `async ({ ctx }) => await ctx.notify({ title: 'a', text: 'b' })` },
  actions: {
    send: `async ({ ctx, input }) => ({ status: 200, body: await ctx.notify(input.notice) })`,
    forget: `async ({ ctx }) => { ctx.notify({ title: 'Not awaited', text: 'It goes all the same.' }); return { status: 204 }; }`,
    late: `async ({ ctx }) => {
      setTimeout(() => ctx.notify({ title: 'a', text: 'b' }).catch(({ message }) => console.log(message)), 1);
      return { status: 204 };
    }`,
    leak: `async ({ ctx }) => { const key = await ctx.secrets.get('KEY'); await ctx.notify({ title: 'Key', text: key }); return { status: 204 }; }`,
    many: `async ({ ctx }) => {
      let sent = 0;
      try { for (; sent < 100; sent++) await ctx.notify({ title: 'Again', text: String(sent) }); }
      catch ({ code, message }) { return { status: 200, body: { sent, code, message } }; }
    }`,
  },
  automations: {
    report: {
      name: 'Report',
      run: `async ({ ctx, input }) => {
        if (input?.fail) throw new Error(input.fail);
        if (input?.tell) return { output: await ctx.notify({ title: 'Told', text: 'by an automation', url: '#/sold' }) };
      }`,
    },
  },
});
const NOISY = appOf('noisy', {
  actions: { many: SHOP['actions/many.js']?.toString().replace(/^export default |;\n$/g, '') ?? '' },
});
const FRAGILE = appOf('fragile', {
  queries: {
    fine: '() => 1',
    crash: '() => { setTimeout(() => { throw new Error("gone wrong"); }, 0); return new Promise(() => {}); }',
  },
});
/** None of these may leave the gateway but to where they belong. */
const SECRETS = ['mail-password', 'me@home.example', 'a-secret-topic', 'T0/B0/hook', 'hook-token', 'secret-things'];

describe('notices', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  const certificate = makeCertificate(folder);
  assert.ok(certificate !== null || process.env.CI !== 'true', 'openssl is not installed.');
  const mail = new MailServer();
  const [ntfy, slack, json] = [new PostServer(), new PostServer(), new PostServer()];
  const service = certificate === null ? null : new PostServer(certificate);
  let gateway: TestGateway;

  before(async () => {
    const smtp = await mail.listen();
    const [topics, hooks, programs] = await Promise.all([ntfy.listen(), slack.listen(), json.listen()]);
    gateway = gatewayIn(folder, {
      config: {
        log: 'info',
        publicUrl: 'https://gateway.example.org',
        mail: {
          url: `smtp://svc:mail-password@127.0.0.1:${smtp}`,
          from: 'svc <svc@home.example>',
          to: 'me@home.example',
        },
        notify: [
          { kind: 'mail' },
          { kind: 'ntfy', url: `${topics}/a-secret-topic` },
          { kind: 'slack', url: `${hooks}/services/T0/B0/hook` },
          { kind: 'json', url: `${programs}/hook`, headers: { authorization: 'Bearer hook-token' } },
        ],
      },
      env: certificate === null ? {} : { NODE_EXTRA_CA_CERTS: certificate.file },
      apps: { shop: SHOP, noisy: NOISY, fragile: FRAGILE },
    });
    await gateway.start();
  });
  after(async () => {
    await gateway?.stop();
    for (const server of [mail, ntfy, slack, json, service]) server?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const send = (notice: unknown) => gateway.write('shop', 'send', { notice });
  const channels = async (): Promise<ChannelStatus[]> => (await gateway.call('GET', '/svc/_notices')).json.channels;
  const stateOf = async (channel: string) => (await channels()).find((one) => one.channel === channel);
  const nextMail = (): Promise<Mail> => mail.mails.next('mail');
  const nextJson = async (): Promise<Notice> => JSON.parse((await json.posts.next('notice')).body.toString());
  /** The next notice at each; they go on from here together. */
  const nextOfAll = async () => {
    const [mailed, topic, hook, posted] = await Promise.all([
      nextMail(),
      ntfy.posts.next('ntfy'),
      slack.posts.next('slack'),
      nextJson(),
    ]);
    return { mailed, topic, hook, posted };
  };
  const run = (input: object) => gateway.call('POST', '/svc/_automations/shop/report/run?wait=1', { body: { input } });

  test('what an action sends reaches people by each channel, with the name of the app and a whole address', async () => {
    const sent = await send({ title: 'Order ✓ 12', text: 'Two <b>lamps</b>\n& a table', url: '#/orders/12' });
    assert.deepEqual(sent.json.data, { status: 200, body: { channels: 4 } });
    const { mailed, topic, hook, posted } = await nextOfAll();
    const url = 'https://gateway.example.org/svc/shop/#/orders/12';

    assert.deepEqual(
      [mailed.from, mailed.to, mailed.login],
      ['svc@home.example', ['me@home.example'], '\0svc\0mail-password'],
    );
    assert.equal(mailed.headers.get('subject'), '=?UTF-8?Q?The_Shop=3A_Order_=E2=9C=93_12?=');
    assert.equal(mailed.headers.get('auto-submitted'), 'auto-generated');
    assert.equal(mailed.headers.get('message-id'), `<${posted.id}@svc>`);
    assert.equal(mailed.text, `Two <b>lamps</b>\n& a table\n\n${url}`);

    assert.deepEqual(
      [topic.path, JSON.parse(topic.body.toString())],
      [
        '/',
        { topic: 'a-secret-topic', title: 'The Shop: Order ✓ 12', message: 'Two <b>lamps</b>\n& a table', click: url },
      ],
    );
    assert.deepEqual(
      [hook.path, JSON.parse(hook.body.toString())],
      [
        '/services/T0/B0/hook',
        { text: `*The Shop: Order ✓ 12*\nTwo &lt;b&gt;lamps&lt;/b&gt;\n&amp; a table\n<${url}|Open>` },
      ],
    );
    assert.equal(json.posts.all.at(-1)?.headers.authorization, 'Bearer hook-token');
    const { id, at, ...rest } = posted;
    assert.ok(id.length === 36 && Math.abs(Date.now() - at) < 60_000);
    assert.deepEqual(rest, {
      kind: 'app',
      app: { id: 'shop', name: 'The Shop' },
      title: 'Order ✓ 12',
      text: 'Two <b>lamps</b>\n& a table',
      url,
      isWell: false,
    });
  });

  test('an automation sends too, and a call ends after a notice that it did not await; values of secrets are taken out', async () => {
    assert.deepEqual((await run({ tell: true })).json.output, { channels: 4 });
    assert.equal((await nextOfAll()).posted.url, 'https://gateway.example.org/svc/shop/#/sold');
    assert.equal((await gateway.write('shop', 'forget')).json.data.status, 204);
    assert.equal((await nextOfAll()).posted.title, 'Not awaited');
    await gateway.call('PUT', '/svc/_apps/shop/secrets/KEY', { body: { value: 'swordfish-1' } });
    assert.equal((await gateway.write('shop', 'leak')).json.data.status, 204);
    assert.equal((await nextOfAll()).posted.text, '[secret KEY]');
  });

  test('a notice that is none is refused with the member, and queries send none', async () => {
    for (const [notice, path] of [
      [undefined, 'an object'],
      [{ text: 'b' }, 'title'],
      [{ title: ' ', text: 'b' }, 'title'],
      [{ title: 'a', text: 'b'.repeat(4001) }, 'text'],
      [{ title: 'a', text: 'b', url: 'javascript:alert(1)' }, 'url'],
      [{ title: 'a', text: 'b', urgent: true }, 'title, text and url'],
      [{ title: 'a', text: 'b'.repeat(70_000) }, 'too long'],
    ] as const) {
      const { code, message } = (await send(notice)).json.error;
      assert.equal(code, 'HANDLER_ERROR');
      assert.ok(message.includes(path), message);
    }
    assert.match((await gateway.read('shop', 'ask')).json.error.message, /A query changes nothing/);
    assert.equal((await gateway.write('shop', 'late')).json.data.status, 204);
    await eventually(async () =>
      (await gateway.call('GET', '/svc/_logs?app=shop')).text.includes(
        'The call has ended: its ctx can no longer be used.',
      ),
    );
  });

  test('a failed run is told once, until it works again', async () => {
    const failed = await run({ fail: 'no paper' });
    const { mailed, topic, posted } = await nextOfAll();
    assert.equal(mailed.headers.get('subject'), 'The Shop: Report failed');
    assert.match(mailed.text, /^no paper\n\nYou hear of it again when it works\.\n\nhttps:/);
    assert.deepEqual([posted.kind, posted.url], ['run', `https://gateway.example.org/svc/#/runs/${failed.json.runId}`]);
    assert.deepEqual(JSON.parse(topic.body.toString()).tags, ['warning']);
    await run({ fail: 'still none' });
    await run({});
    const { posted: well } = await nextOfAll();
    assert.deepEqual([well.title, well.isWell], ['Report works again', true]);
    await run({});
    await run({ fail: 'none again' });
    assert.match((await nextOfAll()).posted.text, /^none again/);
    await run({});
    assert.equal((await nextOfAll()).posted.isWell, true);
  });

  test('a quarantined app is told, and that it takes calls again', async () => {
    let code = '';
    // The same call twice would be refused instead.
    for (let at = 0; code !== 'QUARANTINED'; at++)
      code = (await gateway.read('fragile', 'crash', { at })).json.error.code;
    const { posted } = await nextOfAll();
    assert.deepEqual([posted.kind, posted.app?.id, posted.title], ['quarantine', 'fragile', 'Quarantined']);
    assert.match(posted.text, /^Its calls are refused, because .*svc restart fragile/s);
    await gateway.call('POST', '/svc/_apps/fragile/restart', { body: {} });
    assert.equal((await gateway.read('fragile', 'fine')).json.data, 1);
    const { posted: well } = await nextOfAll();
    assert.deepEqual([well.app?.id, well.title], ['fragile', 'Works again']);
  });

  test('a failed backup is told, and a good one after it', async () => {
    const dir = join(folder, 'backups');
    await gateway.call('PUT', '/svc/_backups', { body: { cron: '0 3 1 1 *', dir } });
    rmSync(dir, { recursive: true });
    await gateway.call('POST', '/svc/_backups/files');
    const { posted } = await nextOfAll();
    assert.deepEqual([posted.kind, posted.app, posted.title], ['backup', null, 'The backup failed']);
    mkdirSync(dir);
    assert.equal((await gateway.call('POST', '/svc/_backups/files')).status, 202);
    assert.equal((await nextOfAll()).posted.title, 'Backups work again');
  });

  test('an app may send 60 in an hour; others and its failures are not held back', async () => {
    const { data } = (await gateway.write('noisy', 'many')).json;
    assert.deepEqual([data.body.sent, data.body.code], [60, 'RATE_LIMITED']);
    assert.match(data.body.message, /^"noisy" has sent 60 notices in an hour, the maximum; it may again in \d+ min\.$/);
    for (let i = 0; i < 60; i++) await nextOfAll();
    assert.deepEqual((await send({ title: 'Another', text: 'app' })).json.data.body, { channels: 4 });
    assert.equal((await nextOfAll()).posted.title, 'Another');
  });

  test('a browser that agreed gets what only it can read, signed by the gateway; one that took it back is removed', async (t) => {
    if (service === null) return t.skip('openssl is not installed.');
    const endpoint = `${await service.listen()}/push/of-a-browser`;
    const receiver = new PushReceiver();
    const { publicKey } = (await gateway.call('POST', '/svc/_notices/push-key')).json;
    const added = await gateway.call('POST', '/svc/_notices/browsers', {
      body: { subscription: receiver.subscription(endpoint), name: 'Chrome on Linux' },
    });
    assert.equal(added.status, 201, added.text);
    assert.deepEqual((await send({ title: 'For you', text: 'alone ✓', url: '?x=1' })).json.data.body, { channels: 5 });
    const { path, headers, body } = await service.posts.next('message to the browser');
    assert.deepEqual([path, headers['content-encoding'], headers.ttl], ['/push/of-a-browser', 'aes128gcm', '43200']);
    const { id, ...shown } = receiver.read(body) as Notice;
    const url = 'https://gateway.example.org/svc/shop/?x=1';
    assert.deepEqual(shown, { kind: 'app', title: 'The Shop: For you', text: 'alone ✓', url });
    assert.equal(id, (await nextOfAll()).posted.id);
    assert.deepEqual(claimsOf(String(headers.authorization), publicKey), {
      aud: new URL(endpoint).origin,
      sub: 'https://gateway.example.org',
    });
    assert.equal(statSync(join(gateway.dataDir, 'push.key')).mode & 0o777, 0o600);

    const row = (await channels()).find(({ kind }) => kind === 'push');
    assert.deepEqual([row?.browser?.name, row?.browser?.id, row?.state], ['Chrome on Linux', added.json.id, 'ok']);
    for (const [subscription, path] of [
      [{ ...receiver.subscription('http://127.0.0.1/x') }, 'subscription.endpoint'],
      [{ endpoint, keys: { p256dh: 'AAAA', auth: 'AAAA' } }, 'subscription.keys.p256dh'],
      [null, 'subscription'],
    ] as const) {
      const { error } = (await gateway.call('POST', '/svc/_notices/browsers', { body: { subscription } })).json;
      assert.deepEqual([error.code, error.path], ['BAD_REQUEST', path]);
    }
    service.status = 410;
    await send({ title: 'Gone', text: 'by now' });
    await nextOfAll();
    await eventually(async () => !(await channels()).some(({ kind }) => kind === 'push'));
    assert.equal((await gateway.call('DELETE', `/svc/_notices/browsers/${added.json.id}`)).status, 404);
  });

  test('svc notify test says how each channel does, and fails if one does not', async () => {
    const env = { SVC_URL: gateway.url, SVC_TOKEN: gateway.token };
    assert.equal(
      (await svc(['notify', 'test'], { env })).stdout,
      '✓ mail took the test\n✓ ntfy took the test\n✓ slack took the test\n✓ json took the test\n',
    );
    assert.deepEqual([(await nextOfAll()).posted.title], ['Test of svc']);
    mail.login = '535 5.7.8 mail-password of me@home.example is wrong';
    slack.status = 302;
    const failed = await svc(['notify', 'test'], { env });
    assert.equal(failed.code, 1);
    assert.match(failed.stdout + failed.stderr, /mail: The mail server refused the user name or the password\./);
    assert.match(failed.stdout + failed.stderr, /slack: It answered with 302, a redirect: configure the address/);
    assert.match((await svc(['status'], { env })).stdout, /notices +● failing mail .*The mail server refused/);
    assert.match((await svc(['notify'], { env })).stdout, /^CHANNEL .*\nmail +● fails/);
    mail.login = '235 welcome';
    slack.status = 200;
    const one = await svc(['notify', 'test', 'slack', '--json'], { env });
    assert.deepEqual(JSON.parse(one.stdout), { results: [{ channel: 'slack', ok: true }] satisfies TestResult[] });
    assert.equal(
      (await gateway.call('POST', '/svc/_notices/test', { body: { channel: 'pigeon' } })).json.error.path,
      'channel',
    );
    await Promise.all([ntfy.posts.next('ntfy'), slack.posts.next('slack'), slack.posts.next('slack'), nextJson()]);
  });

  test('a server that hangs holds up neither calls nor the stop, and gets the notice after the next start', async () => {
    mail.isSilent = true;
    assert.deepEqual((await send({ title: 'Kept', text: 'for later' })).json.data.body, { channels: 4 });
    await Promise.all([ntfy.posts.next('ntfy'), slack.posts.next('slack'), nextJson()]);
    await run({ fail: 'before the restart' });
    await Promise.all([ntfy.posts.next('ntfy'), slack.posts.next('slack'), nextJson()]);
    assert.equal((await stateOf('mail'))?.waiting, 2);
    await gateway.stop();
    mail.isSilent = false;
    await gateway.start();
    assert.equal((await nextMail()).headers.get('subject'), 'The Shop: Kept');
    assert.equal((await nextMail()).headers.get('subject'), 'The Shop: Report failed');
    await run({});
    assert.equal((await nextOfAll()).posted.title, 'Report works again');
    await eventually(async () => (await stateOf('mail'))?.waiting === 0);
    assert.deepEqual(
      (await channels()).map(({ channel, state }) => [channel, state]),
      [
        ['mail', 'ok'],
        ['ntfy', 'ok'],
        ['slack', 'ok'],
        ['json', 'ok'],
      ],
    );
  });

  test('addresses and passwords are in no answer, no log and no status', async () => {
    const answers = [
      (await gateway.call('GET', '/svc/_notices')).text,
      (await gateway.call('GET', '/svc/_system')).text,
      gateway.log,
      ...readdirSync(gateway.dataDir, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.jsonl'))
        .map((name) => readFileSync(join(gateway.dataDir, name), 'utf8')),
    ];
    assert.match(gateway.log, /Notices do not reach mail: The mail server refused/);
    for (const secret of SECRETS) for (const text of answers) assert.ok(!text.includes(secret), `${secret}: ${text}`);
  });
});

/** Who signs and for whom, once the signature is right and not about to end (RFC 8292). */
function claimsOf(authorization: string, publicKey: string): { aud: string; sub: string } {
  const [, token = '', key] = /^vapid t=([^,]+), ?k=(.+)$/.exec(authorization) ?? assert.fail(authorization);
  assert.equal(key, publicKey);
  const point = Buffer.from(publicKey, 'base64url');
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((part) => part.toString('base64url'));
  const jwk = { kty: 'EC', crv: 'P-256', x: x as string, y: y as string };
  const [head = '', body = '', signature = ''] = token.split('.');
  const signed = { key: createPublicKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' as const };
  assert.ok(verify('sha256', Buffer.from(`${head}.${body}`), signed, Buffer.from(signature, 'base64url')));
  const { exp, ...claims } = JSON.parse(Buffer.from(body, 'base64url').toString());
  const hours = (exp * 1000 - Date.now()) / 3_600_000;
  assert.ok(hours > 1 && hours < 24, `${hours} h`);
  return claims;
}
