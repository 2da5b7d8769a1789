/** Shares one live query among all followers of a query and input, and bounds the resources of all of them. */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Following } from '../../protocol/topic.ts';
import { callerKey, isSameCaller } from '../../protocol/wire/handler-caller.ts';
import type { ChangeStreams } from '../dispatch/change-streams.ts';
import type { Commits, Written } from '../results/commits.ts';
import {
  type LiveClock,
  type LiveFollower,
  type LiveMember,
  type LiveParts,
  LiveQuery,
  type LiveRequest,
} from './live-query.ts';

/** A follower with the query that it follows now. `name` is the query's key in `AppQueries.queries`. */
type Member = LiveMember & { query: LiveQuery; name: string };

/** The live queries of an app or draft. */
type AppQueries = {
  /** The key is the query and its input, with the caller where the result depends on the caller. */
  readonly queries: Map<string, LiveQuery>;
  followers: number;
  running: number;
  /** The starts of queries that wait for their turn, in the order in which they run. */
  readonly waiting: Set<(done: () => void) => void>;
  readonly unwatch: () => void;
};

type LiveSources = {
  dispatcher: LiveParts['dispatcher'];
  commits: Commits;
  changes: ChangeStreams;
};

const CLOCK: LiveClock = {
  now: Date.now,
  elapsed: performance.now.bind(performance),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

export class LiveQueries {
  readonly #sources: LiveSources;
  readonly #apps = new Map<string, AppQueries>();
  /** How many subscriptions each client has, over all apps. */
  readonly #clients = new Map<string, number>();
  readonly #parts: LiveParts;
  #keptBytes = 0;

  constructor(sources: LiveSources, clock: LiveClock = CLOCK) {
    this.#sources = sources;
    this.#parts = {
      clock,
      dispatcher: sources.dispatcher,
      isUpToDate: (key) => sources.commits.upToDate(key) !== null,
      takeOver: (members, from) => this.#takeOver(members as Member[], from),
      waitForPlace: (key, start) => this.#enter(key, start),
      reserve: (bytes) => {
        if (this.#keptBytes + bytes > LIMITS.liveResultsBytes) return false;
        this.#keptBytes += bytes;
        return true;
      },
      release: (bytes) => {
        this.#keptBytes -= bytes;
      },
    };
  }

  /** Counts queries, followers, their clients and bytes of kept results, over all apps. */
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

  /** How many subscriptions the live queries of an app or draft have; `key` is that of its scope. */
  followersOf(key: string): number {
    return this.#apps.get(key)?.followers ?? 0;
  }

  /**
   * Follows a query. The follower gets its first state as soon as there is one, and never before this returns. `resume` sends the
   * newest state once more. Each call needs a separate follower. Throws `OVERLOADED`.
   */
  follow(request: LiveRequest, follower: LiveFollower): Following {
    const { scope, caller, client } = request;
    const { key } = scope;
    const ofClient = this.#clients.get(client) ?? 0;
    if (ofClient >= LIMITS.liveFollowersOfClient)
      throw tooMany(`This client has ${LIMITS.liveFollowersOfClient} live subscriptions`);
    const app = this.#appOf(key);
    const name = this.#nameIn(app, request);
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
    query ??= this.#make(app, name, request);
    const member: Member = { caller, follower, query, name };
    let ended = false;
    app.followers += 1;
    this.#clients.set(client, ofClient + 1);
    query.add(member);
    return {
      resume: () => {
        if (!ended) member.query.sendAgain(member);
      },
      stop: () => {
        if (ended) return;
        ended = true;
        app.followers -= 1;
        this.#release(client);
        member.query.delete(member);
        this.#drop(key, app, member);
      },
    };
  }

  #release(client: string): void {
    const left = (this.#clients.get(client) ?? 1) - 1;
    if (left > 0) this.#clients.set(client, left);
    else this.#clients.delete(client);
  }

  /**
   * The key of a request's query. All callers share a query until its result is known to depend on the caller, but those whom roles
   * of the app may refuse it.
   */
  #nameIn(app: AppQueries, request: LiveRequest): string {
    const { query, input, caller } = request;
    const shared = JSON.stringify([query, input]);
    const own = JSON.stringify([query, input, callerKey(caller)]);
    if (caller.roles !== undefined) return JSON.stringify([query, input, callerKey(caller), ...caller.roles]);
    if (app.queries.has(own)) return own;
    const found = app.queries.get(shared);
    return found?.personal && !isSameCaller(found.request.caller, caller) ? own : shared;
  }

  #make(app: AppQueries, name: string, request: LiveRequest): LiveQuery {
    const query = new LiveQuery(request, this.#parts);
    app.queries.set(name, query);
    return query;
  }

  #takeOver(members: Member[], from: LiveRequest): void {
    const { key } = from.scope;
    const app = this.#apps.get(key);
    if (!app) return;
    for (const member of members) {
      const left = { query: member.query, name: member.name };
      const request = { ...from, caller: member.caller };
      member.name = this.#nameIn(app, request);
      member.query = app.queries.get(member.name) ?? this.#make(app, member.name, request);
      member.query.add(member);
      this.#drop(key, app, left);
    }
  }

  /** Ends a query without followers. */
  #drop(key: string, app: AppQueries, { query, name }: Pick<Member, 'query' | 'name'>): void {
    if (query.followers > 0) return;
    query.close();
    if (app.queries.get(name) === query) app.queries.delete(name);
    this.#tidy(key, app);
  }

  #appOf(key: string): AppQueries {
    let app = this.#apps.get(key);
    if (!app) {
      const wrote = (tables: Written): void => {
        for (const query of made.queries.values()) query.tablesWritten(tables);
      };
      const { commits, changes } = this.#sources;
      const ends = [
        commits.watch(key, wrote),
        // A reload may bring other data. Any other event ends the draft or the app.
        changes.watch(key, (what) => {
          if (what === 'reload') wrote('all');
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

  /** Starts a query in its turn. Few queries of an app run at a time, so that the app's other callers wait for few. */
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

function tooMany(what: string): SvcError {
  return new SvcError('OVERLOADED', `${what}; end some, or try again later.`, { headers: { 'retry-after': '5' } });
}
