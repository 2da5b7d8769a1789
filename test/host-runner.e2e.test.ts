/**
 * The requirements for every runner, checked for a host's `conversationRunner`: each turn goes to a chat window of a
 * gateway in this process, and the cases check what a client of the window sees.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { after, before } from 'node:test';
import type { RunnerEvent, TurnOrder } from '../protocol/agents/agents.ts';
import { SvcError } from '../protocol/errors.ts';
import type { ConversationRunner } from '../supervisor/extension-points.ts';
import { buildGateway, type Gateway } from '../supervisor/gateway.ts';
import { appOf } from '../testing/apps.ts';
import { send, turnEvent, turnOf } from '../testing/chat.ts';
import { TestGateway } from '../testing/gateway.ts';
import { runnerCases } from '../testing/runner-cases.ts';
import { modelRunnerWith } from '../workers/agents/model/model.ts';
import type { Agent, RunnerHost, Turn } from '../workers/agents/runner.ts';

const APP = 'notes';
const folder = mkdtempSync(join(tmpdir(), 'svc-host-'));
const gateway = new TestGateway(join(folder, 'data'), []);
let built: Gateway;
let server: Server;

before(async () => {
  built = buildGateway({ dataDir: gateway.dataDir, log: 'silent', edge: 'node', conversationRunner });
  server = createServer((request, response) => {
    if (!built.handle(request, response)) response.writeHead(404).end();
  });
  await built.start();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  gateway.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  gateway.token = built.token ?? '';
  await gateway.upload(APP, appOf(APP, { queries: { list: '() => []' } }));
});
after(async () => {
  await built.stop(0);
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

const host: RunnerHost = { spawn: () => Promise.reject(new Error('it starts no program')), log: () => {} };
/** Its own retries would take long, and are not what this is about. */
const runner = modelRunnerWith(0);
/** The host's own knowledge about its windows: their model servers, tools and instructions. */
const orders = new Map<string, TurnOrder>();

/** A small agent in the host's own process. */
async function* conversationRunner(turn: Parameters<ConversationRunner>[0]): AsyncGenerator<RunnerEvent> {
  const { windowId, message, model = null, thinking = null, history = [], signal } = turn;
  const order = { ...(orders.get(windowId) as TurnOrder), message, model, thinking, history, attachments: [] };
  const { readable, writable } = new TransformStream<RunnerEvent, RunnerEvent>();
  const writer = writable.getWriter();
  const agent = await runner.open(order, host, signal);
  agent
    .turn({ order, signal, emit: (event) => writer.write(event), ask: () => Promise.resolve(null) })
    .then(() => writer.close())
    .catch((error) => writer.abort(error))
    .catch(() => {});
  yield* readable;
}

/** The agent that the cases are about: a window of the gateway, and the runner behind it. */
const agent: Agent = {
  isAlive: true,
  async turn(turn: Turn): Promise<void> {
    const { order, signal } = turn;
    const windowId = basename(dirname(order.folder));
    const window = `/svc/${APP}/_chat/windows/${windowId}`;
    orders.set(windowId, order);
    for (const { role, text } of order.history)
      if (role === 'user') await turnOf(await send(gateway, APP, { windowId, message: text }));
    const { message, model, thinking } = order;
    const asked = { ...(model === null ? {} : { model }), ...(thinking === null ? {} : { thinking }) };
    const stream = await send(gateway, APP, { windowId, message, ...asked });
    const { turnId } = turnEvent(await stream.next());
    const abort = () => void gateway.call('DELETE', `${window}/turns/${turnId}`);
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    for (;;) {
      const { id: _number, ...event } = turnEvent(await stream.next());
      if (event.type === 'end') break;
      if (event.type === 'error') throw new SvcError(event.code, event.message);
      if (event.type !== 'aborted') await turn.emit(event as RunnerEvent);
    }
    await stream.ended();
  },
  end: () => Promise.resolve(),
};

runnerCases({
  name: "a host's runner",
  joinsPieces: true,
  runner: { open: () => Promise.resolve(agent), probe: () => Promise.resolve({}) },
  skip: false,
  spec: ({ stub }) => ({ name: 'host', kind: 'model', baseUrl: `${stub.url}/v1`, model: 'stub-model', env: {} }),
  hasProgram: false,
  hasSystem: true,
  reasons: true,
  effortOf: ({ reasoning_effort: effort }) => effort,
  cannot: {
    'hands on texts, images and what the gateway has to say': 'Messages in windows have no attachments.',
    'is told the tools that it called before, with their results': 'What was said before is said here, without tools.',
  },
});
