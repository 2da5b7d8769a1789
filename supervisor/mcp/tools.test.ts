import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../protocol/errors.ts';
import type { Manifest } from '../../protocol/manifest.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { Scopes } from '../dispatch/scope.ts';
import { appTools, dispatcherTools, type McpCaller, type McpTools } from './tools.ts';

const MANIFEST = {
  id: 'notes',
  name: 'Notes',
  queries: [{ name: 'list' }],
  actions: [{ name: 'add' }],
} as unknown as Manifest;

/** Two apps, of which callers here may use one at most. */
const scopesWith = (manifest: Manifest): Scopes =>
  ({ of: (app: string) => ({ app, key: app, code: async () => ({ manifest, fault: null }) }) }) as unknown as Scopes;
const SCOPES = scopesWith(MANIFEST);
/** No call gets so far. */
const dispatcher = {} as Dispatcher;

/** A caller, such as an agent whose automation lets it use some tools. */
function callerOf(may: readonly string[], roles?: readonly string[]) {
  const permit = (capability: string): undefined => {
    if (!may.includes(capability)) throw new SvcError('FORBIDDEN', 'It may not.');
  };
  return {
    source: 'agent',
    shown: () => ({ kind: 'agent', ...(roles && { roles }) }),
    client: 'agent',
    permit,
    mayRead: () => may.includes('read'),
    demandSql: (_app: string, capability: string) => permit(capability),
    describe: () => Promise.resolve({}),
    mayCall: (capability: string) => Promise.resolve(may.includes(capability)),
    maySql: (capability: string) => Promise.resolve(may.includes(capability)),
  } as unknown as McpCaller & Parameters<typeof dispatcherTools>[2];
}

const OPTIONS = { maySql: () => true };

async function shownBy(tools: McpTools) {
  const names = (all: { name: string }[]) => all.map(({ name }) => name).join(' ');
  return [names(await tools.list()), names(await tools.resources()), names(await tools.templates())];
}

test('the tools of all apps are those that the caller may call with one of them', async () => {
  for (const [may, ...shown] of [
    [[], '', '', ''],
    [['read'], 'svc_describe svc_read svc_sql_describe svc_sql_read', '', 'query'],
    [['write'], 'svc_write svc_sql_write', '', ''],
    [['read', 'write'], 'svc_describe svc_read svc_write svc_sql_describe svc_sql_read svc_sql_write', '', 'query'],
  ] as const)
    assert.deepEqual(await shownBy(dispatcherTools(dispatcher, SCOPES, callerOf(may))), shown, `${may}`);
});

test('the tools and resources of an app are those that the caller may use, and it reads no others', async () => {
  const resources = 'app.json tables list';
  for (const [may, ...shown] of [
    [[], '', '', ''],
    [['read'], 'list svc_sql_describe svc_sql_read', resources, 'query'],
    [['write'], 'add svc_sql_write', '', ''],
    [['read', 'write'], 'list add svc_sql_describe svc_sql_read svc_sql_write', resources, 'query'],
  ] as const)
    assert.deepEqual(
      await shownBy(await appTools(dispatcher, SCOPES, 'notes', callerOf(may), OPTIONS)),
      shown,
      `${may}`,
    );
  const writer = await appTools(dispatcher, SCOPES, 'notes', callerOf(['write']), OPTIONS);
  const { signal } = new AbortController();
  for (const uri of ['app.json', 'tables', 'queries/list'])
    await assert.rejects(writer.read(`svc://notes/${uri}`, signal), { code: 'FORBIDDEN' });
});

test('a keyword that would have clients repeat arguments in headers is not shown', async () => {
  const title = { type: 'string', 'x-mcp-header': 'Title' };
  const input = { type: 'object', properties: { title, nested: { properties: { title } }, 'x-mcp-header': title } };
  const manifest = { ...MANIFEST, actions: [{ name: 'add', input }] };
  const scopes = scopesWith(manifest as unknown as Manifest);
  const [, add] = await (await appTools(dispatcher, scopes, 'notes', callerOf(['read', 'write']), OPTIONS)).list();
  const shown = { type: 'string' };
  assert.deepEqual(add?.inputSchema.properties, {
    title: shown,
    nested: { properties: { title: shown } },
    'x-mcp-header': shown,
  });
});

test('who has roles of the app is shown the tools and queries that these allow', async () => {
  const roles = {
    cook: { name: 'Cook', queries: ['orders'], actions: '*' },
    guest: { name: 'Guest', queries: ['menu'], actions: [] },
  } as const;
  const queries = [{ name: 'orders' }, { name: 'menu' }];
  const scopes = scopesWith({ ...MANIFEST, queries, roles } as unknown as Manifest);
  for (const [given, tools, named] of [
    [['cook'], 'orders add', 'orders'],
    [['guest'], 'menu', 'menu'],
    [['guest', 'cook'], 'orders menu add', 'orders menu'],
    [['chef'], '', ''],
    [['chef', 'viewer'], 'orders menu', 'orders menu'],
  ] as const) {
    const caller = callerOf(['read', 'write'], given);
    const shown = await appTools(dispatcher, scopes, 'notes', caller, { maySql: () => false });
    const [listed, resources] = await shownBy(shown);
    assert.deepEqual([listed, resources], [tools, `app.json tables ${named}`.trim()], `${given}`);
  }
});
