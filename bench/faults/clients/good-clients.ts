/** Clients that behave, beside those that do not: each of their calls must be answered rightly. */
import { Agent, request } from 'node:http';

const CLIENTS = 4;
/** Between two calls of one client: they are there to notice, not to load. */
const PAUSE_MS = 10;
/** A call without an answer for this long has failed. */
const HANG_MS = 30_000;

/** A gateway with the bench app. */
export type Gateway = { readonly port: number; readonly token: string };

export class GoodClients {
  readonly failures: string[] = [];
  readonly #gateway: Gateway;
  readonly #clients: Promise<void>[];
  #latencies: number[] = [];
  #running = true;
  #written = 0;

  constructor(gateway: Gateway) {
    this.#gateway = gateway;
    this.#clients = Array.from({ length: CLIENTS }, (_, i) => this.#work(i));
  }

  /** Latencies in milliseconds since it was last asked. */
  takeLatencies(): { calls: number; p50: number; p99: number } {
    const sorted = this.#latencies.sort((one, other) => one - other);
    this.#latencies = [];
    const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
    return { calls: sorted.length, p50: at(0.5), p99: at(0.99) };
  }

  async stop(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#clients);
  }

  async #work(index: number): Promise<void> {
    // The odd ones are fresh clients each time, as the next visitor would be.
    const agent = index % 2 === 0 ? new Agent({ keepAlive: true, maxSockets: 1 }) : false;
    while (this.#running) {
      const startedAt = performance.now();
      const isWrite = index === 0;
      const id = 1 + (this.#written++ % 1000);
      const call = isWrite
        ? { app: 'bench', action: 'put', input: { id, title: 'good', body: 'client' } }
        : { app: 'bench', query: 'get', input: { id: 1 } };
      const status = await post(this.#gateway, isWrite ? 'svc_write' : 'svc_read', call, agent);
      if (status !== '200' && status !== '201')
        this.failures.push(`a good client's ${isWrite ? 'write' : 'read'} was answered ${status}`);
      this.#latencies.push(performance.now() - startedAt);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    if (agent) agent.destroy();
  }
}

function post(gateway: Gateway, tool: string, call: object, agent: Agent | false): Promise<string> {
  return new Promise((resolve) => {
    const body = JSON.stringify(call);
    const headers = { authorization: `Bearer ${gateway.token}`, 'content-length': body.length };
    const options = {
      port: gateway.port,
      host: '127.0.0.1',
      method: 'POST',
      path: `/svc/_tool/${tool}`,
      headers,
      agent,
    };
    const req = request(options, (res) => {
      res.resume();
      res.on('end', () => resolve(String(res.statusCode)));
      res.on('error', (error) => resolve(error.message));
    });
    req.setTimeout(HANG_MS, () => req.destroy(new Error(`no answer within ${HANG_MS} ms`)));
    // A gateway may end a connection that is idle, in the moment in which its client uses it again.
    req.on('error', (error) => resolve(`${error.message}${req.reusedSocket ? ', on a connection used before' : ''}`));
    req.end(body);
  });
}
