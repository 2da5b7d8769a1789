/** For tests: a ledger that records and fails as told, actors whose handlers the test scripts, and automations. */
import type { Logger } from 'pino';
import type { AutomationManifest } from '../protocol/automations/automation.ts';
import type { RunEvent, RunNode, RunRecord, RunTrigger } from '../protocol/automations/runs.ts';
import { SvcError } from '../protocol/errors.ts';
import { Redactor } from '../protocol/text/redactor.ts';
import type { AskVerb } from '../protocol/wire/frames.ts';
import type { RunFilter } from '../storage/automations/run-rows.ts';
import type { LiveAutomation } from '../supervisor/automations/catalog.ts';
import type { Fire } from '../supervisor/automations/fires/fire.ts';
import type { FireRequest } from '../supervisor/automations/fires/fire-values.ts';
import { Fires, type FiresOptions, type StartedRun } from '../supervisor/automations/fires/fires.ts';
import { RunEngine } from '../supervisor/runs/engine.ts';
import type { Call } from '../supervisor/tree/actor/call.ts';

type AutomationName = { app: string; id: string };

/** Runs everything that is ready. */
export const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export function automation(ref: string, more: Partial<AutomationManifest> = {}): LiveAutomation {
  const [app, id] = ref.split('/') as [string, string];
  const manifest: AutomationManifest = {
    name: `Name of ${id}`,
    version: '0.1.0',
    prompt: 'test',
    enabled: true,
    triggers: [],
    requires: {},
    history: { keep: { count: 100 } },
    generated: { by: 'hand', at: '2026-11-21T00:00:00Z' },
    ...more,
  };
  return { ref, app, id, versionId: 'v_1', manifest };
}

export const DISK_FULL = new SvcError('STORAGE_FULL', 'The disk is full.');

/** Keeps its records in memory; each operation can be delayed, or made to fail. */
export class RecordingLedger {
  readonly rows = new Map<string, RunRecord>();
  readonly nodes: RunNode[] = [];
  /** Operations in the order in which they were durable: `insert`, `started`, `node`, `end`, `skip`. */
  readonly done: string[] = [];
  readonly values = new Map<string, unknown>();
  /** Errors of the next operations of this name. */
  readonly faults: Record<'insert' | 'end' | 'skip', Error[]> = { insert: [], end: [], skip: [] };
  /** While set, operations of this name wait for it. */
  held: { name: 'insert' | 'end'; until: Promise<void> } | null = null;
  extra: unknown[] = [];

  async insert(run: RunRecord, extra: unknown[] = []): Promise<void> {
    await this.#commit('insert');
    this.extra.push(...extra);
    this.rows.set(run.runId, run);
  }

  async skip(run: RunRecord): Promise<void> {
    await this.#commit('skip');
    this.rows.set(run.runId, run);
  }

  started({ runId }: RunRecord, startedAt: number): void {
    this.done.push('started');
    this.rows.set(runId, { ...(this.rows.get(runId) as RunRecord), state: 'running', startedAt });
  }

  node(_app: string, node: RunNode): void {
    this.done.push('node');
    this.nodes.push(node);
  }

  async end(run: RunRecord, _keep: unknown, { model = null }: { model?: string | null } = {}): Promise<void> {
    await this.#commit('end');
    this.models.push(model);
    this.rows.set(run.runId, run);
  }

  async get(runId: string): Promise<RunRecord | null> {
    return this.rows.get(runId) ?? null;
  }

  readonly models: (string | null)[] = [];

  async list({ ref, state }: RunFilter, limit: number): Promise<RunRecord[]> {
    const all = [...this.rows.values()].filter(
      (run) => run.ref === `${ref?.app}/${ref?.id}` && (!state || run.state === state),
    );
    return all.sort((a, b) => (a.runId < b.runId ? 1 : -1)).slice(0, limit);
  }

  async getState({ app, id }: AutomationName, key: unknown): Promise<unknown> {
    return this.values.get(`${app}/${id} ${key}`);
  }

  async setState({ app, id }: AutomationName, key: unknown, value: unknown): Promise<void> {
    this.values.set(`${app}/${id} ${key}`, value);
  }

  async deleteState({ app, id }: AutomationName, key: unknown): Promise<void> {
    this.values.delete(`${app}/${id} ${key}`);
  }

  /** The states of all runs of an automation, in the order of the requests. */
  states(ref: string): string[] {
    const runs = [...this.rows.values()].filter((run) => run.ref === ref);
    return runs.sort((a, b) => (a.runId < b.runId ? -1 : 1)).map((run) => run.state);
  }

  async #commit(name: 'insert' | 'end' | 'skip'): Promise<void> {
    await null;
    if (this.held?.name === name) await this.held.until;
    const fault = this.faults[name].shift();
    if (fault) throw fault;
    this.done.push(name);
  }
}

/** One call of a handler. */
export class ScriptedCall {
  readonly call: Call;
  cancelled = false;

  constructor(call: Call) {
    this.call = call;
  }

  get body(): Record<string, unknown> {
    return JSON.parse(Buffer.from(this.call.request.body).toString()) as Record<string, unknown>;
  }

  returns(result: object = {}): void {
    this.call.succeed(200, Buffer.from(JSON.stringify(result)), 1);
  }

  throws(message = 'no good'): void {
    this.call.fail(new SvcError('HANDLER_ERROR', message), 1);
  }

  /** Asks as the thread would; resolves with the answer, rejects with the error's body. */
  ask(verb: AskVerb, args: object): Promise<unknown> {
    return new Promise((resolve, reject) => {
      (this.call.reply as Fire).asked(verb, Buffer.from(JSON.stringify(args)), (ok, body) => {
        const value = body.length === 0 ? undefined : (JSON.parse(Buffer.from(body).toString()) as unknown);
        if (ok) resolve(value);
        else reject(value as Error);
      });
    });
  }
}

const QUIET = { warn: () => {}, error: () => {}, info: () => {}, debug: () => {} } as unknown as Logger;

const NO_SECRETS = { get: () => undefined, redactor: () => new Redactor() };

/** Fires on scripted parts. */
export class RunsWorld {
  readonly ledger = new RecordingLedger();
  readonly events: RunEvent[] = [];
  readonly catalog = new Map<string, LiveAutomation>();
  /** Every call of an actor, in order. */
  readonly calls: ScriptedCall[] = [];
  /** Warnings and errors in the log. */
  readonly logged: string[] = [];
  readonly appLog: string[] = [];
  readonly engine: RunEngine;
  readonly fires: Fires;
  now = 1_700_000_000_000;

  constructor(more: Partial<FiresOptions> = {}) {
    const say = (_fields: object, message: string) => this.logged.push(message);
    const log = { ...QUIET, warn: say, error: say } as unknown as Logger;
    const now = () => this.now++;
    const events = { publish: (event: RunEvent) => void this.events.push(event) };
    this.engine = new RunEngine({ ledger: this.ledger, events, log, now, pause: async () => {} });
    this.fires = new Fires({
      checkOutput: async () => {},
      catalog: this.catalog,
      engine: this.engine,
      ledger: this.ledger,
      events,
      secrets: NO_SECRETS,
      tools: { call: async (_caller, _name, args) => ({ json: Buffer.from(JSON.stringify(args ?? null)), ok: true }) },
      actorOf: () => ({
        submit: (call) => this.calls.push(new ScriptedCall(call)),
        cancel: (call) => {
          for (const scripted of this.calls) if (scripted.call === call && !call.settled) scripted.cancelled = true;
        },
      }),
      runner: () => {
        throw new SvcError('NO_RUNNER', 'There is no agent on this gateway.');
      },
      notify: async () => ({ channels: 0 }),
      factory: null,
      handlerOf: ({ app, id }) => `/code/${app}/automations/${id}/handler.js`,
      tracing: null,
      baseUrl: () => null,
      appLog: (_app, line) => this.appLog.push(line),
      automationTimeoutMs: 60_000,
      log,
      now,
      ...more,
    });
  }

  add(ref: string, more: Partial<AutomationManifest> = {}): LiveAutomation {
    const added = automation(ref, more);
    this.catalog.set(ref, added);
    return added;
  }

  start(ref: string, kind: RunTrigger['kind'] = 'manual', more: Partial<FireRequest> = {}): Promise<StartedRun> {
    const live = this.catalog.get(ref) as LiveAutomation;
    return this.fires.start({ automation: live, trigger: { kind, origin: null }, at: 5, input: undefined, ...more });
  }

  /** Starts a run and waits until its handler is called. */
  async startCalled(ref: string, more: Partial<FireRequest> = {}): Promise<StartedRun & { handler: ScriptedCall }> {
    const before = this.calls.length;
    const started = await this.start(ref, 'manual', more);
    await settle();
    return { ...started, handler: this.calls[before] as ScriptedCall };
  }

  types(runId: string): string[] {
    const of = (event: RunEvent) =>
      'runId' in event ? event.runId : 'run' in event ? event.run.runId : event.node.runId;
    return this.events.filter((event) => of(event) === runId).map((event) => event.type);
  }
}
