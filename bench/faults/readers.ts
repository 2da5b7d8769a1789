/** Clients that read what was acknowledged: it is there from that moment on, and reads outlive the process they run in. */
import { Client } from '../../testing/clients.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { within } from '../../testing/waiting.ts';
import { HANG_MS, type Load, partsOf } from '../../testing/write-ledger.ts';

/** A read that was answered with an error; times in milliseconds of `performance.now()`. */
export type FailedRead = { app: string; sentAt: number; answeredAt: number; answer: string };

export class Readers extends Client {
  reads = 0;
  readonly failed: FailedRead[] = [];
  /** When the connection of a read ended without an answer. */
  readonly unanswered: { sentAt: number; answeredAt: number }[] = [];
  /** The longest that an answered read took, in milliseconds. */
  worstMs = 0;
  readonly #load: Load;

  constructor(gateway: TestGateway, load: Load, clients: number) {
    super(gateway);
    this.#load = load;
    for (let id = 0; id < clients; id++)
      this.repeat(
        () => this.#read(),
        () => 5,
      );
  }

  async #read(): Promise<void> {
    const write = this.#load.acknowledged.at(-1);
    if (write === undefined) return;
    const { app, key, value } = write;
    const sentAt = performance.now();
    try {
      const answer = await within(HANG_MS, this.gateway.read(app, 'get', { key }));
      const answeredAt = performance.now();
      if (answer === 'late') {
        this.violations.push(`A read of ${app} hung for ${HANG_MS} ms.`);
        return;
      }
      this.reads += 1;
      this.worstMs = Math.max(this.worstMs, answeredAt - sentAt);
      if (answer.status !== 200) {
        this.failed.push({ app, sentAt, answeredAt, answer: answer.text });
        return;
      }
      const rows = answer.json.data as { part: number; value: number }[];
      if (rows.length !== partsOf(write) || rows.some((row) => row.value !== value))
        this.violations.push(`${key} was acknowledged by ${app}, and a read after it found ${answer.text}.`);
    } catch {
      this.unanswered.push({ sentAt, answeredAt: performance.now() });
    }
  }
}
