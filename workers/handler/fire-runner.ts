/** Runs the fires of one automation: its handler with its own `ctx`, and what the handler returns (decisions, section 6). */
import { SvcError } from '../../protocol/errors.ts';
import { type ActorSpec, type AnswerFrame, type Frame, ToolKind, type ToolKindValue } from '../../protocol/frames.ts';
import { Asks } from './ask-client.ts';
import type { Call } from './call.ts';
import type { Runner } from './calls.ts';
import { boundFetch } from './context.ts';
import { HttpClient } from './http-client.ts';
import type { AppLog } from './log.ts';
import type { Modules } from './modules.ts';
import { parseRequest } from './request.ts';
import { type Answer, isPlain, toJsonBytes } from './result.ts';
import { checkOutput, type Validators } from './validators.ts';

export type FiresOptions = {
  spec: ActorSpec;
  modules: Modules;
  validators: Validators;
  log: AppLog;
  /** To the supervisor. Throws when the frame is too large. */
  send(frame: Frame): void;
};

/** What the supervisor says of a fire; without `input` the handler gets undefined. */
type FireRequest = {
  runId: string;
  /** The run's own time, in milliseconds since the epoch. */
  now: number;
  automation: { ref: string; id: string; name: string; version: string };
  input?: unknown;
};

// App code could put its own in its place.
const { parse } = JSON;
const { freeze } = Object;

export class Fires implements Runner {
  readonly #options: FiresOptions;
  readonly #http: HttpClient;
  readonly #asks = new Map<number, Asks>();
  readonly #runIds = new WeakMap<Call, string>();

  constructor(options: FiresOptions) {
    this.#options = options;
    this.#http = new HttpClient(options.spec.egress);
  }

  async run(id: number, call: Call, kind: ToolKindValue, body: Uint8Array): Promise<Answer> {
    const { spec, send } = this.#options;
    if (kind !== ToolKind.fire || call.tool !== spec.automation) {
      throw new SvcError('HANDLER_ERROR', `This thread runs the automation "${spec.automation}" and nothing else.`);
    }
    const request = parseRequest(body) as FireRequest;
    const asks = new Asks(id, send);
    this.#asks.set(id, asks);
    this.#runIds.set(call, request.runId);
    call.onOver((reason) => asks.end(() => reason));
    try {
      return this.#toAnswer(await this.#runHandler(id, call, request, asks));
    } finally {
      this.#asks.delete(id);
      asks.end(tooLate);
    }
  }

  /** The supervisor's answer to something that a fire asked; one that comes too late is not missed. */
  answered(frame: AnswerFrame): void {
    for (const asks of this.#asks.values()) asks.answered(frame);
  }

  report(id: number, call: Call, message: string, fields: Record<string, unknown>): void {
    const { tool, traceId } = call;
    const runId = this.#runIds.get(call);
    const origin = { tool, traceId, ...(runId === undefined ? {} : { runId }) };
    this.#options.log.report('error', message, fields, origin, id);
  }

  async #runHandler(id: number, call: Call, request: FireRequest, asks: Asks): Promise<unknown> {
    const { modules, log } = this.#options;
    const { tool, traceId } = call;
    const { runId, now, input } = request;
    const handler = await modules.handler(`automations/${tool}/handler.js`);
    call.assertWanted();
    const automation = freeze(request.automation);
    const ctx = contextOf(call, asks, this.#http, now, input);
    const value = await handler({ ctx, log: log.logger({ tool, traceId, runId }, id), input, automation });
    // The run is not over before what the handler asked for is done, also where it did not wait for it.
    if (asks.open) await asks.settled();
    return value;
  }

  #toAnswer(value: unknown): Answer {
    const { spec, validators } = this.#options;
    const returned = typeof value === 'object' && value !== null && isPlain(value) ? value : {};
    const { summary, output } = returned as { summary?: unknown; output?: unknown };
    const body = toJsonBytes(typeof summary === 'string' ? { summary, output } : { output }, spec.maxResultBytes);
    // The schema judges what is stored, not what the handler held: a date is a text by now.
    const stored = () => (parse(body.toString()) as { output?: unknown }).output;
    checkOutput(validators.automations, spec.automation ?? '', stored);
    return { status: 200, body };
  }
}

function tooLate(): SvcError {
  return new SvcError('HANDLER_ERROR', 'The run has ended: its ctx can no longer be used.');
}

function contextOf(call: Call, asks: Asks, http: HttpClient, now: number, input: unknown): object {
  return {
    tool: (name: unknown, args: unknown) => asks.ask('tool', { name, args }),
    agent: (request?: { prompt?: unknown; json?: unknown } | null) =>
      asks.ask('agent', { prompt: request?.prompt, json: request?.json }),
    state: {
      get: (key: unknown) => asks.ask('state.get', { key }),
      set: (key: unknown, value: unknown) => asks.ask('state.set', { key, value }),
      delete: (key: unknown) => asks.ask('state.delete', { key }),
    },
    runs: {
      last: (filter: unknown) => asks.ask('runs.last', { filter }),
      list: (filter: unknown) => asks.ask('runs.list', { filter }),
    },
    input,
    fetch: (target: string | URL | Request, init?: RequestInit) => boundFetch(call, http, target, init),
    get signal() {
      return call.signal;
    },
    now,
  };
}
