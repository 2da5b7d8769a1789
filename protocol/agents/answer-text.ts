/**
 * Adds up what an agent says in a turn. What it said since its last tool is void once its answer is tried again (`phase` with
 * `retrying`) and begins anew. Pure.
 */
import type { TurnEvent } from './agents.ts';

const PIECES = 8;

export class AnswerText {
  #text = '';
  /** Pieces behind it. Joined now and then: a string of thousands of pieces keeps the garbage collector busy. */
  #pieces: string[] = [];
  /** How much of it stood before the last tool. */
  #sound = 0;
  #isVoid = false;

  /** All that was said, but for what is void. */
  get text(): string {
    this.#join();
    return this.#text;
  }

  take(event: TurnEvent | { type: 'session' }): void {
    if (event.type === 'assistant.delta') this.add(event.delta);
    else if (event.type === 'tool.start' || event.type === 'tool.result') {
      this.#drop();
      this.#join();
      this.#sound = this.#text.length;
    } else if (event.type === 'phase' && event.phase === 'retrying') this.#isVoid = true;
  }

  add(delta: string): void {
    this.#drop();
    if (this.#pieces.push(delta) >= PIECES) this.#join();
  }

  /** A half answer stays until it is said anew: it may be all that there will be. */
  #drop(): void {
    if (!this.#isVoid) return;
    this.#isVoid = false;
    this.#join();
    this.#text = this.#text.slice(0, this.#sound);
  }

  #join(): void {
    if (this.#pieces.length === 0) return;
    this.#text += this.#pieces.join('');
    this.#pieces = [];
  }
}
