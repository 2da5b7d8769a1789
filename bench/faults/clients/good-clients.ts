/** Clients that behave, beside those that do not: each of their calls must be answered rightly. */
import { Agent } from 'node:http';
import { Client } from '../../../testing/clients.ts';
import type { TestGateway } from '../../../testing/gateway.ts';
import { within } from '../../../testing/waiting.ts';
import { percentile } from '../../statistics.ts';

const CLIENTS = 4;
/** Between two calls of one client: they are there to notice, not to load. */
const PAUSE_MS = 10;
/** A call without an answer for this long has failed. */
const HANG_MS = 30_000;

/** Of a gateway with the bench app. */
export class GoodClients extends Client {
  #latencies: number[] = [];

  constructor(gateway: TestGateway) {
    super(gateway);
    for (let id = 0; id < CLIENTS; id++) {
      // The odd ones are fresh clients each time, as the next visitor would be.
      const agent = id % 2 === 0 ? new Agent({ keepAlive: true, maxSockets: 1 }) : false;
      this.repeat(
        (n) => this.#call(id === 0, n, agent),
        () => PAUSE_MS,
      );
    }
  }

  /** Latencies in milliseconds since it was last asked. */
  takeLatencies(): { calls: number; p50: number; p99: number } {
    const times = this.#latencies;
    this.#latencies = [];
    return { calls: times.length, p50: percentile(times, 0.5), p99: percentile(times, 0.99) };
  }

  async #call(isWrite: boolean, n: number, agent: Agent | false): Promise<void> {
    const startedAt = performance.now();
    const note = { id: 1 + (n % 1000), title: 'good', body: 'client' };
    const called = isWrite
      ? this.gateway.write('bench', 'put', note, { agent })
      : this.gateway.read('bench', 'get', { id: 1 }, { agent });
    const answer = await within(
      HANG_MS,
      called.then(
        ({ status }) => String(status),
        (error: Error) => error.message,
      ),
    );
    if (!/^20[01]$/.test(answer))
      this.violations.push(`a good client's ${isWrite ? 'write' : 'read'} was answered ${answer}`);
    this.#latencies.push(performance.now() - startedAt);
  }
}
