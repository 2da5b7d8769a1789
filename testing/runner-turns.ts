/** Turns of one kind of runner in this process: its own programs, a stub for its model, a real gateway for its tools. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ProbeOrder, ProbeResult, RunnerEvent, RunnerSpec, TurnOrder } from '../protocol/agents/agents.ts';
import { TurnContract } from '../supervisor/agents/turns/turn-contract.ts';
import { Agents } from '../workers/agents/agents.ts';
import type { Runner } from '../workers/agents/runner.ts';
import { type ModelStub, startModelStub } from './model-stub.ts';
import { inTime, LONG_MS } from './waiting.ts';

type Context = { after(cleanup: () => Promise<void> | void): void };

/** A running or ended turn. `done` resolves with all of its events. */
export type RunningTurn = {
  events: RunnerEvent[];
  done: Promise<RunnerEvent[]>;
  /** The next event of a type, or the first one that came already. */
  event<T extends RunnerEvent['type']>(type: T): Promise<Extract<RunnerEvent, { type: T }>>;
  cancel(): void;
  answer(requestId: string, optionId: string | null): void;
};

/** Another conversation than the usual one: a turn of it has a program of its own. */
export function conversation(name: string): TurnWish {
  return { conversation: `svc-chat:todos:w${name}` };
}

/** The members that differ between turns; the rest is the same for all. */
export type TurnWish = Partial<Omit<TurnOrder, 'runner'>> & { spec?: Partial<RunnerSpec> };

/** The surroundings of a runner in a test: a stub of its model, and a folder for its home and similar files. */
export type RunnerPlace = { stub: ModelStub; folder: string };

export class RunnerTurns {
  readonly stub: ModelStub;
  readonly folder: string;
  /** Leaders of process groups that its runners started and that still exist. */
  readonly pids = new Set<number>();
  readonly log: string[] = [];
  readonly #spec: RunnerSpec;
  readonly gateway: TurnOrder['gateway'];
  readonly #runner: Runner;
  readonly #running = new Set<RunningTurn>();
  #agents: Agents;
  #turns = 0;

  constructor(place: RunnerPlace, runner: Runner, spec: RunnerSpec, gateway: TurnOrder['gateway']) {
    this.stub = place.stub;
    this.folder = place.folder;
    this.#spec = spec;
    this.gateway = gateway;
    this.#runner = runner;
    this.#agents = this.#newAgents();
  }

  /** Begins a turn of the conversation `svc-chat:todos:wone`, in mode `data`, whose message is a script of the stub. */
  start(message: string, { spec, ...wish }: TurnWish = {}): RunningTurn {
    const id = ++this.#turns;
    const folder = join(this.folder, 'conversation');
    mkdirSync(folder, { recursive: true });
    const order: TurnOrder = {
      turnId: `turn-${id}`,
      conversation: 'svc-chat:todos:wone',
      runner: { ...this.#spec, ...spec },
      mode: 'data',
      app: 'todos',
      folder,
      instructions: 'You help with a list of todos.',
      message,
      attachments: [],
      model: null,
      thinking: null,
      resume: null,
      history: [],
      gateway: this.gateway,
      permission: 'ask',
      ...wish,
    };
    const events: RunnerEvent[] = [];
    // As the supervisor does.
    const contract = new TurnContract();
    let isCancelled = false;
    const waiting = new Set<() => void>();
    const wake = () => {
      for (const look of waiting) look();
    };
    const ended = this.#agents
      .turn(id, order, (event, bytes) => {
        const isKept = event.type === 'session' || event.type === 'error';
        events.push(...((isKept ? [event] : contract.take(event)) as RunnerEvent[]));
        this.#agents.taken(id, bytes);
        wake();
      })
      .then(() => {
        const failed = events.at(-1)?.type === 'error';
        const rest = contract.rest(failed ? 'error' : isCancelled ? 'aborted' : 'ok') as RunnerEvent[];
        events.splice(events.length - (failed ? 1 : 0), 0, ...rest);
        checkContract(events);
        return events;
      });
    const turn: RunningTurn = {
      events,
      done: inTime(ended, `the end of the turn ${JSON.stringify(message)}`, LONG_MS),
      event: <T extends RunnerEvent['type']>(type: T) => {
        type Wanted = Extract<RunnerEvent, { type: T }>;
        const found = new Promise<Wanted>((resolve, reject) => {
          const look = (): void => {
            const event = events.find((one): one is Wanted => one.type === type);
            if (!event) return;
            waiting.delete(look);
            resolve(event);
          };
          waiting.add(look);
          ended.then(() => reject(new Error(`The turn ended without ${type}: ${JSON.stringify(events)}`)), reject);
          look();
        });
        return inTime(found, `an event ${type}`, LONG_MS);
      },
      cancel: () => {
        isCancelled = true;
        this.#agents.cancel(id);
      },
      answer: (requestId, optionId) => this.#agents.answer(id, requestId, optionId),
    };
    this.#running.add(turn);
    const over = () => void this.#running.delete(turn);
    ended.then(over, over);
    return turn;
  }

  /** Cancels the turns that a test left running, so that the next one does not wait for them. */
  async cancelRest(): Promise<void> {
    for (const turn of this.#running) turn.cancel();
    await Promise.allSettled([...this.#running].map(({ done }) => done));
  }

  /** A turn from its beginning to its end. */
  async run(message: string, wish: TurnWish = {}): Promise<RunnerEvent[]> {
    return await this.start(message, wish).done;
  }

  probe(want: ProbeOrder['want'], spec: Partial<RunnerSpec> = {}): Promise<ProbeResult> {
    const order = { runner: { ...this.#spec, ...spec }, want, folder: this.folder };
    return inTime(this.#agents.probe(++this.#turns, order), `what ${want} there are`, LONG_MS);
  }

  /** Ends every program; later turns start new ones. */
  async restart(): Promise<void> {
    await this.#agents.end();
    this.#agents = this.#newAgents();
  }

  async end(): Promise<void> {
    await this.#agents.end();
  }

  #newAgents(): Agents {
    return new Agents({
      tag: `test-${process.pid}-${this.#turns}`,
      maxAgents: 8,
      idleMs: 600_000,
      runnerOf: async () => this.#runner,
      onProcess: (pid, alive) => (alive ? this.pids.add(pid) : this.pids.delete(pid)),
      log: (level, message) => this.log.push(`${level} ${message}`),
    });
  }
}

/**
 * A stub and a folder for a test, or a suite. Agents distrust homes below the folder for temporary files, so they get
 * another one.
 */
export async function makePlace(t: Context): Promise<RunnerPlace> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-runner-'));
  mkdirSync(join(folder, 'tmp'));
  const stub = await startModelStub();
  t.after(async () => {
    await stub.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  });
  return { stub, folder };
}

/** Rules for every turn (`RunnerEvent`). */
export function checkContract(events: RunnerEvent[]): void {
  const open = new Set<string>();
  const seen = new Set<string>();
  const said = JSON.stringify(events);
  for (const [i, event] of events.entries()) {
    if (event.type === 'session')
      assert.equal(
        i,
        events.findIndex(({ type }) => type !== 'phase'),
        said,
      );
    if (event.type === 'final' || event.type === 'error')
      assert.equal(i, events.length - 1, `Something follows: ${said}`);
    if (event.type === 'tool.start') {
      assert.ok(!seen.has(event.toolCallId), said);
      open.add(event.toolCallId);
      seen.add(event.toolCallId);
    }
    if (event.type === 'tool.result') assert.ok(open.delete(event.toolCallId), said);
  }
  assert.deepEqual([...open], [], 'tools without a result');
}

export function eventsOf<T extends RunnerEvent['type']>(
  events: RunnerEvent[],
  type: T,
): Extract<RunnerEvent, { type: T }>[] {
  return events.filter((event): event is Extract<RunnerEvent, { type: T }> => event.type === type);
}

/** All deltas put together. */
export function textOf(events: RunnerEvent[]): string {
  return eventsOf(events, 'assistant.delta')
    .map(({ delta }) => delta)
    .join('');
}

/** The text of `final`; fails with the other end of the turn. */
export function finalOf(events: RunnerEvent[]): string {
  const last = events.at(-1);
  assert.equal(last?.type, 'final', JSON.stringify(events));
  return (last as Extract<RunnerEvent, { type: 'final' }>).text;
}
