/** Uploads one version after the other, whatever is killed meanwhile: what is live is old or new, and whole. */
import { appOf } from '../../testing/apps.ts';
import { Client, Counts } from '../../testing/clients.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { eventually } from '../../testing/waiting.ts';
import { Subject } from './subject.ts';

const APP = 'released';
/** Until what is live can be told after a kill. */
const TELL_MS = 30_000;

/** A schema of its own, so that it is compiled; two files, so that one may be there without the other. */
const released = (n: number) =>
  appOf(APP, {
    queries: {
      first: { run: `() => ${n}`, input: { type: 'object', properties: { n: { const: n } } } },
      second: `() => ${n}`,
    },
  });

export class Uploader extends Client {
  /** How often each status was answered; `none` for a connection that broke. */
  readonly outcomes = new Counts();
  readonly #live = new Subject('the live version', 0);

  constructor(gateway: TestGateway) {
    super(gateway);
    this.repeat((n) => this.#upload(n + 1), 20);
  }

  override async stop(): Promise<void> {
    await super.stop();
    await this.#look();
  }

  async #upload(n: number): Promise<void> {
    const answer = await this.answered('An upload', this.gateway.upload(APP, released(n)));
    this.outcomes.count(String(answer?.status ?? 'none'));
    if (answer !== null && answer.status !== 201 && answer.status !== 503)
      this.violations.push(
        `the upload of version ${n}: ${answer.status} ${answer.text}; the log then: ${this.gateway.log.slice(-2000)}`,
      );
    await this.#live.set(n, answer?.status === 201 ? 'done' : 'unknown');
    await this.#look();
  }

  /** One that was not acknowledged may be live all the same, but not by half. */
  async #look(): Promise<void> {
    let seen: (number | null)[] = [];
    // A call that a kill cut off says nothing; nor does an app that is not there yet.
    const tells = async () => {
      seen = [await this.#ask('first'), await this.#ask('second')];
      return !seen.includes(null);
    };
    const { acknowledged } = this.#live;
    if (!(await eventually(acknowledged > 0 ? TELL_MS : 0, tells, 20))) {
      if (acknowledged > 0)
        this.violations.push(`nobody can tell which version is live; ${acknowledged} was acknowledged.`);
      return;
    }
    const [first, second] = seen as [number, number];
    if (first === second) this.violations.push(...this.#live.see(first));
    else this.violations.push(`half of version ${first} and half of version ${second} are live.`);
  }

  async #ask(query: string): Promise<number | null> {
    const answer = await this.answered('A read', this.gateway.read(APP, query, {}));
    return answer?.status === 200 ? (answer.json.data as number) : null;
  }
}
