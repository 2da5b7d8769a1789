/** Numbers the callers that one thread was told of: a call then names its caller by a number, where the text of a person is long. */
import { LIMITS } from '../../../protocol/limits.ts';
import { Kind } from '../../../protocol/wire/frames.ts';
import { CALLER_KINDS, callerText, type HandlerCaller } from '../../../protocol/wire/handler-caller.ts';
import type { Link } from '../../../protocol/wire/link.ts';

export class ToldCallers {
  /** Numbers by the kind of the caller and what `callerText` says. */
  readonly #numbers = new Map<HandlerCaller['kind'], Map<string, number>>();
  #count = 0;

  /** The number of a caller, which the thread knows once it has read what was sent so far. */
  numberOf(caller: HandlerCaller, link: Pick<Link, 'send'>): number {
    const { kind } = caller;
    const text = callerText(caller);
    return this.#numbers.get(kind)?.get(text) ?? this.#tell(kind, text, link);
  }

  /** Those that are told after so many take the numbers of the first again. */
  #tell(kind: HandlerCaller['kind'], text: string, link: Pick<Link, 'send'>): number {
    if (this.#count >= LIMITS.toldCallers) {
      this.#numbers.clear();
      this.#count = 0;
    }
    const number = this.#count++;
    const numbers = this.#numbers.get(kind) ?? new Map<string, number>();
    this.#numbers.set(kind, numbers.set(text, number));
    link.send([Kind.caller, number, CALLER_KINDS.indexOf(kind), text]);
    return number;
  }
}
