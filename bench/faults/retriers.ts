/** Clients that send an `Idempotency-Key` and repeat the call until its outcome is definite, as a careful client does. */
import type { Answer, TestGateway } from '../../testing/gateway.ts';
import { pause, within } from '../../testing/waiting.ts';
import { HANG_MS, type LoadOptions, newWrite, type Write } from '../../testing/write-ledger.ts';

export class Retriers {
  readonly acknowledged: Write[] = [];
  readonly sent = new Map<string, Write>();
  /** How often a write ended `done`, `failed` (the recorded answer is an error) or `unknown` (the gateway says it cannot know). */
  readonly outcomes = new Map<string, number>();
  /** How often a call was repeated. */
  repeats = 0;
  /** Of those, how often the recorded answer came. */
  replayed = 0;
  readonly violations: string[] = [];
  readonly #gateway: TestGateway;
  readonly #clients: Promise<void>[];
  #running = true;

  constructor(gateway: TestGateway, { apps, clients, prefix = 'k' }: LoadOptions) {
    this.#gateway = gateway;
    this.#clients = Array.from({ length: clients }, (_, id) => this.#client(apps, prefix, id));
  }

  async stop(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#clients);
  }

  async #client(apps: string[], prefix: string, id: number): Promise<void> {
    for (let n = 0; this.#running; n++) {
      const write = newWrite(apps, prefix, id, n, this.#gateway.pid);
      this.sent.set(write.key, write);
      const outcome = await this.#untilDefinite(write);
      write.answeredAt = performance.now();
      this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
      if (outcome !== 'done') continue;
      this.acknowledged.push(write);
      // What was answered once is answered again, and not done again.
      if (n % 8 === 0 && (await this.#untilDefinite(write)) !== 'done')
        this.violations.push(`${write.key} was acknowledged, and repeating it did not give the same answer.`);
    }
  }

  async #untilDefinite(write: Write): Promise<'done' | 'failed' | 'unknown' | 'hung'> {
    for (const since = performance.now(); performance.now() - since < HANG_MS; await pause(20)) {
      const answer = await this.#send(write);
      if (answer === 'late') break;
      if (answer === null) continue;
      const replayed = answer.headers['idempotency-replayed'] === 'true';
      if (replayed) this.replayed += 1;
      if (answer.status < 400) return 'done';
      if (replayed) return 'failed';
      if (answer.status === 409 && /cut off/.test(answer.text)) return 'unknown';
      this.repeats += 1;
    }
    this.violations.push(`${write.key} had no definite outcome within ${HANG_MS} ms.`);
    return 'hung';
  }

  async #send({ app, action, key, value }: Write): Promise<Answer | 'late' | null> {
    try {
      const headers = { 'idempotency-key': key };
      return await within(HANG_MS, this.#gateway.write(app, action, { key, value }, { headers }));
    } catch {
      this.repeats += 1;
      return null;
    }
  }
}
