/** Chat windows over HTTP, with a host's own runner (specification, "Chat window"; decisions, sections 8 and 12). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { buildGateway, type GatewayOptions } from '../supervisor/gateway.ts';
import { appOf } from '../testing/apps.ts';
import { tarball } from '../testing/archive.ts';
import { historyOf, replay, say, textOf, typesOf } from '../testing/chat.ts';
import { TestGateway } from '../testing/gateway.ts';
import { type ScriptedRunner, scriptedRunner } from '../testing/scripted-runner.ts';

const NOTES = appOf('notes', { queries: { list: '() => []' } });

type Hosted = { gateway: TestGateway; runner: ScriptedRunner; stop(): Promise<void> };

/** A gateway in this process whose agents are scripted, with the app `notes`. */
async function hosted(t: TestContext, options: Partial<GatewayOptions> = {}): Promise<Hosted> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-chat-'));
  const dataDir = join(folder, 'data');
  const runner = scriptedRunner();
  const built = buildGateway({ dataDir, log: 'silent', edge: 'node', conversationRunner: runner, ...options });
  const server = createServer((request, response) => {
    if (!built.handle(request, response)) response.writeHead(404).end();
  });
  const stop = () => built.stop(0);
  t.after(async () => {
    await stop();
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  await built.start();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const gateway = new TestGateway(dataDir, []);
  gateway.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  gateway.token = built.token ?? '';
  const headers = { 'content-type': 'application/gzip' };
  const upload = await gateway.call('POST', '/svc/_apps/notes/upload', { body: await tarball(NOTES), headers });
  assert.equal(upload.status, 201, upload.text);
  return { gateway, runner, stop };
}

test('a message is answered with the events of its turn, numbered, and kept', async (t) => {
  const { gateway, runner } = await hosted(t);
  const events = await say(gateway, 'notes', 'w1', 'think:hm say:Hello tool:list usage say:there session:s1');
  assert.deepEqual(typesOf(events), [
    'assistant.start',
    'reasoning.delta',
    'assistant.delta',
    'tool.start',
    'tool.result',
    'usage',
    'assistant.delta',
    'final',
    'end',
  ]);
  assert.deepEqual(
    events.map(({ id }) => id),
    events.map((_event, i) => i + 1),
  );
  const [start] = events;
  assert.equal(start?.runner, 'host');
  assert.equal(events.at(-2)?.text, 'Hellothere');
  const turnId: string = start?.turnId;
  assert.deepEqual(await replay(gateway, 'notes', 'w1', turnId), events);
  assert.deepEqual(await replay(gateway, 'notes', 'w1', turnId, 5), events.slice(5));
  const asked = runner.turns[0];
  assert.deepEqual(
    [asked?.app, asked?.windowId, asked?.conversation, asked?.mode, asked?.resume, asked?.history],
    ['notes', 'w1', 'svc-chat:notes:ww1', 'data', null, []],
  );
  assert.deepEqual(
    (await historyOf(gateway, 'notes', 'w1')).map(({ seq, kind, text, toolName, state, ok }) => [
      seq,
      kind,
      text ?? toolName,
      state ?? ok,
    ]),
    [
      [1, 'user', 'think:hm say:Hello tool:list usage say:there session:s1', 'ok'],
      [2, 'assistant', 'Hello', undefined],
      [3, 'tool', 'list', true],
      [4, 'assistant', 'there', undefined],
    ],
  );
  const [window] = (await gateway.call('GET', '/svc/notes/_chat/windows')).json;
  const { createdAt, updatedAt, title, ...rest } = window;
  assert.deepEqual(rest, {
    windowId: 'w1',
    mode: 'data',
    turns: 1,
    adapter: 'host',
    lastTurn: { turnId, state: 'ok' },
  });
  assert.equal(title, 'think:hm say:Hello tool:list usage say:there session:s1');
  assert.ok(createdAt <= updatedAt);
  const second = await say(gateway, 'notes', 'w1', 'resume');
  assert.equal(textOf(second), 's1');
});
