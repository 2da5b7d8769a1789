/** An app under test: calls its tools, fires its automations, sends its webhooks, and moves its clock. */
import { randomBytes } from 'node:crypto';
import { createServer, request as httpRequest, type Server } from 'node:http';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { automationRef, provisionedWebhook, WEBHOOK_ROUTE_PREFIX } from '../../protocol/automations/automation.ts';
import type { RunRecord } from '../../protocol/automations/runs.ts';
import type { ErrorBody } from '../../protocol/errors.ts';
import type { LogEntry } from '../../storage/logs/log-pages.ts';
import { handleNodeRequest } from '../../supervisor/edge/node.ts';
import type { SentNotice } from '../../supervisor/simulation.ts';
import type { Assembly } from '../../supervisor/wiring.ts';
import { AppError, withStackOf } from './app-error.ts';
import { durationOf, type TestClock, timeOf } from './clock.ts';
import type { FetchStub, Outside } from './outside.ts';
import type { Prepared } from './parts.ts';
import { join as joinAs, type TestPerson } from './person.ts';
import { signatureHeaders } from './sign.ts';

export type RequestOptions = { headers?: Record<string, string>; body?: unknown };
export type WebhookAnswer = { status: number; headers: Headers; body: unknown };

/** The Host header of a program on this machine; nothing listens there. */
const HOST = '127.0.0.1:8787';
/** Number of runs that `runs` returns. */
const LISTED_RUNS = 100;

export class TestApp {
  /** The id in `app.json`. */
  readonly id: string;
  /** What the app has logged, oldest first. */
  readonly logs: LogEntry[] = [];
  /** What it has sent with `ctx.notify`, oldest first. */
  readonly notices: readonly SentNotice[];
  readonly clock: {
    /** Milliseconds since the epoch. */
    readonly now: number;
    /** Lets time pass, such as `'1h 30m'`; resolves when everything that was due has run, each at its time. */
    advance(duration: number | string): Promise<void>;
    /** The same up to a time. Rejects with `RangeError` for one in the past. */
    advanceTo(time: number | string | Date): Promise<void>;
  };
  readonly secrets: {
    set(name: string, value: string): Promise<void>;
    delete(name: string): Promise<void>;
  };
  readonly #parts: Assembly;
  readonly #prepared: Prepared;
  readonly #clock: TestClock;
  readonly #outside: Outside;
  readonly #socket: string;
  readonly #server: Server;

  /** `folder` is for its socket. */
  constructor(parts: Assembly, prepared: Prepared, clock: TestClock, outside: Outside, folder: string) {
    this.id = prepared.app;
    this.#parts = parts;
    this.#prepared = prepared;
    this.#clock = clock;
    this.#outside = outside;
    this.notices = outside.notices;
    this.#socket = join(folder, 'app');
    const options = {
      handler: parts.pipeline.handle,
      onFault: (error: unknown) => process.emitWarning(error as Error),
    };
    this.#server = createServer((req, res) => handleNodeRequest(req, res, options)).listen(this.#socket);
    parts.services.logs.follow(this.id, (_app, line) => this.logs.push(JSON.parse(line) as LogEntry));
    this.clock = {
      get now() {
        return clock.now();
      },
      advance: async (duration) => this.#advanceTo(clock.now() + durationOf(duration)),
      advanceTo: async (time) => this.#advanceTo(timeOf(time)),
    };
    const secret = (method: string, name: string, body?: object) => this.#expect(method, `secrets/${name}`, body);
    this.secrets = {
      set: async (name, value) => void (await secret('PUT', name, { value })),
      delete: async (name) => void (await secret('DELETE', name)),
    };
  }

  /** Runs a query; resolves with what its handler returned. Rejects with `AppError`. */
  async query(name: string, input: unknown = {}): Promise<unknown> {
    return await this.#tool('svc_read', { query: name, input }, stackHere());
  }

  /** Runs an action; resolves with its body. Rejects with `AppError`, also when the action answers with a status of 400 and above. */
  async action(name: string, input: unknown = {}): Promise<unknown> {
    return await this.#action(name, input, stackHere());
  }

  async #action(name: string, input: unknown, caller: string, as?: Record<string, string>): Promise<unknown> {
    const answer = await this.#tool('svc_write', { action: name, input }, caller, as);
    const { status, body } = answer as { status: number; body: unknown };
    if (status < 400) return body;
    const fallback = { code: 'ACTION_FAILED', message: `The action ${name} answered with status ${status}.` };
    throw withStackOf(new AppError(status, { ...fallback, ...errorMembers(body) }, body), undefined, '', caller);
  }

  /**
   * Makes an account with this name, which has the app in a role: `viewer`, `editor`, `manager`, or one of its manifest. Resolves with
   * the person, whose calls are as those of the app.
   */
  async person(name: string, { role = 'editor' }: { role?: string } = {}): Promise<TestPerson> {
    const { id, headers } = await joinAs(this, name, role);
    return {
      id,
      name,
      query: (query, input = {}) => this.#tool('svc_read', { query, input }, stackHere(), headers),
      action: (action, input = {}) => this.#action(action, input, stackHere(), headers),
    };
  }

  /** Runs one SQL statement: rows as objects, or how many rows it changed. */
  async sql(sql: string, params?: unknown): Promise<unknown> {
    const answer = await this.#expect('POST', 'sql', { sql, params });
    const { columns, rows } = answer as { columns?: string[]; rows?: unknown[][] };
    return rows?.map((row) => Object.fromEntries(row.map((value, at) => [columns?.[at] ?? '', value]))) ?? answer;
  }

  /**
   * Fires an automation; resolves with its run when it and the runs that it led to have ended. Rejects with `AppError`
   * when it fails.
   */
  async run(automation: string, input?: unknown): Promise<RunRecord> {
    const caller = stackHere();
    const path = `/svc/_automations/${this.id}/${automation}/run?wait=1`;
    const { status, value } = await this.#json('POST', path, { body: { input } });
    await this.#settled();
    if (status >= 400) throw this.#failure(status, value, caller);
    return value as RunRecord;
  }

  /** The latest runs, newest first: of one automation, or of all. */
  async runs(automation?: string): Promise<RunRecord[]> {
    const which = automation === undefined ? `app=${this.id}` : `ref=${automationRef(this.id, automation)}`;
    return (await this.#expect('GET', `/svc/_runs?limit=${LISTED_RUNS}&${which}`)) as RunRecord[];
  }

  /**
   * Posts to the webhook of an automation, signed as its sender would; `headers` override the generated ones. Resolves
   * with the answer when the run has ended. Rejects with `AppError` for a status of 400 and above.
   */
  async webhook(automation: string, body?: unknown, options: RequestOptions = {}): Promise<WebhookAnswer> {
    const caller = stackHere();
    const ref = automationRef(this.id, automation);
    const live = this.#parts.services.automations.catalog.get(ref);
    const trigger = live && provisionedWebhook(live.manifest);
    if (!trigger) throw new TypeError(`There is no automation "${automation}" with a webhook.`);
    const bytes = bytesOf(body);
    const verify = 'verify' in trigger ? trigger.verify : trigger.signing ? 'standard' : 'bearer';
    const secret = 'verify' in trigger ? this.#secret(trigger.secret) : this.#prepared.minted[automation];
    const { status, headers, value } = await this.#json('POST', WEBHOOK_ROUTE_PREFIX + trigger.id, {
      body: bytes,
      headers: {
        ...(typeof body === 'object' && !Buffer.isBuffer(body) && { 'content-type': 'application/json' }),
        ...signatureHeaders(verify, secret ?? '', bytes, this.#clock.now()),
        ...lowerCase(options.headers),
      },
    });
    await this.#settled();
    if (status >= 400) throw this.#failure(status, value, caller);
    return { status, headers, body: value };
  }

  /** From now on `stub` answers what handlers fetch; until then, no host can be reached. */
  onFetch(stub: FetchStub): void {
    this.#outside.stub = stub;
  }

  /** Restarts the app's code, as after a crash: module state is lost, data stays. */
  async restart(): Promise<void> {
    await this.#expect('POST', 'restart', {});
  }

  /** Any request to the gateway, with its access token; an empty header is left out, such as `authorization`. */
  async request(method: string, path: string, { headers = {}, body }: RequestOptions = {}): Promise<Response> {
    const bytes = bytesOf(body);
    const all: Record<string, string> = {
      host: HOST,
      authorization: `Bearer ${this.#parts.services.access?.token}`,
      ...(body !== undefined && { 'content-length': `${bytes.length}` }),
      ...lowerCase(headers),
    };
    const sent = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ''));
    const answer = httpRequest({ socketPath: this.#socket, method, path, headers: sent });
    return await new Promise((resolve, reject) => {
      answer.on('error', reject);
      answer.on('response', (res) => {
        buffer(res).then((content) => {
          const { statusCode: status = 0, rawHeaders } = res;
          const pairs = rawHeaders.flatMap((name, at): [string, string][] =>
            at % 2 === 0 ? [[name, rawHeaders[at + 1] ?? '']] : [],
          );
          resolve(new Response(content.length === 0 ? null : content, { status, headers: pairs }));
        }, reject);
      });
      answer.end(bytes);
    });
  }

  /** @internal At the end of the test. */
  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
    this.#outside.close();
  }

  /** `as` are the headers of a person's calls. */
  async #tool(tool: string, body: object, caller: string, as: Record<string, string> = {}): Promise<unknown> {
    const traceId = randomBytes(16).toString('hex');
    const { status, value } = await this.#json('POST', `/svc/_tool/${tool}`, {
      headers: { ...as, traceparent: `00-${traceId}-${randomBytes(8).toString('hex')}-01` },
      body: { app: this.id, ...body },
    });
    const { isError, data } = value as { isError: boolean; data: unknown };
    if (isError) throw this.#failure(status, value, caller, traceId);
    return data;
  }

  /** A request that must succeed; a path without `/` is relative to the app. */
  async #expect(method: string, path: string, body?: object): Promise<unknown> {
    const caller = stackHere();
    const whole = path.startsWith('/') ? path : `/svc/_apps/${this.id}/${path}`;
    const { status, value } = await this.#json(method, whole, body === undefined ? {} : { body });
    if (status >= 400) throw this.#failure(status, value, caller);
    return value;
  }

  async #json(
    method: string,
    path: string,
    options: RequestOptions,
  ): Promise<{ status: number; headers: Headers; value: unknown }> {
    const response = await this.request(method, path, options);
    const text = await response.text();
    const { status, headers } = response;
    return { status, headers, value: isJson(headers) ? (JSON.parse(text) as unknown) : text };
  }

  /** Finds the handler's error in the log, by the trace of the call or the run that the answer names. */
  #failure(status: number, answer: unknown, caller: string, traceId?: string): AppError {
    const { error, runId } = (answer ?? {}) as { error?: ErrorBody; runId?: string };
    if (error === undefined) {
      const fallback = { code: 'WEBHOOK_FAILED', message: `The webhook answered with status ${status}.` };
      return withStackOf(new AppError(status, { ...fallback, ...errorMembers(answer) }, answer), undefined, '', caller);
    }
    const entry = this.logs.find(
      (one) => one.err !== undefined && (runId === undefined ? one.traceId === traceId : one.runId === runId),
    );
    return withStackOf(new AppError(status, error), entry, this.#prepared.folder, caller);
  }

  #secret(name: string): string {
    const value = this.#parts.services.secrets.get(this.id, name);
    if (value === undefined) throw new TypeError(`Set its secret first: await app.secrets.set('${name}', '…')`);
    return value;
  }

  async #advanceTo(end: number): Promise<void> {
    const { catalog, scheduler } = this.#parts.services.automations;
    if (end < this.#clock.now()) throw new RangeError('The clock does not go back.');
    for (;;) {
      await this.#settled();
      const due = catalog.list().map(({ ref }) => scheduler.nextRunAt(ref) ?? Number.POSITIVE_INFINITY);
      const next = Math.min(...due);
      if (next > end) break;
      this.#clock.moveTo(Math.max(next, this.#clock.now()));
    }
    this.#clock.moveTo(end);
    await this.#settled();
  }

  /** Resolves when no automation runs, and those that are due have begun. */
  async #settled(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    await this.#parts.services.automations.engine.idle('automation');
  }
}

/** The stack of the test that called the method of the app. */
function stackHere(): string {
  const stack = new Error().stack ?? '';
  return stack.split('\n').slice(3).join('\n');
}

function bytesOf(body: unknown): Buffer {
  if (body === undefined) return Buffer.alloc(0);
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}

function lowerCase(headers: Record<string, string> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

function isJson(headers: Headers): boolean {
  return /^application\/json\b/.test(headers.get('content-type') ?? '');
}

function errorMembers(body: unknown): Partial<ErrorBody> {
  const members = Object.entries((body ?? {}) as object).filter(
    ([name, value]) => ['code', 'message', 'path'].includes(name) && typeof value === 'string',
  );
  return Object.fromEntries(members) as Partial<ErrorBody>;
}
