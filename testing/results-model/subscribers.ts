/** Follows live queries in the model of kept results, and checks their results. */
import type { Scope } from '../../supervisor/dispatch/scope.ts';
import type { LiveQueries } from '../../supervisor/live/live-queries.ts';
import type { LiveState } from '../../supervisor/live/live-query.ts';
import type { Random } from '../random.ts';
import { type Answer, APP, newest, QUERIES, READERS, type Seen, shownOf } from './app.ts';

/** A follower of a live query. */
type Subscriber = {
  readonly query: string;
  readonly caller: string;
  readonly client: { seen: Seen };
  /** The state known when it began, then the state that it got. */
  least: Seen;
  /** The newest; null before the first result, and after an error. */
  last: Answer | null;
  stop(): void;
};

export class Subscribers {
  /** States that they got. */
  told = 0;
  readonly #live: LiveQueries;
  readonly #random: Random;
  readonly #violations: string[];
  readonly #all = new Set<Subscriber>();

  constructor(live: LiveQueries, random: Random, violations: string[]) {
    this.#live = live;
    this.#random = random;
    this.#violations = violations;
  }

  /** A new follower begins, or one ends. */
  step(client: { seen: Seen }, acknowledged: Seen): void {
    if (this.#all.size > 0 && this.#random.next() < 0.4) {
      const ended = this.#random.pick([...this.#all]);
      this.#all.delete(ended);
      ended.stop();
      return;
    }
    const query = this.#random.pick(Object.keys(QUERIES));
    const reader = this.#random.pick(READERS);
    const caller = shownOf(reader);
    const least = newest(acknowledged, client.seen);
    const subscriber: Subscriber = { query, caller, client, least, last: null, stop: () => {} };
    this.#all.add(subscriber);
    const { stop } = this.#live.follow(
      { scope: { app: APP, key: APP } as Scope, query, input: '{}', caller: reader, client: caller },
      { tell: (state) => this.#tell(subscriber, state), closed: () => {} },
    );
    subscriber.stop = stop;
  }

  /**
   * Everything in progress has ended. `tablesOf` are the tables that a query shows, and the schema if it shows that.
   */
  end(written: Seen, tablesOf: (query: string) => string[]): void {
    for (const { query, last, stop } of this.#all) {
      for (const table of tablesOf(query)) {
        const shown = last?.seen[table];
        if (shown !== written[table])
          this.#violations.push(`live ${query} ends with ${table} of commit ${shown}, not ${written[table]}`);
      }
      stop();
    }
  }

  #tell(subscriber: Subscriber, { event, json }: LiveState): void {
    const { query, caller, least, client } = subscriber;
    this.told++;
    if (event === 'error') {
      subscriber.last = null;
      return;
    }
    const { data } = JSON.parse(`{${json.toString()}`) as { data: Answer };
    for (const [table, commit] of Object.entries(data.seen)) {
      if (commit < (least[table] ?? 0))
        this.#violations.push(`live ${query} shows ${table} of commit ${commit}, after ${least[table]}`);
    }
    if (data.caller !== null && data.caller !== caller)
      this.#violations.push(`live ${query} shows ${caller} what ${data.caller} asked for`);
    subscriber.least = newest(least, data.seen);
    subscriber.last = data;
    Object.assign(client.seen, newest(client.seen, data.seen));
  }
}
