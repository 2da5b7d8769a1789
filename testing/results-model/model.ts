/**
 * A model of all participants in kept results: clients, an app's threads, writers, a foreign process, and the real code
 * of the supervisor. A seed decides what happens next, which message arrives, is late, is lost or is overtaken, and
 * which process dies. It checks that each read shows every write that was acknowledged before it began, and nothing
 * older than the same client has seen, in a read or by a live query; that each read whose caller stays is answered by its
 * deadline; and that each follower of a live query gets
 * results no older than its subscription, never goes back, gets only results for its caller, and has the last state at
 * the end (specification, "Kept results" and "Live queries").
 */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { STATE_BYTES } from '../../storage/wal-index.ts';
import { CachedReads, type StartRun } from '../../supervisor/dispatch/cached-reads.ts';
import type { Dispatcher } from '../../supervisor/dispatch/dispatcher.ts';
import type { Request, Sink, Target } from '../../supervisor/dispatch/request.ts';
import type { Scope } from '../../supervisor/dispatch/scope.ts';
import { LiveQueries } from '../../supervisor/live/live-queries.ts';
import { Meter } from '../../supervisor/operations/metrics/meters.ts';
import { Commits, type CommitsOptions } from '../../supervisor/results/commits.ts';
import { Results } from '../../supervisor/results/results.ts';
import type { CallTiming, Deadlines, Timed } from '../../supervisor/tree/actor/call.ts';
import type { Random } from '../random.ts';
import { standIn } from '../stand-in.ts';
import {
  type Answer,
  APP,
  newest,
  QUERIES,
  READERS,
  type Seen,
  type Source,
  type StartedCall,
  shownOf,
  TABLES,
  type Table,
  Thread,
  type Work,
} from './app.ts';
import { Subscribers } from './subscribers.ts';

type Note = { before: Uint8Array; after: Uint8Array; tables: string[] | null };
type Timer = { at: number; run: () => void };
/** A read that was not answered yet. */
type OpenRead = { readonly query: string; readonly begunAt: number; leave(): void };
/** Faults that are put into the order of the model on purpose, to see that it finds them. */
export type Fault =
  | 'messages only'
  | 'schema not told'
  | 'runs shared for ever'
  | 'writes during a run not told'
  | 'subscribers told at once'
  | 'callers share'
  | null;

export class ResultsModel {
  readonly violations: string[] = [];
  reads = 0;
  hits = 0;
  readonly #random: Random;
  readonly #writes: number;
  readonly #troubles: number;
  readonly #commits: Commits;
  readonly #results: Results;
  readonly #cached: CachedReads;
  readonly #fault: Fault;
  /** Whether results are kept; they are not in drafts. */
  readonly #keeps: boolean;
  readonly #subscribers: Subscribers;
  readonly #timers = new Set<Timer>();
  /** Callers that joined a run. */
  readonly #waiting = new Set<Timed>();
  readonly #open = new Set<OpenRead>();
  /** The time that a query may take. */
  readonly #allowedMs: number;
  #liveRuns = 0;
  #ending = false;
  #time = 0;
  // The database.
  #commit = 1;
  #salt = 1;
  #exists = true;
  #shown: Table = 'a';
  readonly #written: Seen = { a: 1, b: 1, c: 1, schema: 1 };
  /** The state that was acknowledged to any client, or sent in an event. */
  readonly #acknowledged: Seen = { a: 1, b: 1, c: 1, schema: 1 };
  /** Notes in transit, by the writer that sent them. */
  #notes: Note[][] = [[]];
  /** Commits whose writer died before it answered: the supervisor learns that later. */
  #losses = 0;
  #version = 'v1';
  #thread = new Thread('v1');
  /** Acknowledgements in transit. */
  readonly #answers: Seen[] = [];
  readonly #clients: { seen: Seen }[] = [{ seen: {} }, { seen: {} }, { seen: {} }];

  constructor(random: Random, fault: Fault = null) {
    this.#random = random;
    this.#writes = random.pick([0.01, 0.05, 0.15]);
    this.#troubles = random.pick([0, 0.01, 0.05]);
    this.#fault = fault;
    const reader: CommitsOptions['reader'] = () => ({
      read: () => (this.#fault === 'messages only' ? this.#notedState : this.#exists ? this.#state() : null),
      close: () => {},
    });
    const onChanged = (app: string) => this.#results.forget(app);
    this.#commits = new Commits({ file: () => APP, onChanged, now: () => this.#time, reader });
    this.#results = new Results(this.#commits);
    this.#allowedMs = random.pick([200, 1000, 30_000]);
    const deadlines = standIn<Deadlines>({
      add: (one) => void this.#waiting.add(one),
      delete: (one) => void this.#waiting.delete(one),
    });
    const clock = { now: () => this.#time, deadlines };
    this.#cached = new CachedReads(this.#results, this.#allowedMs, clock);
    this.#notedState = this.#state();
    this.#keeps = random.next() < 0.8;
    const live = new LiveQueries(
      {
        dispatcher: this.#dispatcher,
        commits: standIn({
          watch: (app, listener) =>
            this.#commits.watch(app, (written) => {
              if (fault !== 'writes during a run not told' || this.#liveRuns === 0) listener(written);
            }),
          upToDate: (app) => {
            const history = this.#commits.upToDate(app);
            return fault === 'subscribers told at once'
              ? (history ?? ({} as ReturnType<Commits['upToDate']>))
              : history;
          },
        }),
        changes: standIn({ watch: () => () => {} }),
      },
      {
        now: () => this.#time,
        elapsed: () => this.#time,
        after: (ms, run) => {
          const timer = { at: this.#time + ms, run };
          this.#timers.add(timer);
          return () => this.#timers.delete(timer);
        },
      },
    );
    this.#subscribers = new Subscribers(live, random, this.violations);
    if (fault === 'runs shared for ever') this.#results.isCurrent = () => true;
  }

  /** The state as a supervisor sees it that only gets messages. */
  #notedState: Uint8Array;

  /** Runs this many events, and then lets everything finish. */
  async run(steps: number): Promise<void> {
    for (let step = 0; step < steps; step++) {
      this.#step();
      await settled();
    }
    await this.#fence();
    this.#commits.close();
  }

  /** States that followers of live queries got. */
  get told(): number {
    return this.#subscribers.told;
  }

  /** Schedules differ in how much is written, and in how much goes wrong. */
  #step(): void {
    const chance = this.#random.next();
    if (chance < this.#troubles) this.#trouble();
    else if (chance < this.#troubles + this.#writes) this.#write();
    else {
      const steps: (() => void)[] = [
        () => this.#read(),
        () => this.#leave(),
        () => this.#deliverNote(),
        () => this.#deliverAnswer(),
        () => this.#receive(),
        () => this.#work(),
        () => this.#work(),
        () => this.#answer(),
        () => this.#passTime(this.#random.between(1, 60)),
        () => this.#subscribers.step(this.#random.pick(this.#clients), this.#acknowledged),
      ];
      this.#random.pick(steps)();
    }
  }

  /** Rare events. */
  #trouble(): void {
    const steps: (() => void)[] = [
      // Another process writes; its user knows at once.
      () => this.#acknowledge(this.#change([this.#anyTable()], null)),
      () => this.#acknowledge(this.#change([], null, true)),
      // A note is lost, or is overtaken.
      () => this.#notes[0]?.shift(),
      () => this.#notes.forEach((notes) => void notes.reverse()),
      () => this.#writerDies(),
      () => {
        if (this.#losses === 0) return;
        this.#losses--;
        this.#commits.changed(APP);
      },
      () => this.#threadDies(),
      () => this.#newVersion(),
      // A restore or the like: every table is another.
      () => {
        this.#acknowledge(this.#change([...TABLES], null, true));
        this.#commits.changed(APP);
      },
      // No process has the database open any more; the next one to open it begins a new log.
      () => {
        this.#exists = false;
      },
      () => {
        this.#exists = true;
        this.#salt++;
      },
      () => this.#commits.forget(APP),
      () => this.#results.forget(APP),
    ];
    this.#random.pick(steps)();
  }

  #passTime(ms: number): void {
    this.#time += ms;
    for (const timer of [...this.#timers]) {
      if (timer.at > this.#time || !this.#timers.delete(timer)) continue;
      timer.run();
    }
    if (!this.#ending) this.#expire();
  }

  /** The deadlines of calls, of those that joined them, and of callers; a call that fails may begin others. */
  #expire(): void {
    const isDue = ({ arrivedAt }: StartedCall): boolean => arrivedAt + this.#allowedMs <= this.#time;
    for (;;) {
      const due = this.#thread.unfinished.find(isDue);
      if (due === undefined) break;
      const timing = { queueMs: 0, handlerMs: 0, started: this.#thread.isStarted(due) };
      this.#thread.drop(due);
      due.reply.failed(new SvcError('HANDLER_ERROR', 'It took too long.'), timing);
    }
    for (const one of this.#waiting) if (one.deadline <= this.#time && this.#waiting.delete(one)) one.expire();
    for (const read of this.#open) {
      if (read.begunAt + this.#allowedMs > this.#time) continue;
      this.#open.delete(read);
      this.violations.push(`${read.query} was not answered by its deadline`);
    }
  }

  #state(): Uint8Array {
    const state = new Uint8Array(STATE_BYTES);
    const view = new DataView(state.buffer);
    view.setUint32(8, this.#commit, true);
    view.setUint32(32, this.#salt);
    return state;
  }

  /** A commit by one of our writers, which notes it, or by another process. Returns what it wrote. */
  #change(tables: string[], notes: Note[] | null, schema = false): Seen {
    const before = this.#state();
    this.#exists = true;
    this.#commit++;
    const written: Seen = {};
    for (const table of schema ? [...tables, 'schema'] : tables) written[table] = this.#commit;
    Object.assign(this.#written, written);
    if (schema) this.#shown = this.#shown === 'a' ? 'b' : 'a';
    notes?.push({ before, after: this.#state(), tables: schema ? null : tables });
    return written;
  }

  #anyTable(): Table {
    return this.#random.pick(TABLES);
  }

  #write(): void {
    const tables = this.#random.next() < 0.3 ? [this.#anyTable(), this.#anyTable()] : [this.#anyTable()];
    const schema = this.#random.next() < 0.15;
    // Rolled back: nothing happens, and the note says nothing.
    if (this.#random.next() < 0.1) return;
    this.#answers.push(this.#change([...new Set(tables)], this.#notes.at(-1) ?? null, schema));
  }

  #acknowledge(written: Seen): void {
    for (const [table, commit] of Object.entries(written))
      this.#acknowledged[table] = Math.max(this.#acknowledged[table] ?? 0, commit);
  }

  /** The write's caller has its answer, or an event has reported it. Notes and answers take different ways. */
  #deliverAnswer(): void {
    const at = this.#random.between(0, this.#answers.length - 1);
    for (const written of this.#answers.splice(at, 1)) this.#acknowledge(written);
  }

  #deliverNote(): void {
    const note = this.#random.pick(this.#notes).shift();
    if (note === undefined) return;
    this.#notedState = note.after;
    this.#commits.committed(APP, note.before, note.after, note.tables);
  }

  /** Its notes may still arrive, after those of the next one, or not at all. */
  #writerDies(): void {
    const left = this.#notes.at(-1) ?? [];
    if (this.#random.next() < 0.5) left.length = 0;
    this.#notes = [left, []];
    this.#losses++;
  }

  #threadDies(): void {
    const again = this.#thread.unfinished;
    this.#thread = new Thread(this.#version);
    for (const call of again) this.#dispatch(call);
  }

  #newVersion(): void {
    this.#version = `v${this.#random.between(1, 3)}`;
    // Calls that run in the old thread end there.
    const old = this.#thread;
    this.#thread = new Thread(this.#version);
    for (const work of [...old.works, ...old.outbox]) this.#finish(old, work);
    for (const one of old.inbox) if (one.kind === 'dispatch') this.#dispatch(one.work.call);
    this.#commits.changed(APP);
  }

  #read(): void {
    const client = this.#random.pick(this.#clients);
    const query = this.#random.pick(Object.keys(QUERIES));
    const caller = this.#random.pick(READERS);
    const least = newest(this.#acknowledged, client.seen);
    const request: Request = {
      body: Buffer.alloc(0),
      traceId: () => '',
      source: 'handler',
      caller,
    };
    const target = { app: { id: APP, key: APP }, kind: 'query', tool: { name: query } } as Target;
    const version = this.#version;
    const read: OpenRead = { query, begunAt: this.#time, leave: () => {} };
    this.#open.add(read);
    const sink = {
      answered: (_status: number, body: Uint8Array, timing: CallTiming) => {
        this.#open.delete(read);
        this.reads++;
        if (timing.cache === 'hit') this.hits++;
        this.#check(
          query,
          JSON.parse(Buffer.from(body).toString()) as Answer,
          least,
          client.seen,
          shownOf(caller),
          timing.cache,
          version,
        );
      },
      failed: () => this.#open.delete(read),
      faulted: (error: unknown) => {
        throw error;
      },
    };
    read.leave = this.#submit(target, request, sink);
  }

  /** A caller goes away before it has its answer. */
  #leave(): void {
    if (this.#open.size === 0) return;
    const read = this.#random.pick([...this.#open]);
    this.#open.delete(read);
    read.leave();
  }

  #submit(target: Target, request: Request, sink: Sink): () => void {
    const start: StartRun = (run, reply, arrivedAt, schema) => {
      const call = { query: target.tool.name, request: run, reply, arrivedAt, schema };
      this.#dispatch(call);
      return () => {
        if (!this.#thread.isStarted(call)) this.#thread.drop(call);
      };
    };
    const meter = new Meter();
    if (this.#keeps) return this.#cached.submit(target, this.#version, request, sink, start, meter);
    return this.#cached.bypass(APP, request, sink, start);
  }

  readonly #dispatcher = {
    resolve: (_scope: Scope, _kind: string, query: string) => ({
      app: { id: APP, key: APP },
      kind: 'query',
      tool: { name: query },
    }),
    submit: (target: Target, request: Request, sink: Sink) => {
      this.#liveRuns++;
      return this.#submit(target, request, {
        ...sink,
        answered: (status, body, timing, reads) => {
          this.#liveRuns--;
          const known = this.#fault === 'callers share' && reads ? { ...reads, caller: false } : reads;
          sink.answered(status, body, timing, known);
        },
        failed: (error, timing) => {
          this.#liveRuns--;
          sink.failed(error, timing);
        },
      });
    },
  } as unknown as Dispatcher;

  #dispatch(call: StartedCall): void {
    const { sources } = QUERIES[call.query] as { sources: Source[] };
    const { schema } = call;
    const thread = this.#thread;
    if (schema !== undefined && schema !== thread.told && this.#fault !== 'schema not told') {
      thread.told = schema;
      thread.inbox.push({ kind: 'schemaChanged' });
    }
    const work = { call, sources: [...sources], seen: {}, tables: new Set<string>(), started: false };
    thread.inbox.push({ kind: 'dispatch', work });
  }

  #receive(): void {
    const message = this.#thread.inbox.shift();
    if (message?.kind === 'dispatch') this.#thread.works.push(message.work);
    else if (message !== undefined) this.#thread.known = null;
  }

  /** One statement of one query. */
  #work(): void {
    const { works } = this.#thread;
    const work = works[this.#random.between(0, works.length - 1)];
    if (work === undefined) return;
    this.#statement(this.#thread, work);
    if (work.sources.length > 0) return;
    works.splice(works.indexOf(work), 1);
    this.#thread.outbox.push(work);
  }

  /** Looks up the tables first, then reads: something may happen in between. */
  #statement(thread: Thread, work: Work): void {
    const source = work.sources[0] as Source;
    this.#exists = true;
    if (!work.started) {
      work.started = true;
      if (source === 'view') {
        thread.known ??= this.#shown;
        work.tables.add(thread.known);
      } else work.tables.add(source);
      if (this.#random.next() < 0.5) return;
    }
    work.sources.shift();
    work.started = false;
    if (source === 'view') work.seen.schema = this.#written.schema as number;
    const table = source === 'view' ? this.#shown : source;
    work.seen[table] = this.#written[table] as number;
  }

  #answer(): void {
    const work = this.#thread.outbox.shift();
    if (work !== undefined) this.#finish(this.#thread, work);
  }

  #finish(thread: Thread, work: Work): void {
    while (work.sources.length > 0) this.#statement(thread, work);
    const { query, request, reply, schema } = work.call;
    const { keep, caller } = QUERIES[query] as { keep: boolean; caller: boolean };
    const shown = caller ? shownOf(request.caller) : null;
    const answer: Answer = { seen: work.seen, version: thread.version, caller: shown };
    const tracked = { reads: { tables: work.tables, keep, caller }, version: thread.version };
    const timing = { queueMs: 0, handlerMs: 0, started: true };
    if (!this.#ending && this.#random.next() < this.#troubles) {
      reply.failed(new SvcError('HANDLER_ERROR', 'It failed.'), timing);
      return;
    }
    reply.result(200, Buffer.from(JSON.stringify(answer)), timing, schema === undefined ? null : tracked);
  }

  #check(
    query: string,
    answer: Answer,
    least: Seen,
    before: Seen,
    caller: string,
    cache: string | undefined,
    version: string,
  ): void {
    for (const [table, commit] of Object.entries(answer.seen)) {
      if (commit < (least[table] ?? 0))
        this.violations.push(
          `${query} (${cache}) shows ${table} of commit ${commit}; ${least[table]} was known before it began`,
        );
      before[table] = Math.max(before[table] ?? 0, commit);
    }
    if (answer.caller !== null && answer.caller !== caller)
      this.violations.push(`${query} shows ${caller} what ${answer.caller} asked for`);
    if (cache === 'hit' && answer.version !== version)
      this.violations.push(`${query} of ${version} shows a result of ${answer.version}`);
  }

  /** Everything in progress ends; then each read and each live query shows the current data. */
  async #fence(): Promise<void> {
    this.#ending = true;
    // Lets the supervisor learn of lost writers.
    if (this.#losses > 0) this.#commits.changed(APP);
    // One check finds the write of another process, a second one that no note of it comes.
    for (let look = 0; look < 3; look++) {
      await this.#settle();
      this.#commits.upToDate(APP);
      await this.#settle();
      this.#passTime(LIMITS.liveRetryMaxMs);
    }
    await this.#settle();
    for (const { query } of this.#open) this.violations.push(`${query} was never answered`);
    this.#open.clear();
    this.#acknowledge(this.#written);
    for (let i = 0; i < 20; i++) {
      this.#read();
      await this.#settle();
    }
    this.#subscribers.end(this.#written, (query) =>
      (QUERIES[query]?.sources ?? []).flatMap((source) => (source === 'view' ? ['schema', this.#shown] : [source])),
    );
  }

  async #settle(): Promise<void> {
    await settled();
    for (let turn = 0; turn < 1000 && this.#isBusy; turn++) {
      this.#receive();
      this.#work();
      this.#answer();
      this.#deliverNote();
      this.#deliverAnswer();
      this.#passTime(1);
      await settled();
    }
  }

  get #isBusy(): boolean {
    const { inbox, works, outbox } = this.#thread;
    return inbox.length + works.length + outbox.length + this.#answers.length + this.#notes.flat().length > 0;
  }
}

/** Lets the supervisor finish its current turn of the event loop. */
async function settled(): Promise<void> {
  for (let i = 0; i < 5; i++) await null;
}
