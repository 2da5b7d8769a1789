/**
 * A topic: a log of events that is appended to and followed. Each event has a number, and the newest are kept: a follower that
 * begins later, or could not take them, gets those that it has not had, and is told how many are gone. A topic never waits for its
 * followers.
 */

/** Follows a topic. Nothing of it throws. `Sent` is what it is given of an event. */
export type Follower<Event, Sent = Event> = {
  /** Whether it wants this event; by default it wants all. */
  wants?: ((event: Event) => boolean) | undefined;
  /** False when it cannot take any more: nothing is given to it until `resume`. */
  take(sent: Sent): boolean;
  /** So many events that it wanted are gone. False as above; by default nobody is told. */
  gap?: ((events: number) => boolean) | undefined;
  /** Nothing comes any more. */
  ended(): void;
};

/** What somebody follows, such as a topic or a live query. */
export type Following = {
  /** It is given what it could not take, or the gap. */
  resume(): void;
  stop(): void;
};

export type TopicOptions<Event, Sent> = {
  /** What followers are given of an event; made once for all of them. */
  form(event: Event, id: number): Sent;
  /** The number before the first event. */
  start?: number;
  /** How many events are kept, none by default, and of how many bytes. */
  keep?: number;
  keepBytes?: number;
  bytesOf?(event: Event): number;
  /** Of the events with the same key only the newest is kept, and nobody misses the others. */
  keyOf?(event: Event): unknown;
  /** Who could not take an event is told of a gap, in place of all that came meanwhile. */
  folds?: boolean;
};

type Kept<Event> = { readonly event: Event; readonly id: number };

/** A follower, and how many events that it wants it has not had: all of those after number `at`. */
type Followed<Event, Sent> = { readonly follower: Follower<Event, Sent>; at: number; due: number };

export class Topic<Event, Sent = Event> {
  /** Number of the newest event, kept or not. */
  last: number;
  /** Bytes of the events that are kept. */
  bytes = 0;
  readonly #options: TopicOptions<Event, Sent>;
  readonly #followers = new Set<Followed<Event, Sent>>();
  /** Oldest first. */
  #kept: Kept<Event>[] = [];
  /** Number of the newest event that is gone. */
  #gone: number;
  #over = false;

  constructor(options: TopicOptions<Event, Sent>) {
    this.#options = options;
    this.last = options.start ?? 0;
    this.#gone = this.last;
  }

  get followers(): number {
    return this.#followers.size;
  }

  /** Adds the event of the next number. */
  append(event: Event): void {
    this.last += 1;
    this.#keep(event);
    let sent: Sent | undefined;
    for (const one of this.#followers) {
      const { follower, due } = one;
      if (follower.wants?.(event) === false) continue;
      if (due === 0) {
        sent ??= this.#options.form(event, this.last);
        if (follower.take(sent)) continue;
        one.at = this.last - 1;
      }
      one.due += 1;
    }
  }

  /** Gives followers what has no number and is not kept; those that are behind do not get it. */
  announce(sent: Sent): void {
    for (const { due, follower } of this.#followers) if (due === 0) follower.take(sent);
  }

  /** Takes a number for something unknown, and forgets what came before it: all followers are told of a gap. */
  skip(): void {
    this.last += 1;
    this.clear();
    for (const one of this.#followers) {
      one.due += 1;
      this.#give(one);
    }
  }

  /** Forgets the events, not the numbers: who has not seen them all finds a gap. */
  clear(): void {
    this.#kept = [];
    this.bytes = 0;
    this.#gone = this.last;
  }

  /** Forgets the event with this key; nobody misses it. */
  drop(key: unknown): void {
    const { keyOf } = this.#options;
    this.#kept = this.#kept.filter(({ event }) => keyOf?.(event) !== key);
  }

  /** The events after number `id`, oldest first; undefined when some of them are gone, or `id` is not one of its numbers. */
  since(id: number): Event[] | undefined {
    if (!(id >= this.#gone && id <= this.last)) return undefined;
    return this.#after(id).map(({ event }) => event);
  }

  /** Gives `follower` all that comes, and before it what came after number `after`. */
  follow(follower: Follower<Event, Sent>, after: number = this.last): Following {
    const one = { follower, at: after, due: Math.max(0, this.#gone - after) };
    one.due += this.#wanted(one).length;
    this.#followers.add(one);
    this.#give(one);
    return { resume: () => this.#give(one), stop: () => void this.#followers.delete(one) };
  }

  /** Nothing comes any more: each follower ends once it has all. */
  end(): void {
    this.#over = true;
    for (const one of this.#followers) this.#give(one);
  }

  /** Ends each follower now. */
  close(): void {
    for (const one of this.#followers) this.#leave(one);
  }

  #keep(event: Event): void {
    const { keep = 0, keepBytes = Number.POSITIVE_INFINITY, bytesOf, keyOf } = this.#options;
    if (keyOf !== undefined) this.drop(keyOf(event));
    this.#kept.push({ event, id: this.last });
    this.bytes += bytesOf?.(event) ?? 0;
    while (this.#kept.length > keep || this.bytes > keepBytes) {
      const oldest = this.#kept.shift() as Kept<Event>;
      this.bytes -= bytesOf?.(oldest.event) ?? 0;
      this.#gone = oldest.id;
    }
  }

  #after(id: number): Kept<Event>[] {
    const first = this.#kept.findIndex((one) => one.id > id);
    return first === -1 ? [] : this.#kept.slice(first);
  }

  #wanted({ follower, at }: Followed<Event, Sent>): Kept<Event>[] {
    return this.#after(at).filter(({ event }) => follower.wants?.(event) !== false);
  }

  /** What it has not had, as far as it takes it. */
  #give(one: Followed<Event, Sent>): void {
    const { follower } = one;
    if (one.due > 0) {
      const { folds, keyOf, form } = this.#options;
      const wanted = folds ? [] : this.#wanted(one);
      const gone = keyOf === undefined ? one.due - wanted.length : 0;
      if (gone > 0 && follower.gap?.(gone) === false) return;
      one.due = wanted.length;
      for (const { event, id } of wanted) {
        if (!follower.take(form(event, id))) return;
        one.at = id;
        one.due -= 1;
      }
    }
    if (this.#over) this.#leave(one);
  }

  #leave(one: Followed<Event, Sent>): void {
    if (this.#followers.delete(one)) one.follower.ended();
  }
}
