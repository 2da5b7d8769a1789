/** The built daemon under fuzz: raw bytes in, one judged answer out, and a look at whether it is still the same process. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { makeGateway, type StartOptions } from '../../testing/gateway.ts';
import { httpBytes } from '../workload.ts';
import { assertNoFault, oneAnswer, type RawAnswer } from './oracle.ts';
import type { Stage } from './target.ts';

/** Nothing takes this long, on any machine. */
const PATIENCE_MS = 60_000;

export type FuzzedGateway = Awaited<ReturnType<typeof startFuzzed>>;

export async function startFuzzed(
  { atEnd }: Stage,
  apps: Record<string, Record<string, string | Buffer>>,
  options: StartOptions = {},
) {
  const { gateway, remove } = makeGateway({ edge: 'uws', ...options });
  atEnd(remove);
  await gateway.start();
  for (const [id, files] of Object.entries(apps)) await gateway.install(id, files);
  let logRead = 0;

  /**
   * Sends the bytes on a connection of their own; the one answer to them, null when the connection ends without one, or
   * nothing happens on it for `silenceMs`: it waits for more of the request, or is a stream.
   */
  async function ask(bytes: Buffer, head = false, silenceMs: number = PATIENCE_MS): Promise<RawAnswer | null> {
    const received = await send(bytes, silenceMs);
    const isStream = /^HTTP\/1\.1 200 [\s\S]*?\r\ncontent-type: text\/event-stream\r\n/i.test(
      received.toString('latin1'),
    );
    if (isStream) return { status: 200, headers: new Map(), body: Buffer.alloc(0) };
    const answer = oneAnswer(received, head);
    if (answer !== null) assertNoFault(answer, head);
    return answer;
  }

  /** The answer to a whole POST. */
  async function post(
    path: string,
    body: Buffer,
    headers: Record<string, string> = {},
  ): Promise<{ status: number; text: string }> {
    const request = httpBytes(
      { method: 'POST', path, body, headers: { connection: 'close', ...headers } },
      gateway.token,
    );
    const answer = await ask(request);
    assert.ok(answer !== null, 'no answer');
    return { status: answer.status, text: answer.body.toString() };
  }

  /** Fails, with a fresh daemon for the inputs that follow, when it is not the same process that answers, or logged a fault. */
  async function assertSound(): Promise<void> {
    const { pid } = gateway;
    const health = await gateway.call('GET', '/svc/_health', { token: null }).catch((error: Error) => error);
    const fresh = gateway.log.slice(logRead);
    logRead = gateway.log.length;
    if (health instanceof Error || health.status !== 200) {
      await gateway.kill();
      await gateway.start();
      assert.fail(
        `The daemon (${pid}) does not answer: ${health instanceof Error ? health.message : health.text}\n${fresh}`,
      );
    }
    const faults = fresh.split('\n').filter((line) => /"level":(?:50|60|"error"|"fatal")/.test(line));
    assert.deepEqual(faults, [], 'it logged a fault');
  }

  function send(bytes: Buffer, silenceMs: number): Promise<Buffer> {
    const { hostname, port } = new URL(gateway.url);
    return new Promise((resolve) => {
      const socket = connect(Number(port), hostname);
      const chunks: Buffer[] = [];
      socket.setTimeout(silenceMs, () => socket.destroy());
      // A reset is a way to end a connection, too; whether the daemon lives is asked apart.
      socket.on('error', () => {});
      socket.on('data', (chunk: Buffer) => chunks.push(chunk));
      socket.on('close', () => resolve(Buffer.concat(chunks)));
      socket.write(bytes);
    });
  }

  return { gateway, ask, post, assertSound };
}
