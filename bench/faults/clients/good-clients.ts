/** Clients that behave, beside those that do not: each of their calls must be answered rightly. */
import { Agent } from 'node:http';
import { Client, outcomeOf } from '../../../testing/clients.ts';
import type { TestGateway } from '../../../testing/gateway.ts';
import { percentile } from '../../statistics.ts';

const CLIENTS = 4;
/** Between two calls of one client: they are there to notice, not to load. */
const PAUSE_MS = 10;
/** A call without an answer for this long has failed. */
const SLOW_MS = 30_000;

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
    const what = `a good client's ${isWrite ? 'write' : 'read'}`;
    const call = isWrite
      ? this.gateway.write('bench', 'put', { id: 1 + (n % 1000), title: 'good', body: 'client' }, { agent })
      : this.gateway.read('bench', 'get', { id: 1 }, { agent });
    const outcome = outcomeOf(await this.answered(what, call));
    const latency = performance.now() - startedAt;
    if (!/^20[01]$/.test(outcome)) this.violations.push(`${what} was answered ${outcome}`);
    if (latency > SLOW_MS) this.violations.push(`${what} was answered after more than ${SLOW_MS} ms`);
    this.#latencies.push(latency);
  }
}
