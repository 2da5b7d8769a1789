/** Who must notice nothing of a disk that takes no writes: readers, and those who listen to changes. */
import { Client, Progress } from '../../testing/clients.ts';
import type { Stream, TestGateway } from '../../testing/gateway.ts';
import { pause, within } from '../../testing/waiting.ts';

const HANG_MS = 60_000;
/** As long as a timer can wait. */
const FOREVER_MS = 2 ** 31 - 1;

/** Reads from several apps and listens to one, until `stop`. */
export class Bystanders extends Client {
  /** Reads that were answered 200. */
  reads = 0;
  readonly #queries: [app: string, query: string][];
  readonly #changes = new Progress();
  #stream: Stream | null = null;
  #following: Promise<void> = Promise.resolve();

  constructor(gateway: TestGateway, queries: [app: string, query: string][]) {
    super(gateway);
    this.#queries = queries;
  }

  /** Resolves when the stream of `app` is open, and each query has been answered once: their databases are open then. */
  async start(app: string): Promise<void> {
    for (const [name, query] of this.#queries) await this.gateway.read(name, query);
    const path = `/svc/${app}/_changes`;
    const { token } = this.gateway;
    this.#following = this.#follow(path, await this.gateway.stream(path), token);
    this.repeat(
      (n) => this.#read(...(this.#queries[n % this.#queries.length] as [string, string])),
      () => 10,
    );
  }

  /** Resolves when the stream tells a change that is newer than this call, which shows that it is alive; false when none comes. */
  async change(ms: number): Promise<boolean> {
    return (await within(ms, this.#changes.more())) !== 'late';
  }

  override async stop(): Promise<void> {
    await super.stop();
    this.#stream?.close();
    await this.#following;
  }

  /** A stream ends with the token that it was opened with; another one is opened with the next. */
  async #follow(path: string, first: Stream, firstToken: string): Promise<void> {
    for (let [stream, token]: [Stream | null, string] = [first, firstToken]; this.running; ) {
      this.#stream = stream;
      if (stream === null) await pause(20);
      else {
        // It ends with its stream.
        void this.#listen(stream).catch(() => {});
        await stream.closed;
        if (this.running && (await this.#isValid(token))) {
          this.violations.push('The stream of changes ended.');
          return;
        }
      }
      token = this.gateway.token;
      // Refused while nobody knows the next token; one that never comes is missed by `change`.
      stream = this.running ? await this.gateway.stream(path).catch(() => null) : null;
      if (!this.running) stream?.close();
    }
  }

  async #isValid(token: string): Promise<boolean> {
    const answer = await this.gateway.call('GET', '/svc/_apps', { token }).catch(() => null);
    return answer?.status !== 401;
  }

  async #listen(stream: Stream): Promise<void> {
    while (this.running) {
      await stream.next(FOREVER_MS);
      this.#changes.step();
    }
  }

  async #read(app: string, query: string): Promise<void> {
    const asked = this.gateway.read(app, query).catch((error: Error) => error);
    const answer = await within(HANG_MS, asked);
    if (answer === 'late') this.violations.push(`The read ${app}/${query} hung for ${HANG_MS} ms.`);
    else if (answer instanceof Error) this.violations.push(`The read ${app}/${query} ended with ${answer.message}.`);
    // While the token is being replaced, the old one is refused.
    else if (answer.status !== 200 && answer.status !== 401)
      this.violations.push(`The read ${app}/${query} was answered ${answer.text}`);
    else if (answer.status === 200) this.reads += 1;
  }
}
