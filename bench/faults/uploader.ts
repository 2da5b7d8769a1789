/** Uploads one version after the other, whatever is killed meanwhile: what is live is old or new, and whole. */
import { appOf } from '../../testing/apps.ts';
import { Client, Counts } from '../../testing/clients.ts';
import type { Answer, TestGateway } from '../../testing/gateway.ts';
import { pause } from '../../testing/waiting.ts';

const APP = 'released';
/** Until what is live can be told after a kill. */
const TELL_MS = 30_000;

export class Uploader extends Client {
  /** How often each status was answered; `none` for a connection that broke. */
  readonly outcomes = new Counts();
  /** The version whose upload was acknowledged last, and the one that was sent last. */
  #live = 0;
  #sent = 0;

  constructor(gateway: TestGateway) {
    super(gateway);
    this.repeat(
      () => this.#next(),
      () => 20,
    );
  }

  override async stop(): Promise<void> {
    await super.stop();
    await this.#look();
  }

  async #next(): Promise<void> {
    const n = ++this.#sent;
    const answer = await this.#upload(n);
    const outcome = String(answer?.status ?? 'none');
    this.outcomes.count(outcome);
    if (outcome === '201') this.#live = n;
    else if (answer !== null && outcome !== '503')
      this.violations.push(
        `the upload of version ${n}: ${outcome} ${answer.text}; the log then: ${this.gateway.log.slice(-2000)}`,
      );
    await this.#look();
  }

  async #upload(n: number): Promise<Answer | null> {
    // A schema of its own, so that it is compiled; two files, so that one may be there without the other.
    const files = appOf(APP, {
      queries: {
        first: { run: `() => ${n}`, input: { type: 'object', properties: { n: { const: n } } } },
        second: `() => ${n}`,
      },
    });
    return this.gateway.upload(APP, files).catch(() => null);
  }

  /** One that was not acknowledged may be live all the same, but not by half. */
  async #look(): Promise<void> {
    const deadline = performance.now() + TELL_MS;
    let seen = await this.#seen();
    // A call that a kill cut off says nothing; nor does an app that is not there yet.
    while (seen === null && this.#live > 0 && performance.now() < deadline) {
      await pause(20);
      seen = await this.#seen();
    }
    if (seen === null) {
      if (this.#live > 0)
        this.violations.push(`nobody can tell which version is live; ${this.#live} was acknowledged.`);
      return;
    }
    const [first, second] = seen;
    if (first !== second) this.violations.push(`half of version ${first} and half of version ${second} are live.`);
    else if (first < this.#live || first > this.#sent)
      this.violations.push(`version ${first} is live; ${this.#live} was acknowledged, ${this.#sent} sent.`);
    else this.#live = first;
  }

  async #seen(): Promise<[number, number] | null> {
    const first = await this.#ask('first');
    const second = first === null ? null : await this.#ask('second');
    return first === null || second === null ? null : [first, second];
  }

  #ask(query: string): Promise<number | null> {
    return this.gateway.read(APP, query, {}).then(
      ({ status, json }) => (status === 200 ? (json.data as number) : null),
      () => null,
    );
  }
}
