import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { ServerSentEvent } from '../../protocol/http/event-stream.ts';
import { GatewayError } from '../../protocol/http/gateway-error.ts';
import { temporaryFolder } from '../../testing/command-line.ts';
import { eventually } from '../../testing/edges.ts';
import { UnreachableError } from '../failure.ts';
import { Client, ofFile } from './client.ts';

const EVENTS = { 'content-type': 'text/event-stream' };

async function clientOf(t: TestContext, listener: RequestListener): Promise<Client> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return new Client({ url, urlFrom: '--url', token: undefined, tokenFrom: 'nowhere' });
}

test('an upload counts the bytes that are sent, up to all of them', async (t) => {
  let received = 0;
  const client = await clientOf(t, (request, response) => {
    request.on('data', (chunk: Buffer) => {
      received += chunk.length;
    });
    request.on('end', () => response.writeHead(201).end('{}'));
  });
  const archive = Buffer.alloc(1_000_000, 7);
  const sent: number[] = [];
  const file = { params: { id: 'notes' }, body: archive };
  await client.call(
    'POST /svc/_apps/:id/upload',
    file,
    ofFile('application/gzip', (bytes) => sent.push(bytes)),
  );
  assert.equal(received, archive.length);
  assert.equal(sent.at(-1), archive.length);
  assert.deepEqual(
    sent,
    [...sent].sort((a, b) => a - b),
  );
});

test('an upload that is refused before it was read fails with the reason, not with a broken pipe', async (t) => {
  const client = await clientOf(t, (_request, response) => {
    const body = JSON.stringify({ isError: true, error: { code: 'PAYLOAD_TOO_LARGE', message: 'Too large.' } });
    response.writeHead(413, { connection: 'close' }).end(body);
  });
  await assert.rejects(
    client.call(
      'POST /svc/_apps/:id/upload',
      { params: { id: 'notes' }, body: Buffer.alloc(32 * 1024 * 1024) },
      ofFile(),
    ),
    (error) => error instanceof GatewayError && error.status === 413 && error.code === 'PAYLOAD_TOO_LARGE',
  );
});

test('an address that is not a gateway is reported as such', async (t) => {
  for (const [status, text] of [
    [200, '<html>'],
    [404, '<html>'],
    [502, '{"error":"bad gateway"}'],
  ] as const) {
    const client = await clientOf(t, (_request, response) => response.writeHead(status).end(text));
    await assert.rejects(
      client.call('GET /svc/_apps'),
      (error) => error instanceof GatewayError && /not/.test(error.message),
    );
  }
});

test('an answer that breaks off or comes too late counts as no answer', async (t) => {
  const broken = await clientOf(t, (_request, response) => {
    response.writeHead(200, { 'content-length': '100' }).write('{');
    setImmediate(() => response.destroy());
  });
  await assert.rejects(broken.call('GET /svc/_apps'), UnreachableError);
  const silent = await clientOf(t, () => {});
  await assert.rejects(
    silent.call('GET /svc/_apps', {}, { timeoutMs: 20 }),
    (error) => error instanceof UnreachableError && /No answer within 0.02 s/.test(error.message),
  );
});

test("an action's own status is a result, not an error", async (t) => {
  const client = await clientOf(t, (_request, response) =>
    response.writeHead(409).end('{"isError":false,"data":{"status":409,"body":"taken"}}'),
  );
  const answer = await client.ask({ method: 'POST', path: '/svc/_tool/svc_write', json: {} });
  assert.deepEqual([answer.status, (answer.body as { data: unknown }).data], [409, { status: 409, body: 'taken' }]);
});

async function eventsOf(events: AsyncGenerator<ServerSentEvent>, count: number): Promise<string[]> {
  const seen: string[] = [];
  for await (const { data } of events) if (seen.push(data) === count) break;
  return seen;
}

/** Streams of one event each that end at once, and how many are open. */
async function streams(t: TestContext) {
  let [opened, open] = [0, 0];
  const client = await clientOf(t, (request, response) => {
    const number = ++opened;
    open++;
    response.on('close', () => open--);
    response.writeHead(200, EVENTS);
    response.write(`retry: 1\nid: ${number}\ndata: ${request.headers['last-event-id'] ?? 'none'}\n\n`);
    if (number < 3) setImmediate(() => response.destroy());
  });
  return { client, opened: () => opened, open: () => open };
}

test('a stream that breaks is opened again, from its last event', async (t) => {
  const { client, open } = await streams(t);
  const told: string[] = [];
  const events = client.follow('/x', {
    onOpen: (again) => void told.push(`open ${again}`),
    onLost: () => told.push('lost'),
  });
  assert.deepEqual(await eventsOf(events, 3), ['none', '1', '2']);
  assert.deepEqual(told, ['open false', 'lost', 'open true', 'lost', 'open true']);
  await eventually(() => open() === 0);
});

for (const again of [false, true])
  test(`what onOpen throws ${again ? 'after a reconnect' : 'at first'} ends the stream, and its connection`, async (t) => {
    const { client, opened, open } = await streams(t);
    const onOpen = async (isAgain: boolean): Promise<void> => {
      if (isAgain === again) throw new Error('It cannot be read.');
    };
    await assert.rejects(eventsOf(client.follow('/x', { onOpen }), 9), /It cannot be read/);
    assert.equal(opened(), again ? 2 : 1);
    await eventually(() => open() === 0);
  });

test('a refusal after a reconnect is final, and a gateway that starts is waited for', async (t) => {
  const answers = [200, 503, 500, 200, 404];
  const client = await clientOf(t, (_request, response) => {
    const status = answers.shift() ?? 200;
    const error = { isError: true, error: { code: status === 404 ? 'UNKNOWN_APP' : 'OVERLOADED', message: 'x' } };
    if (status === 200) response.writeHead(200, EVENTS).end(`retry: 1\ndata: ${answers.length}\n\n`);
    else response.writeHead(status).end(JSON.stringify(error));
  });
  const seen: string[] = [];
  await assert.rejects(
    (async () => {
      for await (const { data } of client.follow('/x')) if (seen.push(data) > 5) return;
    })(),
    { status: 404 },
  );
  assert.deepEqual(seen, ['4', '1']);
});

test('a download that breaks off has created its file by then, so that it can be removed', async (t) => {
  const client = await clientOf(t, (_request, response) => {
    response.writeHead(200, { 'content-length': '9' }).flushHeaders();
    response.destroy();
  });
  const folder = temporaryFolder(t);
  const { signal } = new AbortController();
  for (let n = 0; n < 20; n++) {
    const file = join(folder, String(n));
    await assert.rejects(
      client.download({ method: 'GET', path: '/' }, file, signal),
      /ended before it had sent everything|ended the connection/,
    );
    rmSync(file, { force: true });
  }
  assert.deepEqual(readdirSync(folder), []);
});
