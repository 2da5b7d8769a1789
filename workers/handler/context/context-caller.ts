/** Shows handlers who calls, `ctx.caller` and `ctx.user` (specification, "Who calls"): one for all calls of a caller. */
import {
  CALLER_KINDS,
  type HandlerCaller,
  type HandlerUser,
  readCallerText,
} from '../../../protocol/wire/handler-caller.ts';

// App code could replace them.
const { freeze } = Object;
const { parse } = JSON;

export class ShownCaller {
  readonly #kind: HandlerCaller['kind'];
  readonly #text: string;
  #caller: HandlerCaller | null = null;
  #user: HandlerUser | null = null;

  /** `kind` is a place in `CALLER_KINDS`, `text` what `callerText` made. */
  constructor(kind: number, text: string) {
    this.#kind = CALLER_KINDS[kind] as HandlerCaller['kind'];
    this.#text = text;
  }

  /** The caller, frozen. */
  get caller(): HandlerCaller {
    if (this.#caller === null) {
      const kind = this.#kind;
      const name = kind === 'person' ? this.user?.name : readCallerText(kind, this.#text).name;
      this.#caller = freeze(name ? { kind, name } : { kind });
    }
    return this.#caller;
  }

  /** The person who calls, or whose agent does, frozen; null where there is none. */
  get user(): HandlerUser | null {
    if (this.#user === null) {
      const { user } = readCallerText(this.#kind, this.#text);
      if (user !== '') this.#user = freeze(parse(user) as HandlerUser);
    }
    return this.#user;
  }
}
