/**
 * Runs the fires of one automation: calls its handler with its `ctx` and checks the result (specification,
 * "Context of a fire").
 */

import type { WebhookRequest } from '../../protocol/automations/webhook-messages.ts';
import { SvcError } from '../../protocol/errors.ts';
import { ToolKind, type ToolKindValue } from '../../protocol/wire/frames.ts';
import type { HandlerCall, Runner } from './calls.ts';
import type { Asks } from './context/asks.ts';
import type { BlobsOfCalls } from './context/context-blobs.ts';
import type { SecretsOfContext } from './context/context-secrets.ts';
import type { Environment } from './context/context-tools.ts';
import { type FetchInput, type FetchWatch, HttpClient } from './context/fetch.ts';
import { type Answer, isPlain, toJsonBytes } from './result.ts';
import { checkOutput } from './validators.ts';

/** A fire's data from the supervisor; without `input` the handler gets undefined. */
type FireRequest = {
  runId: string;
  /** The run's own time, in milliseconds since the epoch. */
  now: number;
  automation: { ref: string; id: string; name: string; version: string };
  input?: unknown;
  /** Only of a webhook. */
  request?: WebhookRequest;
};

// App code could replace them.
const { parse } = JSON;
const { freeze } = Object;

export class FireRunner implements Runner {
  readonly #env: Environment;
  readonly #http: HttpClient;

  constructor(env: Environment) {
    this.#env = env;
    this.#http = new HttpClient(env.spec.egress, env.redactor);
  }

  async run(call: HandlerCall, kind: ToolKindValue, body: Record<string, unknown>): Promise<Answer> {
    const { spec } = this.#env;
    if (kind !== ToolKind.fire || call.tool !== spec.automation) {
      throw new SvcError('HANDLER_ERROR', `This thread runs the automation "${spec.automation}" and nothing else.`);
    }
    const request = body as FireRequest;
    const asks = this.#env.asks.of(call);
    call.origin.runId = request.runId;
    call.followed = true;
    call.onOver((reason) => asks.end(() => reason));
    try {
      return this.#toAnswer(await this.#runHandler(call, request, asks));
    } finally {
      this.#env.asks.end(call);
    }
  }

  /** Automations have no database. */
  schemaChanged(): void {}

  close(): void {}

  async #runHandler(call: HandlerCall, request: FireRequest, asks: Asks): Promise<unknown> {
    const { modules, log, secrets, blobs } = this.#env;
    const { now, input, request: received } = request;
    const handler = await modules.handler(`automations/${call.tool}/handler`);
    call.assertWanted();
    const automation = freeze(request.automation);
    const ctx = contextOf(call, asks, this.#http, secrets.context, blobs, now, input);
    const value = await handler({ ctx, log: log.logger(call.origin, call.id), input, request: received, automation });
    // The run ends after everything that the handler asked for, also where it did not wait.
    do {
      await asks.settled();
      await blobs.finished(call);
      await call.assertWritten();
    } while (asks.open || blobs.isPending(call));
    return value;
  }

  #toAnswer(value: unknown): Answer {
    const { spec, validators } = this.#env;
    const returned = typeof value === 'object' && value !== null && isPlain(value) ? value : {};
    const { summary, output, response } = returned as { summary?: unknown; output?: unknown; response?: unknown };
    const kept = typeof summary === 'string' ? { summary, output, response } : { output, response };
    const body = toJsonBytes(kept, spec.maxResultBytes);
    // The schema checks the stored form, not the handler's value: a date is a string by now.
    const stored = () => (parse(body.toString()) as { output?: unknown }).output;
    checkOutput(validators.automations, spec.automation ?? '', stored);
    return { status: 200, body };
  }
}

function contextOf(
  call: HandlerCall,
  asks: Asks,
  http: HttpClient,
  secrets: SecretsOfContext,
  blobs: BlobsOfCalls,
  now: number,
  input: unknown,
): object {
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
    notify: (notice: unknown) => asks.ask('notify', { notice }),
    input,
    fetch: (target: FetchInput, init?: RequestInit) => http.fetch(call, target, init, watching(asks)),
    secrets,
    get blobs() {
      return blobs.of(call, true);
    },
    get signal() {
      return call.signal;
    },
    get caller() {
      return call.caller;
    },
    user: null,
    now,
  };
}

/** Tells the supervisor of the run's requests; what keeps it from that keeps no request. */
function watching(asks: Asks): FetchWatch {
  return (method, { origin, pathname }) => {
    const begun = asks.ask('fetch', { method, url: origin + pathname });
    begun.catch(() => {});
    return async (end) => {
      const how = 'error' in end ? { error: shownError(end.error) } : end;
      const ordinal = await begun.catch(() => null);
      asks.ask('fetched', { ordinal, ...how }).catch(() => {});
    };
  };
}

function shownError(thrown: unknown): { code?: unknown; message: string } {
  const { code, message } = Object(thrown) as { code?: unknown; message?: unknown };
  return { code, message: typeof message === 'string' ? message : 'It failed.' };
}
