// What an automation may call, and that its calls take the same way as those over HTTP.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SvcError } from '../../../protocol/errors.ts';
import type { VersionSummary } from '../../../protocol/manifest.ts';
import { automation, settle } from '../../../testing/scripted-runs.ts';
import { HERE } from '../../dispatch/at-owner.ts';
import { CachedReads } from '../../dispatch/cached-reads.ts';
import type { Change } from '../../dispatch/change-streams.ts';
import { Dispatcher, type DispatcherOptions } from '../../dispatch/dispatcher.ts';
import type { Scopes } from '../../dispatch/scope.ts';
import { Commits } from '../../results/commits.ts';
import { Results } from '../../results/results.ts';
import type { Call } from '../../tree/actor/call.ts';
import { FireTools, type ToolAnswer, type ToolServers } from './fire-tools.ts';

const SUMMARY = {
  name: 'Todos',
  version: '1',
  kind: 'app',
  queries: [{ name: 'list' }],
  actions: [{ name: 'add', writes: ['todos', 'log'], timeoutMs: 123 }],
} as unknown as VersionSummary;

/** Three apps with the same tools, whose calls the test answers. */
class ScriptedGateway {
  readonly calls: Call[] = [];
  readonly abandoned: Call[] = [];
  readonly changes: [app: string, change: Change][] = [];
  readonly resets: string[] = [];
  readonly ids = ['foreign', 'ops', 'todos'];

  get apps(): Scopes {
    const actor = () => ({
      summary: { ...SUMMARY, cache: false },
      submit: (call: Call) => this.calls.push(call),
      abandon: (call: Call) => this.abandoned.push(call),
    });
    const app = (id: string) => {
      if (!this.ids.includes(id)) throw new SvcError('UNKNOWN_APP', `There is no "${id}".`);
      return { id, key: id, active: SUMMARY, serving: () => SUMMARY, actor };
    };
    const code = async () => ({ version: SUMMARY, manifest: { ...SUMMARY }, fault: null });
    return { of: (id: string) => ({ get: () => app(id), code }), ids: () => this.ids } as unknown as Scopes;
  }

  get dispatcher(): Dispatcher {
    const commits = new Commits({ file: () => '' });
    return new Dispatcher({
      tracing: null,
      changes: {
        emit: (id: string, change: Change) => this.changes.push([id, change]),
        reset: (id: string) => this.resets.push(id),
      },
      commits,
      reads: new CachedReads(new Results(commits), 10),
      config: { queryTimeoutMs: 10, actionTimeoutMs: 30 },
    } as unknown as DispatcherOptions);
  }
}

type Setup = { tools?: string[]; apps?: string[]; servers?: ToolServers };

function setUp({ tools, apps = ['ops'], servers }: Setup = {}) {
  const gateway = new ScriptedGateway();
  const fireTools = new FireTools(gateway.dispatcher, gateway.apps, servers ?? null, HERE);
  const controller = new AbortController();
  const caller = {
    automation: automation('todos/digest', { apps, requires: tools ? { tools } : {} }),
    traceId: 'trace',
    signal: controller.signal,
  };
  const call = (name: string, args?: unknown): Promise<ToolAnswer> => fireTools.call(caller, name, args);
  return { gateway, controller, call };
}

const text = (answer: ToolAnswer): string => Buffer.from(answer.json).toString();
const READ = { app: 'todos', query: 'list', input: { done: true } };
const WRITE = { app: 'ops', action: 'add', input: { title: 'Milk' } };

describe('the dispatcher', () => {
  test('svc_read runs a query and answers its value', async () => {
    const { gateway, call } = setUp();
    const asked = call('svc_read', READ);
    await settle();
    const [made] = gateway.calls as [Call];
    const { kind, tool, allowedMs, traceId, body } = made.request;
    assert.deepEqual([kind, tool, allowedMs, traceId], [0, 'list', 10, 'trace']);
    assert.deepEqual(JSON.parse(Buffer.from(body).toString()), { input: { done: true } });
    const bytes = Buffer.from('[{"a":1}]');
    made.succeed(200, bytes, 1);
    bytes.fill(0);
    const answer = await asked;
    assert.deepEqual([text(answer), answer.ok], ['[{"a":1}]', true]);
    assert.deepEqual(gateway.changes, []);
  });

  test('svc_write runs an action and announces its changes, as an automation', async () => {
    const { gateway, call } = setUp();
    const asked = call('svc_write', WRITE);
    await settle();
    gateway.calls[0]?.succeed(201, Buffer.from('{"id":1}'), 1);
    assert.deepEqual(gateway.changes, [
      ['ops', { table: 'todos', action: 'add', source: 'automation', by: undefined }],
      ['ops', { table: 'log', action: 'add', source: 'automation', by: undefined }],
    ]);
    const answer = await asked;
    assert.deepEqual([text(answer), answer.ok], ['{"status":201,"body":{"id":1}}', true]);
    assert.equal(gateway.calls[0]?.request.allowedMs, 123);
  });

  test('an action that answers with 400 or above is not ok, and announces no change', async () => {
    const { gateway, call } = setUp();
    const asked = call('svc_write', WRITE);
    await settle();
    gateway.calls[0]?.succeed(409, Buffer.from('null'), 1);
    const answer = await asked;
    assert.deepEqual([text(answer), answer.ok], ['{"status":409,"body":null}', false]);
    assert.deepEqual(gateway.changes, []);
  });

  test('an error of the handler is that of the call', async () => {
    const { gateway, call } = setUp();
    const asked = call('svc_write', WRITE);
    await settle();
    gateway.calls[0]?.failUnknown('The thread ended.');
    await assert.rejects(asked, { code: 'HANDLER_ERROR' });
    assert.deepEqual(gateway.resets, ['ops']);
  });

  for (const [what, name, args, code] of [
    ['an unknown query', 'svc_read', { app: 'todos', query: 'none' }, 'UNKNOWN_QUERY'],
    ['an action as a query', 'svc_read', { app: 'todos', query: 'add' }, 'WRONG_KIND'],
    ['an unknown action', 'svc_write', { app: 'todos', action: 'none' }, 'UNKNOWN_ACTION'],
    ['no app', 'svc_read', { query: 'list' }, 'BAD_REQUEST'],
    ['no arguments', 'svc_read', undefined, 'BAD_REQUEST'],
    ['arguments that are no object', 'svc_read', [1], 'BAD_REQUEST'],
    ['no tool of that name', 'svc_sql', {}, 'UNKNOWN_TOOL'],
  ] as const) {
    test(`${what} is ${code}`, async () => {
      await assert.rejects(setUp().call(name, args), { code });
    });
  }

  test('an app that was removed is UNKNOWN_APP', async () => {
    const { gateway, call } = setUp();
    gateway.ids.length = 0;
    await assert.rejects(call('svc_read', READ), { code: 'UNKNOWN_APP' });
  });

  test('a run that ends leaves the call: a later answer still announces its changes', async () => {
    const { gateway, controller, call } = setUp();
    const asked = call('svc_write', WRITE);
    await settle();
    controller.abort(new SvcError('RUN_ABORTED', 'The run has ended.'));
    await assert.rejects(asked, { code: 'RUN_ABORTED' });
    assert.deepEqual(gateway.abandoned, gateway.calls);
    gateway.calls[0]?.succeed(200, Buffer.from('1'), 1);
    assert.equal(gateway.changes.length, 2);
    await assert.rejects(call('svc_read', READ), { code: 'RUN_ABORTED' });
  });
});

describe('what its file does not allow is TOOL_REFUSED', () => {
  for (const [name, args] of [
    ['svc_read', { ...READ, app: 'foreign' }],
    ['svc_write', { ...WRITE, app: 'foreign' }],
    ['svc_describe', { app: 'foreign' }],
    ['svc_read', { ...READ, app: 'unknown' }],
  ] as const) {
    test(`${name} of "${args.app}"`, async () => {
      const { gateway, call } = setUp();
      await assert.rejects(call(name, args), { code: 'TOOL_REFUSED', path: 'app' });
      assert.equal(gateway.calls.length, 0);
    });
  }

  test('a tool outside requires.tools, also where that is empty', async () => {
    const servers: ToolServers = { callForJson: async () => Buffer.from('1') };
    const { gateway, call } = setUp({ tools: ['svc_read', 'mail.send'], servers });
    await assert.rejects(call('svc_write', WRITE), { code: 'TOOL_REFUSED' });
    await assert.rejects(call('svc_describe'), { code: 'TOOL_REFUSED' });
    await assert.rejects(call('mail.delete'), { code: 'TOOL_REFUSED' });
    assert.equal(text(await call('mail.send', {})), '1');
    void call('svc_read', READ);
    await settle();
    assert.equal(gateway.calls.length, 1);
    await assert.rejects(setUp({ tools: [] }).call('svc_read', READ), { code: 'TOOL_REFUSED' });
  });
});

test('svc_describe lists the apps that it may use, and describes one', async () => {
  const { call } = setUp();
  const all = JSON.parse(text(await call('svc_describe'))) as { apps: { app: string }[] };
  assert.deepEqual(
    all.apps.map(({ app }) => app),
    ['ops', 'todos'],
  );
  assert.equal(JSON.parse(text(await call('svc_describe', { app: 'ops' }))).app, 'ops');
});

describe('MCP servers', () => {
  test('get the tool and its arguments', async () => {
    const asked: unknown[] = [];
    const servers: ToolServers = {
      callForJson: async (server, tool, args) => {
        if (server !== 'files') throw new SvcError('TOOL_SERVER_FAILED', 'There is none.');
        asked.push([server, tool, JSON.parse(Buffer.from(args).toString())]);
        return Buffer.from('{"content":[]}');
      },
    };
    const { call } = setUp({ servers });
    assert.equal(text(await call('files.dir.list', { path: '/' })), '{"content":[]}');
    await call('files.stat');
    assert.deepEqual(asked, [
      ['files', 'dir.list', { path: '/' }],
      ['files', 'stat', {}],
    ]);
    await assert.rejects(call('mail.send'), { code: 'TOOL_SERVER_FAILED' });
  });

  test('none is configured', async () => {
    await assert.rejects(setUp().call('mail.send'), { code: 'TOOL_SERVER_FAILED' });
  });
});
