/** Cuts an event stream between its events, so that those of several can be put together. */

const END = Buffer.from('\n\n');
const EVENT = Buffer.from('event:');

export class EventCutter {
  readonly #hasComments: boolean;
  #rest: Buffer = Buffer.alloc(0);

  /** `hasComments`: what is no event is kept too, such as the beginning and what keeps the connection. */
  constructor(hasComments: boolean) {
    this.#hasComments = hasComments;
  }

  /** The events that are complete with these bytes. */
  take(bytes: Buffer): Buffer {
    // The end of an event may be in two pieces.
    const before = Math.max(0, this.#rest.length - 1);
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    const taken: Buffer[] = [];
    let from = 0;
    for (let end = all.indexOf(END, before); end >= 0; end = all.indexOf(END, from)) {
      const event = all.subarray(from, end + END.length);
      if (this.#hasComments || event.subarray(0, EVENT.length).equals(EVENT)) taken.push(event);
      from = end + END.length;
    }
    this.#rest = all.subarray(from);
    return taken.length === 1 ? (taken[0] as Buffer) : Buffer.concat(taken);
  }
}
