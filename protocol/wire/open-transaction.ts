/**
 * Repeats an open transaction at the next writer when one is lost. Nothing of it is stored before its commit, so it goes on
 * unnoticed if each statement has the same result again.
 */
import { LIMITS } from '../limits.ts';
import { decodeFrame, FrameBatch } from './codec.ts';
import type { FrameOf } from './frames.ts';

export type DbAnswer = FrameOf<'dbResult'> | FrameOf<'dbError'>;

const scratch = new FrameBatch();

function bytesOf(frame: FrameOf<'db'> | DbAnswer): Buffer {
  scratch.add(frame);
  return scratch.take();
}

/** Without the number of the operation and its times, which differ. */
const outcomeOf = (answer: DbAnswer): Buffer => bytesOf([answer[0], 0, answer[2]] as DbAnswer);

export class OpenTransaction {
  /** For whoever opened it. */
  readonly number: number;
  /** At the writer, which gives it another number when it is repeated; 0 before it does. */
  current: number;
  /** `lost` for good. What is asked of it while it is repeated waits. */
  state: 'open' | 'repeating' | 'lost' = 'open';
  /** Operations with their answers, as bytes, because the handler may change the values. Null when there were too many. */
  #done: { request: Buffer; outcome: Buffer }[] | null = [];
  #bytes = 0;

  constructor(number: number) {
    this.number = number;
    this.current = number;
  }

  note(request: FrameOf<'db'>, answer: DbAnswer): void {
    if (this.#done === null) return;
    const one = { request: bytesOf(request), outcome: outcomeOf(answer) };
    this.#bytes += one.request.length + one.outcome.length;
    this.#done.push(one);
    if (this.#bytes > LIMITS.replayedBytes) this.#done = null;
  }

  /** Whether all went as before in a new transaction. `ask` rejects when the writer is lost again. */
  async repeat(begin: () => Promise<number>, ask: (request: FrameOf<'db'>) => Promise<DbAnswer>): Promise<boolean> {
    this.state = 'repeating';
    this.current = 0;
    if (this.#done === null) return false;
    this.current = await begin();
    for (const { request, outcome } of this.#done) {
      const repeated = decodeFrame(request) as FrameOf<'db'>;
      if (!outcomeOf(await ask(repeated)).equals(outcome)) return false;
    }
    return true;
  }
}
