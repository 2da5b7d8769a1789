/**
 * Every template cloned under another id and name, over HTTP and by the command: its tools, its automations on every
 * trigger, and its page work as under the original id, and nothing in it refers to the original app.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { MintedWebhook } from '../../protocol/automations/automation.ts';
import { eventually, gatewayOfSuite } from '../../testing/edges.ts';
import { root, type TestGateway } from '../../testing/gateway.ts';
import { automationRow, only, post, runsOf } from '../../testing/runs.ts';
import { callEveryTool, runEveryAutomation, TemplateApp } from './template-app.ts';

type Owner = { after(cleanup: () => Promise<void> | void): void };

const run = promisify(execFile);
const RSS =
  '<rss version="2.0"><channel><title>News</title><item><guid>1</guid><title>One</title></item></channel></rss>';
const MESSAGE = { name: 'Ada', email: 'ada@example.org', message: 'Hello!' };

/** For each: the calls before its tools, the inputs of its automations, and the text that its page shows then. */
const TEMPLATES: Record<
  string,
  { first?: [action: string, input: (web: string) => object]; inputs?: Record<string, unknown>; shows: string | RegExp }
> = {
  bookmarks: { first: ['add', (web) => ({ url: `${web}/untitled` })], shows: /\d kept/ },
  contact: {
    inputs: { inbox: MESSAGE, refused: { error: { message: 'No.' } } },
    shows: 'Get in touch',
  },
  expenses: { shows: 'Nothing spent this month.' },
  feeds: { shows: 'You follow nothing yet.' },
  gallery: { shows: 'No photos yet.' },
  habits: { first: ['add', () => ({ name: 'Stretch' })], shows: 'Floss' },
  journal: { shows: 'Kept as you type' },
  kanban: { shows: 'Make a board' },
  polls: { shows: 'No poll is open.' },
  todos: { first: ['add', () => ({ title: 'Call' })], inputs: { inbox: 'From the inbox' }, shows: 'From the inbox' },
};

/** A server with one feed, and a page at every other address. */
async function startWeb(owner: Owner): Promise<string> {
  const server = createServer((request, response) => {
    response.end(request.url === '/rss.xml' ? RSS : '<!doctype html><title>A page</title>');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  owner.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Staged in a workspace over HTTP and published from there. Returns the new webhooks. */
async function cloneByWorkspace(gateway: TestGateway, templateId: string, id: string, name: string) {
  const cloned = await gateway.call('POST', '/svc/_apps/_clone', { body: { templateId, id, name } });
  assert.deepEqual([cloned.status, cloned.json.app, cloned.json.staged], [201, id, true], cloned.text);
  assert.deepEqual(cloned.json.webhooks, [], 'a draft has no address');
  assert.equal((await gateway.call('GET', `/svc/_apps/${id}`)).status, 404, 'it is not live before it is published');
  const published = await gateway.call('POST', `/svc/_sessions/${cloned.json.sessionId}/publish`, { body: {} });
  assert.equal(published.status, 201, published.text);
  return published.json.webhooks as MintedWebhook[];
}

async function cloneByCommand(gateway: TestGateway, templateId: string, id: string, name: string) {
  const args = ['new', '--clone', templateId, '--id', id, '--name', name, '--publish', '--json'];
  const { stdout } = await run(process.execPath, [join(root, 'bin/svc.js'), ...args], {
    env: { ...process.env, SVC_URL: gateway.url, SVC_TOKEN: gateway.token },
  });
  return JSON.parse(stdout).webhooks as MintedWebhook[];
}

export function clones(): void {
  const gateway = gatewayOfSuite({ store: 'git' });

  test('every template works under another id', async (t) => {
    const web = await startWeb(t);
    const templates = (await gateway.call('GET', '/svc/_templates')).json as { id: string }[];
    assert.deepEqual(
      templates.map(({ id }) => id),
      Object.keys(TEMPLATES),
    );
    const minted = new Map<string, MintedWebhook[]>();

    for (const [at, [template, { first, inputs, shows }]] of Object.entries(TEMPLATES).entries()) {
      await t.test(template, async (ofTemplate) => {
        const id = `my-${at}`;
        const name = `Mine, No. ${at} “${template}”`;
        const clone = at % 2 === 0 ? cloneByWorkspace : cloneByCommand;
        minted.set(template, await clone(gateway, template, id, name));
        const { manifest, ...record } = (await gateway.call('GET', `/svc/_apps/${id}`)).json;
        assert.deepEqual([record.id, record.name, manifest.id, record.activeVersion], [id, name, id, `${id}/v1`]);
        const app = new TemplateApp(id, gateway, template);
        ofTemplate.after(() => app.close());
        if (first !== undefined) await app.write(first[0], first[1](web));
        await callEveryTool(app, { id: 1, web });
        await runEveryAutomation(app, inputs);
        const page = await app.window();
        await page.getByText(shows).first().waitFor();
        assert.equal(await page.evaluate('svc.appId'), id);
        assert.deepEqual(app.complaints, []);
      });
    }

    await t.test('feeds are fetched on schedule', async () => {
      const app = new TemplateApp('my-3', gateway, 'feeds');
      assert.ok((await automationRow(gateway, 'my-3/refresh')).nextRunAt > Date.now(), 'it is on the schedule');
      await app.write('subscribe', { url: `${web}/rss.xml` });
      const patched = await gateway.call('PATCH', '/svc/_automations/my-3/refresh', {
        body: { manifest: { triggers: [{ kind: 'cron', expr: '* * * * * *' }] }, publish: true },
      });
      assert.equal(patched.status, 200, patched.text);
      // The first one: those that fire a second later have nothing to check.
      const ofClock = async () =>
        (await runsOf(gateway, 'my-3/refresh', '&state=ok')).findLast(({ trigger }) => trigger.kind === 'cron');
      await eventually(ofClock);
      assert.deepEqual((await ofClock())?.output, { checked: 1, added: 0, failed: 0 });
    });

    await t.test('posts to the new webhooks arrive, and the clone itself records failures', async () => {
      const [contact, todos] = ['contact', 'todos'].map((template) => only(minted.get(template) ?? []));
      assert.ok(contact && todos, 'both were minted');
      assert.deepEqual([contact.ownerApp, todos.ownerApp], ['my-1', 'my-9']);
      const app = new TemplateApp('my-1', gateway, 'contact');
      const before = await app.read('counts');
      assert.equal((await post(gateway, contact, { ...MESSAGE, name: 'Grace' })).status, 200);
      assert.equal((await app.read('counts')).open, before.open + 1);
      assert.equal((await post(gateway, contact, { ...MESSAGE, email: 'nobody' })).status, 500);
      await eventually(async () => (await app.read('counts')).refused === before.refused + 1);
      assert.equal((await post(gateway, todos, 'Posted')).status, 200);
      const list = await new TemplateApp('my-9', gateway, 'todos').read('list');
      assert.equal(list[0].title, 'Posted');
      assert.equal((await post(gateway, { ...todos, secret: contact.secret }, 'x')).status, 401);
    });

    await t.test('another name changes only the name', async () => {
      const app = new TemplateApp('my-9', gateway, 'todos');
      const before = await app.read('list');
      const renamed = await gateway.call('POST', '/svc/_apps/my-9/meta', { body: { name: 'Errands', publish: true } });
      assert.equal(renamed.status, 200, renamed.text);
      const record = (await gateway.call('GET', '/svc/_apps/my-9')).json;
      assert.deepEqual([record.id, record.name, record.activeVersion], ['my-9', 'Errands', 'my-9/v2']);
      assert.deepEqual(await app.read('list'), before);
      assert.equal((await post(gateway, only(minted.get('todos') ?? []), 'Renamed')).status, 200);
      await runEveryAutomation(app, { inbox: 'Again' });
    });
  });

  test('clones never take an id, or a name of their own choosing, twice', async () => {
    const clone = (body: object) =>
      gateway.call('POST', '/svc/_apps/_clone', { body: { templateId: 'todos', ...body } });
    const many = await Promise.all(Array.from({ length: 6 }, (_, n) => clone({ publish: n % 2 === 0 })));
    assert.deepEqual(
      many.map(({ status }) => status),
      Array(6).fill(201),
      many.map(({ text }) => text).join('\n'),
    );
    const ids = many.map(({ json }) => json.app as string);
    assert.deepEqual(new Set(ids).size, 6, ids.join());
    for (const { json } of many.filter((answer) => answer.json.staged)) {
      const published = await gateway.call('POST', `/svc/_sessions/${json.sessionId}/publish`, { body: {} });
      assert.equal(published.status, 201, published.text);
    }
    const names = ((await gateway.call('GET', '/svc/_apps')).json as { id: string; name: string }[]).map(
      ({ name }) => name,
    );
    assert.equal(new Set(names).size, names.length, names.join());

    const wanted = await Promise.all(Array.from({ length: 4 }, () => clone({ id: 'mine', publish: true })));
    assert.deepEqual(wanted.map(({ status }) => status).sort(), [201, 409, 409, 409]);
    for (const { json, status } of wanted) if (status === 409) assert.equal(json.error.code, 'CONFLICT');

    const staged = await Promise.all([clone({ id: 'both', name: 'Left' }), clone({ id: 'both', name: 'Right' })]);
    const outcomes = await Promise.all(
      staged.map(async ({ json, status, text }) => {
        assert.ok(status === 201 || json.error.code === 'CONFLICT', text);
        if (status !== 201) return status;
        return (await gateway.call('POST', `/svc/_sessions/${json.sessionId}/publish`, { body: {} })).status;
      }),
    );
    assert.deepEqual(outcomes.sort(), [201, 409], 'one of two with the same id is refused');
    const { name } = (await gateway.call('GET', '/svc/_apps/both')).json;
    assert.ok(name === 'Left' || name === 'Right', 'the live app is one of them, complete');
    assert.equal((await gateway.call('GET', '/svc/_apps/both/versions')).json.length, 1);
  });
}
