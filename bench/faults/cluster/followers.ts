/** Subscribers of change streams, each of one app, at one node after the other: what they are told has no gap that says nothing. */
import { get, type IncomingMessage } from 'node:http';
import { eventReader, type ServerSentEvent, streamPlace } from '../../../protocol/http/event-stream.ts';
import { Client } from '../../../testing/clients.ts';
import type { TestGateway } from '../../../testing/gateway.ts';
import type { Random } from '../../../testing/random.ts';
import { eventually, pause } from '../../../testing/waiting.ts';
import type { Operation } from './registers.ts';

/** A node that answers nothing is left after this. */
const SILENT_MS = 15_000;

export class Follower extends Client {
  readonly app: string;
  resets = 0;
  /** Events of `swap` since the stream began, or since its last `reset`, and when that was. */
  #told = 0;
  #since = Number.POSITIVE_INFINITY;
  #toldAt = 0;
  readonly #nodes: readonly TestGateway[];
  #response: IncomingMessage | null = null;
  #last: number | null = null;

  constructor(nodes: readonly TestGateway[], app: string, random: Random) {
    super(nodes[0] as TestGateway, random);
    this.#nodes = nodes;
    this.app = app;
    this.repeat(() => this.#follow(), [20, 100]);
  }

  /** Whether it hears in time of a write that is made after this call. */
  hears(limitMs: number): Promise<boolean> {
    const since = performance.now();
    return eventually(limitMs, () => this.#toldAt > since);
  }

  override async stop(): Promise<void> {
    const stopped = super.stop();
    this.#response?.destroy();
    await stopped;
  }

  /** Once nobody writes: whether it heard of every write that was acknowledged since its last reset. */
  async check(operations: readonly Operation[]): Promise<string[]> {
    const written = () => operations.filter(({ was, from }) => was !== null && from > this.#since).length;
    if (await eventually(SILENT_MS, () => this.#told >= written())) return [];
    return [
      `${this.app}: a stream told of ${this.#told} writes since its last reset, and ${written()} were acknowledged.`,
    ];
  }

  async #follow(): Promise<void> {
    const node = this.random.pick(this.#nodes);
    const response = await this.#open(node);
    if (response === null) return void (await pause(50));
    if (!this.running) return void response.destroy();
    this.#response = response;
    const place = streamPlace();
    const cut = eventReader(place);
    try {
      for await (const chunk of response) {
        const events = cut(chunk as Buffer);
        for (const event of events) this.#take(event);
        if (events.length === 0) this.#opened(place.lastEventId);
      }
    } catch {
      // A connection that broke has ended, like one that was closed.
    }
    this.#response = null;
  }

  #open({ url, token }: TestGateway): Promise<IncomingMessage | null> {
    const headers: Record<string, string> = { authorization: `Bearer ${token}` };
    if (this.#last !== null) headers['last-event-id'] = String(this.#last);
    return new Promise((resolve) => {
      const request = get(
        `${url}/svc/${this.app}/_changes`,
        { headers, agent: false, timeout: SILENT_MS },
        (response) => {
          if (response.statusCode === 200) {
            if (this.#last === null) this.#begin();
            return resolve(response);
          }
          if (response.statusCode !== 503 && response.statusCode !== 401)
            this.violations.push(`A stream of ${this.app} was answered ${response.statusCode}.`);
          response.resume();
          resolve(null);
        },
      );
      // Heartbeats come on a good one.
      request.on('timeout', () => request.destroy());
      request.on('error', () => resolve(null));
    });
  }

  #begin(): void {
    this.#since = performance.now();
    this.#told = 0;
  }

  /** The opening has no event; its id says that nothing was missed. */
  #opened(id: string): void {
    if (id === '') return;
    if (this.#last !== null && this.#last !== Number(id))
      this.violations.push(`${this.app}: a stream resumed after number ${this.#last} and went on after ${id}.`);
    this.#last = Number(id);
  }

  #take({ event, id, data }: ServerSentEvent): void {
    if (event !== 'change' && event !== 'reset') return;
    const seq = Number(id);
    if (event === 'reset') {
      this.resets += 1;
      this.#begin();
    } else {
      if (this.#last !== null && seq !== this.#last + 1)
        this.violations.push(`${this.app}: change ${seq} came after number ${this.#last}.`);
      const { action } = JSON.parse(data) as { action: string };
      if (action === 'swap') {
        this.#told += 1;
        this.#toldAt = performance.now();
      }
    }
    this.#last = seq;
  }
}
