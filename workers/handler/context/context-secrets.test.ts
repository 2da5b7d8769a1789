// Secrets in real threads of a real host: who gets them, and that nothing that leaves a thread has their values.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { draftKey } from '../../../protocol/ids.ts';
import { ToolKind } from '../../../protocol/wire/frames.ts';
import { type App, FakeSupervisor, failure } from '../../../testing/fake-supervisor.ts';

const KEY = 'sk_"live"\n51/ö';
const FILES = {
  'queries/get.js': `export default async ({ input, ctx }) => {
    try { return { value: (await ctx.secrets.get(input.name)) === input.expected }; }
    catch (error) { return { code: error.code, message: error.message }; }
  };`,
  'queries/echo.js': 'export default async ({ input }) => input;',
  'queries/thrown.js':
    'export default async ({ input, ctx }) => { throw new Error("no: " + (await ctx.secrets.get("KEY"))); };',
  'queries/late.js': 'export default async ({ ctx }) => ctx.secrets.get("NONE");',
  'queries/odd.js': 'export default async ({ ctx }) => { throw { key: await ctx.secrets.get("KEY") }; };',
  'actions/keep.js': `export default async ({ db, ctx }) => {
    await db.run('create table if not exists kept (value)');
    await db.run('insert into kept values (?)', await ctx.secrets.get('KEY'));
    return { status: 202, body: { kept: await ctx.secrets.get('KEY') } };
  };`,
  'actions/crash.js': `export default async ({ ctx }) => {
    const key = await ctx.secrets.get('KEY');
    setTimeout(() => { throw new Error('late ' + key); });
    await new Promise(() => {});
  };`,
};

let supervisor: FakeSupervisor;
before(async () => {
  supervisor = await FakeSupervisor.start();
});
after(() => supervisor.close());

const start = (spec = {}): Promise<App> => supervisor.app({ files: FILES }, spec);

test('a handler gets the values that there are when it is called', async () => {
  const app = await start();
  const get = async (name: unknown, expected: unknown = KEY) => (await app.query('get', { name, expected })).value;
  assert.deepEqual(await get('KEY'), {
    code: 'UNKNOWN_SECRET',
    message: `The app has no secret "KEY". Set it with: svc secret set ${app.spec.app} KEY`,
  });
  app.secrets({ KEY, __proto__X: 'other one' });
  assert.deepEqual(await get('KEY'), { value: true });
  assert.equal(((await get('__proto__')) as { code: string }).code, 'UNKNOWN_SECRET');
  app.secrets({ KEY: 'another value' });
  assert.deepEqual(await get('KEY', 'another value'), { value: true });
  for (const name of [undefined, null, 7, {}, '', '7A', 'a b'])
    assert.equal(((await get(name)) as { code: string }).code, 'BAD_REQUEST');
  app.secrets({ KEY }, ['LOST'], 'The key is gone.');
  const lost = (await get('LOST')) as { code: string; message: string };
  assert.equal(lost.code, 'SECRET_UNREADABLE');
  assert.match(lost.message, /"LOST" cannot be read\. The key is gone\. .*svc secret set app\d+ LOST$/);
  app.secrets({}, null, 'The file is damaged.');
  assert.match(((await get('ANY')) as { message: string }).message, /The file is damaged/);
  const refused = await failure(app.query('late'));
  assert.equal(refused.code, 'HANDLER_ERROR', 'a page cannot do anything about it');
});

test('the error in a draft names the draft’s command', async () => {
  const app = await start({ app: draftKey('s1', 'shop'), shownApp: 'shop' });
  assert.match(
    (await failure(app.query('late'))).message,
    /^The draft has no .*svc secret set shop NONE --workspace s1$/,
  );
});

test('results, errors, logs and values from elsewhere contain no secrets', async () => {
  const app = await start();
  app.secrets({ KEY, PIN: '482913' });
  const shown = '[secret KEY]';
  const echoed = { list: [KEY, `<${KEY}>`], [KEY]: { pin: 482913 }, text: JSON.stringify({ KEY: KEY }), 'n/a': 1.5 };
  assert.deepEqual((await app.query('echo', echoed)).value, {
    list: [shown, `<${shown}>`],
    [shown]: { pin: '[secret PIN]' },
    text: `{"KEY":"${shown}"}`,
    'n/a': 1.5,
  });
  assert.deepEqual(await app.action('keep').then(({ status, value }) => [status, value]), [202, { kept: shown }]);
  assert.equal((await failure(app.query('thrown'))).message, `no: ${shown}`);
  assert.match((await failure(app.query('odd'))).message, /\[secret KEY\]/);
  const { message } = await failure(app.call(ToolKind.query, KEY, '{}'));
  assert.match(message, /\[secret KEY\]/);
  const line = await app.log(({ tool, level }) => tool === 'thrown' && level === 'error');
  assert.match(JSON.stringify(line.err), /\[secret KEY\]/);
  app.secrets({ KEY: 'another value' });
  assert.deepEqual((await app.query('echo', { KEY })).value, { KEY: shown }, 'the code may hold it still');
  for (const logged of app.logs) assert.doesNotMatch(JSON.stringify(logged), /live|482913/);
});

test('the last error of a thread contains none either', async () => {
  const app = await start();
  app.secrets({ KEY });
  void app.action('crash');
  assert.equal((await app.exited).detail, 'late [secret KEY]');
  for (const logged of app.logs) assert.doesNotMatch(JSON.stringify(logged), /live/);
});

test('an automation has them in ctx too, and its result has none', async () => {
  const handler = `export default async ({ ctx, log }) => {
    const key = await ctx.secrets.get('KEY');
    log.info('with ' + key);
    await ctx.tool('svc_write', { key });
    return { summary: key, output: { key } };
  };`;
  const app = await supervisor.app(
    { files: { 'automations/digest/handler.js': handler }, validators: '' },
    { automation: 'digest', writerTicket: '' },
  );
  app.secrets({ KEY });
  app.onAsk = (ask) => {
    assert.deepEqual(ask.payload, { name: 'svc_write', args: { key: KEY } }, 'tools get the value');
    ask.answer(null);
  };
  const shown = '[secret KEY]';
  assert.deepEqual((await app.fire()).value, { summary: shown, output: { key: shown } });
  assert.equal((await app.log(({ tool }) => tool === 'digest')).msg, `with ${shown}`);
});
