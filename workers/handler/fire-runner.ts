/** Runs the fires of one automation: calls its handler with its `ctx` and checks the result (decisions, section 6). */

import type { WebhookRequest } from '../../protocol/automations/webhook-messages.ts';
import { type ErrorBody, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import {
  type AskVerb,
  type Frame,
  type FrameOf,
  Kind,
  ToolKind,
  type ToolKindValue,
} from '../../protocol/wire/frames.ts';
import type { Call, Runner } from './calls.ts';
import type { ActorBlobs } from './context/blobs.ts';
import { type FetchInput, type FetchWatch, HttpClient } from './context/fetch.ts';
import type { SecretsOfContext } from './context/secrets.ts';
import type { Environment } from './context/tools.ts';
import { AskError } from './failure.ts';
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
const startImmediate = setImmediate;

export class Fires implements Runner {
  readonly #env: Environment;
  readonly #http: HttpClient;
  readonly #asks = new Set<Asks>();

  constructor(env: Environment) {
    this.#env = env;
    this.#http = new HttpClient(env.spec.egress, env.redactor);
  }

  async run(call: Call, kind: ToolKindValue, body: Record<string, unknown>): Promise<Answer> {
    const { spec, send } = this.#env;
    if (kind !== ToolKind.fire || call.tool !== spec.automation) {
      throw new SvcError('HANDLER_ERROR', `This thread runs the automation "${spec.automation}" and nothing else.`);
    }
    const request = body as FireRequest;
    const asks = new Asks(call.id, send);
    this.#asks.add(asks);
    call.origin.runId = request.runId;
    call.followed = true;
    call.onOver((reason) => asks.end(() => reason));
    try {
      return this.#toAnswer(await this.#runHandler(call, request, asks));
    } finally {
      this.#asks.delete(asks);
      asks.end(tooLate);
    }
  }

  /** Ignores an answer that comes after its fire has ended. */
  answered(frame: FrameOf<'answer'>): void {
    for (const asks of this.#asks) asks.answered(frame);
  }

  /** Automations have no database. */
  schemaChanged(): void {}

  close(): void {}

  async #runHandler(call: Call, request: FireRequest, asks: Asks): Promise<unknown> {
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

function tooLate(): SvcError {
  return new SvcError('HANDLER_ERROR', 'The run has ended: its ctx can no longer be used.');
}

function contextOf(
  call: Call,
  asks: Asks,
  http: HttpClient,
  secrets: SecretsOfContext,
  blobs: ActorBlobs,
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
    return (end) => {
      const how = 'error' in end ? { error: shownError(end.error) } : end;
      begun.then((ordinal) => asks.ask('fetched', { ordinal, ...how })).catch(() => {});
    };
  };
}

function shownError(thrown: unknown): { code?: unknown; message: string } {
  const { code, message } = Object(thrown) as { code?: unknown; message?: unknown };
  return { code, message: typeof message === 'string' ? message : 'It failed.' };
}

type Question = {
  verb: AskVerb;
  payload: Uint8Array;
  resolve(frame: FrameOf<'answer'>): void;
  reject(error: unknown): void;
};

/** Numbers are never reused in a thread, so that no answer reaches a later fire. */
let lastAsk = 0;

/**
 * One fire's requests to the supervisor: each is a promise, paired with its answer by a number. A limited number is under way
 * at a time; the others wait here in order.
 */
class Asks {
  readonly #callId: number;
  readonly #send: (frame: Frame) => void;
  readonly #waiting = new Set<Question>();
  readonly #asked = new Map<number, Question>();
  #refusal: (() => unknown) | null = null;
  #whenSettled: (() => void) | null = null;

  constructor(callId: number, send: (frame: Frame) => void) {
    this.#callId = callId;
    this.#send = send;
  }

  /**
   * Resolves with the answer. Rejects with an `AskError`, also for arguments that are not valid JSON or take more than
   * `LIMITS.askBytes` (`INVALID_INPUT`); after `end`, with its reason.
   */
  async ask(verb: AskVerb, args: Record<string, unknown>): Promise<unknown> {
    if (this.#refusal !== null) throw this.#refusal();
    const payload = encode(verb, args);
    const [, , ok, body] = await new Promise<FrameOf<'answer'>>((resolve, reject) => {
      this.#waiting.add({ verb, payload, resolve, reject });
      this.#next();
    });
    const value: unknown = body.length === 0 ? undefined : parse(asBuffer(body).toString());
    // Made here, so that its stack shows where the handler waited for it.
    if (!ok) throw new AskError(value as ErrorBody);
    return value;
  }

  answered(frame: FrameOf<'answer'>): void {
    const question = this.#asked.get(frame[1]);
    if (question === undefined) return;
    this.#asked.delete(frame[1]);
    question.resolve(frame);
    this.#next();
    if (this.#asked.size === 0) this.#whenSettled?.();
  }

  /** A question is not answered yet. */
  get open(): boolean {
    return this.#asked.size > 0;
  }

  /** Resolves when all requests are answered, also those that follow from the answers. */
  async settled(): Promise<void> {
    while (this.#asked.size > 0) {
      await new Promise<void>((resolve) => {
        this.#whenSettled = resolve;
      });
      // The handler may use the last answer to ask again.
      await new Promise<void>((resolve) => startImmediate(resolve));
    }
  }

  /** Rejects waiting and later requests, each with a new `reason`. */
  end(reason: () => unknown): void {
    if (this.#refusal !== null) return;
    this.#refusal = reason;
    // Most fires ask nothing.
    if (this.#asked.size === 0 && this.#waiting.size === 0) return;
    for (const question of [...this.#asked.values(), ...this.#waiting]) question.reject(reason());
    this.#asked.clear();
    this.#waiting.clear();
    this.#whenSettled?.();
  }

  #next(): void {
    for (const question of this.#waiting) {
      if (this.#asked.size >= LIMITS.runNodesAtOnce) return;
      this.#waiting.delete(question);
      const askId = ++lastAsk;
      this.#asked.set(askId, question);
      this.#send([Kind.ask, askId, this.#callId, question.verb, question.payload]);
    }
  }
}

function encode(verb: AskVerb, args: Record<string, unknown>): Uint8Array {
  try {
    return toJsonBytes(args, LIMITS.askBytes, { name: `What ctx.${verb} was given`, advice: '' });
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    throw new AskError({ code: 'INVALID_INPUT', message: error.message });
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
