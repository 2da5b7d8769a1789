/** Clients that send an `Idempotency-Key` and repeat the call until its outcome is definite, as a careful client does. */
import { Load, type Write } from '../../testing/write-ledger.ts';

/** `outcomes`: `done`, `failed` (the recorded answer is an error) or `unknown` (the gateway says it cannot know). No write stays unanswered. */
export class Retriers extends Load {
  /** How often a call was repeated. */
  repeats = 0;
  /** Of those, how often the recorded answer came. */
  replayed = 0;

  protected override async send(write: Write, n: number): Promise<void> {
    const outcome = await this.#untilDefinite(write);
    write.answeredAt = performance.now();
    this.outcomes.count(outcome ?? 'hung');
    if (outcome !== 'done') return;
    this.acknowledged.push(write);
    this.step();
    // What was answered once is answered again, and not done again.
    if (n % 8 === 0 && (await this.#untilDefinite(write)) !== 'done')
      this.violations.push(`${write.key} was acknowledged, and repeating it did not give the same answer.`);
  }

  #untilDefinite({ app, action, key, value }: Write): Promise<'done' | 'failed' | 'unknown' | null> {
    const headers = { 'idempotency-key': key };
    return this.definite(key, 20, async () => {
      const call = this.gateway.write(app, action, { key, value }, { headers });
      const answer = await this.answered(`The keyed call ${key}`, call);
      const isReplayed = answer?.headers['idempotency-replayed'] === 'true';
      if (isReplayed) this.replayed += 1;
      if (answer !== null && answer.status < 400) return 'done';
      if (isReplayed) return 'failed';
      if (answer?.status === 409 && /cut off/.test(answer.text)) return 'unknown';
      this.repeats += 1;
      return null;
    });
  }
}
