/** Subscribers of change streams: each follows one app over all daemons, and notes what it was told and when. */
import { get, type IncomingMessage } from 'node:http';
import { Client } from '../../testing/clients.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import type { Random } from '../../testing/random.ts';
import { eventually, pause } from '../../testing/waiting.ts';

/** What came; `daemon` is the pid of the one that sent it, `at` milliseconds of `performance.now()`. */
export type Told = { kind: 'change' | 'reset'; seq: number; action: string | null; at: number; daemon: number };

type Connection = { daemon: number; openedAt: number; events: number };

export class Watcher extends Client {
  readonly app: string;
  readonly told: Told[] = [];
  readonly connections: Connection[] = [];
  /** When a stream ended that we had not closed, though its token was still good. */
  readonly ends: number[] = [];
  readonly #comesAndGoes: boolean;
  #closedByUs = false;
  #response: IncomingMessage | null = null;
  #last: { seq: number; daemon: number } | null = null;

  /** With `random` it is one that closes its stream now and then and takes it up again where it was. */
  constructor(gateway: TestGateway, app: string, random: Random | null) {
    super(gateway, random);
    this.app = app;
    this.#comesAndGoes = random !== null;
    this.repeat(() => this.#follow(), 0);
  }

  /** Resolves once nothing has come for `quietMs`, at the latest after `limitMs`. */
  async settled(quietMs: number, limitMs: number): Promise<void> {
    const isQuiet = () => performance.now() - (this.told.at(-1)?.at ?? 0) > quietMs;
    await eventually(limitMs, () => isQuiet() && this.#response !== null, 20);
  }

  /** Whether something newer than this call is told in time: the stream is alive. */
  tells(limitMs: number): Promise<boolean> {
    const before = this.told.length;
    return eventually(limitMs, () => this.told.length > before);
  }

  override async stop(): Promise<void> {
    const stopped = super.stop();
    this.#close();
    await stopped;
  }

  async #follow(): Promise<unknown> {
    const { token } = this.gateway;
    const response = await this.#open();
    if (response === null) return pause(20);
    if (!this.running) return response.destroy();
    this.#closedByUs = false;
    await this.#read(response);
    const at = performance.now();
    if (this.#closedByUs) return;
    const answer = await this.gateway.call('GET', '/svc/_apps', { token }).catch(() => null);
    if (answer?.status !== 401) this.ends.push(at);
  }

  #open(): Promise<IncomingMessage | null> {
    const { url, token, pid } = this.gateway;
    const last = this.#last;
    const headers: Record<string, string> = { authorization: `Bearer ${token}` };
    if (last) headers['last-event-id'] = String(last.seq);
    return new Promise((resolve) => {
      const request = get(`${url}/svc/${this.app}/_changes`, { headers, agent: false }, (response) => {
        if (response.statusCode !== 200) {
          this.violations.push(`A stream of ${this.app} was answered ${response.statusCode}.`);
          response.resume();
          resolve(null);
          return;
        }
        this.connections.push({ daemon: pid, openedAt: performance.now(), events: 0 });
        resolve(response);
      });
      request.on('error', () => resolve(null));
    });
  }

  async #read(response: IncomingMessage): Promise<void> {
    this.#response = response;
    const closing = this.#comesAndGoes && setTimeout(() => this.#close(), this.random.between(100, 800));
    let text = '';
    try {
      for await (const chunk of response) {
        text += (chunk as Buffer).toString();
        for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
          this.#take(text.slice(0, end));
          text = text.slice(end + 2);
        }
      }
    } catch {
      // A connection that broke has ended, like one that was closed.
    }
    if (closing) clearTimeout(closing);
    this.#response = null;
  }

  #close(): void {
    this.#closedByUs = true;
    this.#response?.destroy();
  }

  #take(block: string): void {
    const connection = this.connections.at(-1) as Connection;
    const field = (name: string) => new RegExp(`^${name}: ?(.*)$`, 'm').exec(block)?.[1];
    const id = field('id');
    const kind = field('event');
    if (kind !== 'change' && kind !== 'reset') {
      if (id !== undefined) this.#opened(connection, Number(id));
      return;
    }
    const seq = Number(id);
    const { action = null } = JSON.parse(field('data') ?? '{}') as { action?: string };
    this.#checkOrder(connection, kind, seq);
    connection.events += 1;
    this.told.push({ kind, seq, action, at: performance.now(), daemon: connection.daemon });
    this.#last = { seq, daemon: connection.daemon };
  }

  /** The opening names a number only when nothing was missed; what was missed brings its own. */
  #opened(connection: Connection, seq: number): void {
    const last = this.#last;
    if (last && (last.daemon !== connection.daemon || last.seq !== seq))
      this.violations.push(`${this.app}: a stream resumed after number ${last.seq} and went on after ${seq}.`);
    this.#last = { seq, daemon: connection.daemon };
  }

  /** Numbers have no gap; the first thing after an absence may be a `reset` that stands for all of it. */
  #checkOrder(connection: Connection, kind: Told['kind'], seq: number): void {
    const last = this.#last;
    const first = connection.events === 0;
    if (last && last.daemon !== connection.daemon && kind !== 'reset')
      this.violations.push(`${this.app}: a stream that was resumed on another daemon began with ${kind} ${seq}.`);
    if (!last || (first && kind === 'reset')) return;
    if (last.daemon === connection.daemon && seq !== last.seq + 1)
      this.violations.push(`${this.app}: ${kind} ${seq} came after number ${last.seq}.`);
  }
}

/**
 * What a watcher that came and went was told must be what one that stayed was told: a `reset` on its return needs a `reset`
 * that it missed. (More missed events than the ring holds would need none, but it is never away for so long.)
 */
export function compareWatchers(steady: Watcher, returning: Watcher): string[] {
  const resets = steady.told.filter((one) => one.kind === 'reset');
  const violations: string[] = [];
  let last: Told | null = null;
  for (const one of returning.told) {
    if (one.kind === 'reset' && last?.daemon === one.daemon && one.seq !== last.seq + 1) {
      const from = last.seq;
      const had = resets.some(({ daemon, seq }) => daemon === one.daemon && seq > from && seq <= one.seq);
      if (!had) violations.push(`${steady.app}: back after number ${from}, a stream got a reset that was not needed.`);
    }
    last = one;
  }
  return violations;
}
