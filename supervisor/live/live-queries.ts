/** Finds or makes the one evaluation of a query and input for all who follow it, and bounds what all of them take together. */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { ChangeStreams } from '../dispatch/changes.ts';
import type { Commits } from '../results/commits.ts';
import { type LiveFollower, LiveQuery, type LiveRequest, type LiveRoom } from './live-query.ts';

/** One who follows a query. */
export type Following = {
  /** Has the newest state told once more, to one who could not take it before. */
  repeat(): void;
  stop(): void;
};

/** The live queries of an app or draft. */
type AppQueries = {
  readonly queries: Map<string, LiveQuery>;
  followers: number;
  running: number;
  /** In the order in which they may run. */
  readonly waiting: Set<(done: () => void) => void>;
  readonly unwatch: () => void;
};

export type LiveSources = { commits: Pick<Commits, 'watch'>; changes: Pick<ChangeStreams, 'watch'> };

export class LiveQueries {
  readonly #sources: LiveSources;
  readonly #apps = new Map<string, AppQueries>();
  /** Subscriptions of each client, over all apps. */
  readonly #clients = new Map<string, number>();
  readonly #room: LiveRoom;
  #keptBytes = 0;

  constructor(sources: LiveSources, now: () => number = Date.now) {
    this.#sources = sources;
    this.#room = {
      now,
      enter: (key, start) => this.#enter(key, start),
      keep: (bytes) => {
        if (this.#keptBytes + bytes > LIMITS.liveResultsBytes) return false;
        this.#keptBytes += bytes;
        return true;
      },
      release: (bytes) => {
        this.#keptBytes -= bytes;
      },
    };
  }

  /** Evaluations, followers, their clients, and bytes of results, over all apps. */
  get counts(): { queries: number; followers: number; clients: number; bytes: number } {
    const apps = [...this.#apps.values()];
    const sum = (of: (app: AppQueries) => number) => apps.reduce((all, app) => all + of(app), 0);
    return {
      queries: sum(({ queries }) => queries.size),
      followers: sum((app) => app.followers),
      clients: this.#clients.size,
      bytes: this.#keptBytes,
    };
  }

  /** The first state is told as soon as it is known, not before this returns. Each call needs a follower of its own. Throws `OVERLOADED`. */
  follow(request: LiveRequest, follower: LiveFollower): Following {
    const { key, client } = request;
    const ofClient = this.#clients.get(client) ?? 0;
    if (ofClient >= LIMITS.liveFollowersOfClient)
      throw tooMany(`This client has ${LIMITS.liveFollowersOfClient} live subscriptions`);
    const app = this.#appOf(key);
    const name = nameOf(request);
    let query = app.queries.get(name);
    try {
      if (app.followers >= LIMITS.liveFollowers)
        throw tooMany(`This app has ${LIMITS.liveFollowers} live subscriptions`);
      if (!query && app.queries.size >= LIMITS.liveQueries)
        throw tooMany(`This app has live subscriptions to ${LIMITS.liveQueries} different queries and inputs`);
    } catch (error) {
      this.#tidy(key, app);
      throw error;
    }
    if (!query) {
      query = new LiveQuery(request, this.#room);
      app.queries.set(name, query);
    }
    const followed = query;
    let ended = false;
    app.followers += 1;
    this.#clients.set(client, ofClient + 1);
    followed.add(follower);
    return {
      repeat: () => {
        if (!ended) followed.repeat(follower);
      },
      stop: () => {
        if (ended) return;
        ended = true;
        app.followers -= 1;
        this.#release(client);
        followed.delete(follower);
        if (followed.followers > 0) return;
        followed.close();
        if (app.queries.get(name) === followed) app.queries.delete(name);
        this.#tidy(key, app);
      },
    };
  }

  #release(client: string): void {
    const left = (this.#clients.get(client) ?? 1) - 1;
    if (left > 0) this.#clients.set(client, left);
    else this.#clients.delete(client);
  }

  #appOf(key: string): AppQueries {
    let app = this.#apps.get(key);
    if (!app) {
      const invalidate = (): void => {
        for (const query of made.queries.values()) query.invalidate();
      };
      const { commits, changes } = this.#sources;
      const ends = [
        commits.watch(key, invalidate),
        // A draft that does not run any more was not written to.
        changes.watch(key, (what) => {
          if (what === 'reload') invalidate();
          else for (const query of [...made.queries.values()]) query.close();
        }),
      ];
      const unwatch = (): void => {
        for (const end of ends) end();
      };
      const made: AppQueries = { queries: new Map(), followers: 0, running: 0, waiting: new Set(), unwatch };
      app = made;
      this.#apps.set(key, app);
    }
    return app;
  }

  #tidy(key: string, app: AppQueries): void {
    if (app.queries.size > 0 || this.#apps.get(key) !== app) return;
    app.unwatch();
    this.#apps.delete(key);
  }

  /** Few run at a time, so that the app's other callers wait for few. */
  #enter(key: string, start: (done: () => void) => void): void {
    const app = this.#apps.get(key);
    if (!app) return;
    app.waiting.add(start);
    this.#startNext(app);
  }

  #startNext(app: AppQueries): void {
    for (const start of app.waiting) {
      if (app.running >= LIMITS.liveRuns) return;
      app.waiting.delete(start);
      app.running += 1;
      start(() => {
        app.running -= 1;
        this.#startNext(app);
      });
    }
  }
}

function nameOf({ query, input, caller }: LiveRequest): string {
  return JSON.stringify([query, input, caller.kind, caller.name]);
}

function tooMany(what: string): SvcError {
  return new SvcError('OVERLOADED', `${what}; end some, or try again later.`, { headers: { 'retry-after': '5' } });
}
