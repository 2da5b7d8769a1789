/**
 * Clients that read what was acknowledged: it is there from that moment on, and reads outlive the process they run in. Of each two
 * reads one is of a mark that seldom rises: most of these are answered with a kept result, and none with one from before. People
 * who read it at the same time each get the result that was made for them.
 */
import { Client } from '../../testing/clients.ts';
import type { CallOptions, TestGateway } from '../../testing/gateway.ts';
import type { Joined } from '../../testing/people.ts';
import { type Load, partsOf } from '../../testing/write-ledger.ts';

/** A read that was answered with an error; times in milliseconds of `performance.now()`. */
export type FailedRead = { app: string; sentAt: number; answeredAt: number; answer: string };

/** The mark of an app: what was acknowledged or read, and the highest that was sent. */
type Mark = { known: number; sent: number };

/** Turns until a mark rises. */
const TURNS_OF_MARK = 10;

export class Readers extends Client {
  reads = 0;
  /** Of them, those that were answered with a kept result. */
  hits = 0;
  readonly failed: FailedRead[] = [];
  /** When the connection of a read ended without an answer. */
  readonly unanswered: { sentAt: number; answeredAt: number }[] = [];
  readonly #load: Load;
  readonly #people: readonly Joined[];
  readonly #marks = new Map<string, Mark>();

  /** One more client goes through the queries of `also`, whose answers need only be good ones: it never waits for a write. */
  constructor(
    gateway: TestGateway,
    load: Load,
    clients: number,
    { people = [], also = [] }: { people?: readonly Joined[]; also?: readonly [app: string, query: string][] } = {},
  ) {
    super(gateway);
    this.#load = load;
    this.#people = people;
    for (let id = 0; id < clients; id++) this.repeat((n) => this.#turn(n), 5);
    if (also.length > 0) this.repeat((n) => this.#read(...(also[n % also.length] as [string, string]), {}), 10);
  }

  async #turn(n: number): Promise<void> {
    const write = this.#load.acknowledged.at(-1);
    if (write === undefined) return;
    const { app, key, value } = write;
    const rows = (await this.#read(app, 'get', { key })) as { part: number; value: number }[] | undefined;
    if (rows !== undefined && (rows.length !== partsOf(write) || rows.some((row) => row.value !== value)))
      this.violations.push(`${key} was acknowledged by ${app}, and a read after it found ${JSON.stringify(rows)}.`);
    const mark = this.#marks.get(app) ?? (await this.#firstMark(app));
    if (mark === null) return;
    if (n % TURNS_OF_MARK === 0) await this.#raise(app, mark);
    await this.#readMark(app, mark);
    await Promise.all(this.#people.map(({ id, origin }) => this.#readMark(app, mark, { id, headers: origin.headers })));
  }

  /** Others may have raised it before. */
  async #firstMark(app: string): Promise<Mark | null> {
    const row = (await this.#read(app, 'mark', {})) as { n: number } | undefined;
    if (row === undefined) return null;
    const mark = this.#marks.get(app) ?? { known: row.n, sent: row.n };
    this.#marks.set(app, mark);
    return mark;
  }

  async #raise(app: string, mark: Mark): Promise<void> {
    const n = ++mark.sent;
    // What is not acknowledged may be stored or not.
    const answer = await this.gateway.write(app, 'raise', { n }).catch(() => null);
    if (answer?.status === 201) mark.known = Math.max(mark.known, n);
  }

  async #readMark(app: string, mark: Mark, by?: { id: string; headers: Record<string, string> }): Promise<void> {
    const { known } = mark;
    const options = by && { token: null, headers: by.headers };
    const row = (await this.#read(app, by ? 'own' : 'mark', {}, options)) as { n: number; user?: string } | undefined;
    if (row === undefined) return;
    if (row.user !== by?.id) this.violations.push(`${by?.id} read of ${app} what was made for ${row.user}.`);
    if (row.n < known || row.n > mark.sent)
      this.violations.push(`The mark of ${app} was known to be ${known} of ${mark.sent}, and a read found ${row.n}.`);
    mark.known = Math.max(mark.known, row.n);
  }

  /** The result; undefined when there was none. */
  async #read(app: string, query: string, input: object, options?: CallOptions): Promise<unknown> {
    const sentAt = performance.now();
    const answer = await this.answered(`A read of ${app}`, this.gateway.read(app, query, input, options));
    const answeredAt = performance.now();
    if (answer === null) {
      this.unanswered.push({ sentAt, answeredAt });
      return undefined;
    }
    this.reads += 1;
    if (answer.status !== 200) {
      this.failed.push({ app, sentAt, answeredAt, answer: answer.text });
      return undefined;
    }
    if (/cache;desc=hit/.test(String(answer.headers['server-timing']))) this.hits += 1;
    return answer.json.data as unknown;
  }
}
