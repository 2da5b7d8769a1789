/**
 * A model server without a model, on loopback: OpenAI Responses, OpenAI Chat Completions and Anthropic Messages,
 * streamed and not, and `GET /v1/models`. It runs the last text of the user as a script, one step a line; it skips
 * lines that are not steps, and repeats a text without steps.
 *
 *     say: some words            says them, word by word; `\n` in them is a new line
 *     slow: 50 some words        the same with 50 ms between the words
 *     repeat: 1000 xyz           says `xyz` 1000 times
 *     think: some words          reasons
 *     call: add {"title":"tea"}  calls a tool: by its whole name, or by the part after its server's. Calls that follow each
 *                                other are made in one answer; later steps wait for their results. Arguments in
 *                                quotes are for tools that take text
 *     then                       separates calls, so that the second is made after the first has answered
 *     report                     says the results of the last calls, one a line as `add: <text>`; it does so by itself when
 *                                nothing comes after them
 *     usage: 100 20 5            counts 100 input tokens, 20 output tokens, 5 of the input cached; else it counts words
 *     wait: name                 continues when the test calls `release(name)`, or a client requests `POST /release/name`
 *     hang                       says nothing more and keeps the connection open; `reached('hang')` reports it
 *     status: 429                answers with this status; `status: 500 2` does so twice, then skips the step
 *     garbage                    says something outside the protocol, and ends
 *     cut                        ends the connection here; `cut: 1` does so once, then skips the step
 *
 * As a program (`node --import tsx testing/model-stub.ts --port 8090`) it prints its address, and `GET /requests` lists
 * the requests.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { answerTo, type ModelAnswer, type Output, type Usage } from './model-stub/answers.ts';
import { type Json, type ModelRequest, type ModelTool, readRequest } from './model-stub/requests.ts';
import { readScript, type Step, stepsAfter } from './model-stub/script.ts';

export type { ModelRequest } from './model-stub/requests.ts';

export const STUB_MODELS = ['stub-model', 'stub-small'];

export type ModelStub = {
  /** `http://127.0.0.1:<port>`; addresses below it may begin with `/v1`. */
  url: string;
  /** All requests, oldest first. */
  requests: ModelRequest[];
  /** Resolves when a script has reached `wait: name`, or `hang`. */
  reached(name: string): Promise<void>;
  release(name: string): void;
  close(): Promise<void>;
};

/** Listens on `port`, by default a free one. With `key`, requests without it are answered 401. */
export async function startModelStub(options: { port?: number; key?: string } = {}): Promise<ModelStub> {
  const requests: ModelRequest[] = [];
  const gates = new Gates();
  /** How often the `status` step of a script has been answered. */
  const refused = new Map<string, number>();

  const serve = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = (incoming.url ?? '').split('?')[0] as string;
    if (incoming.method === 'POST' && path.startsWith('/release/')) {
      gates.release(decodeURIComponent(path.slice('/release/'.length)));
      return sendJson(response, 200, {});
    }
    if (path === '/requests') return sendJson(response, 200, requests);
    const { authorization, 'x-api-key': apiKey } = incoming.headers;
    if (options.key && apiKey !== options.key && authorization !== `Bearer ${options.key}`) {
      return sendError(response, 401);
    }
    if (path.endsWith('/models')) return sendJson(response, 200, modelList());
    const body: Json = await json(incoming);
    if (path.endsWith('/count_tokens')) return sendJson(response, 200, { input_tokens: 1 });
    const request = readRequest(path, incoming.headers, body);
    if (!request) return sendError(response, 404);
    requests.push(request);
    await new Performance(request, response, gates, refused).run();
  };

  const server = createServer((incoming, response) => {
    serve(incoming, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy();
      else sendError(response, 400, String(error));
    });
  });
  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    reached: (name) => gates.reached(name),
    release: (name) => gates.release(name),
    close: async () => {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** One script, performed for one request. */
class Performance {
  readonly #request: ModelRequest;
  readonly #response: ServerResponse;
  readonly #gates: Gates;
  readonly #refused: Map<string, number>;
  readonly #answer: ModelAnswer;
  readonly #gone: Promise<void>;
  /** The progress of this answer: a space separates a second text from the first. */
  readonly #said = new Set<Output['type']>();
  #words = 0;
  #usage: Usage | null = null;

  constructor(request: ModelRequest, response: ServerResponse, gates: Gates, refused: Map<string, number>) {
    this.#request = request;
    this.#response = response;
    this.#gates = gates;
    this.#refused = refused;
    this.#answer = answerTo(request);
    this.#gone = new Promise((resolve) => response.once('close', resolve));
  }

  async run(): Promise<void> {
    const { steps, reported } = stepsAfter(readScript(this.#request.text), this.#request.results.length);
    for (const step of steps) {
      if ((await this.#do(step, reported)) === 'end' || this.#response.destroyed) return;
    }
    const usage = this.#usage ?? {
      input: this.#request.said.join(' ').split(/\s+/).length,
      output: this.#words,
      cached: 0,
    };
    if (!this.#request.isStreamed) return sendJson(this.#response, 200, this.#answer.whole(usage));
    this.#startStream();
    this.#response.end(this.#answer.end(usage));
  }

  async #do(step: Step, reported: number): Promise<'end' | undefined> {
    switch (step.do) {
      case 'say':
      case 'think':
        return await this.#say(step);
      case 'call':
        return this.#call(step.tool, step.args);
      case 'report': {
        const results = reported === 0 ? [] : this.#request.results.slice(-reported);
        this.#add({ type: 'text', delta: results.map(({ tool, text }) => `${tool}: ${text}`).join('\n') });
        return;
      }
      case 'usage':
        this.#usage = step;
        return;
      case 'then':
        return;
      default:
        return await this.#misbehave(step);
    }
  }

  async #say(step: Extract<Step, { do: 'say' | 'think' }>): Promise<undefined> {
    const type = step.do === 'say' ? 'text' : 'reasoning';
    for (const [i, word] of step.words.entries()) {
      if (this.#response.destroyed) return;
      this.#add({ type, delta: i === 0 && this.#said.has(type) ? ` ${word}` : word });
      if (step.do === 'say' && step.msBetween > 0) await pause(step.msBetween);
    }
    this.#said.add(type);
  }

  #call(name: string, args: unknown): undefined {
    const tool = findTool(this.#request.tools, name);
    if (tool) return this.#add({ type: 'call', tool, args });
    const names = this.#request.tools.map((each) => each.name).join(', ');
    this.#add({ type: 'text', delta: `There is no tool ${name}; there are: ${names}.` });
  }

  async #misbehave(step: Exclude<Step, { do: 'say' | 'think' | 'call' | 'report' | 'usage' | 'then' }>) {
    switch (step.do) {
      case 'wait':
      case 'hang':
        await this.#gates.wait(step.do === 'wait' ? step.name : 'hang', this.#gone);
        return;
      case 'status': {
        if (this.#isDone(step.times)) return;
        sendError(this.#response, step.status);
        return 'end';
      }
      case 'garbage':
        this.#startStream();
        this.#response.end('event: \u0000\ndata: {"type": [not JSON\n\n<html>');
        return 'end';
      case 'cut':
        if (this.#isDone(step.times)) return;
        this.#startStream();
        // Earlier output must have been sent, or the connection would look unanswered.
        await Promise.race([new Promise((resolve) => this.#response.write('\n', resolve)), this.#gone]);
        this.#response.destroy();
        return 'end';
    }
  }

  /** Whether a step that misbehaves has done so often enough; else this is one time more. */
  #isDone(times: number): boolean {
    const done = (this.#refused.get(this.#request.text) ?? 0) + 1;
    if (done > times) return true;
    this.#refused.set(this.#request.text, done);
    return false;
  }

  #add(output: Output): undefined {
    this.#words++;
    this.#startStream();
    const frames = this.#answer.add(output);
    if (this.#request.isStreamed) this.#response.write(frames);
  }

  #startStream(): void {
    if (!this.#request.isStreamed || this.#response.headersSent) return;
    this.#response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    this.#response.write(this.#answer.start());
  }
}

/** The places in scripts where the test decides when to continue. */
class Gates {
  readonly #gates = new Map<string, { reached: Deferred; released: Deferred }>();

  /** Waits until it is released, or `gone`. */
  async wait(name: string, gone: Promise<void>): Promise<void> {
    const gate = this.#gate(name);
    gate.reached.resolve();
    await Promise.race([gate.released.promise, gone]);
    this.#gates.delete(name);
  }

  reached(name: string): Promise<void> {
    return this.#gate(name).reached.promise;
  }

  release(name: string): void {
    this.#gate(name).released.resolve();
  }

  #gate(name: string): { reached: Deferred; released: Deferred } {
    const gate = this.#gates.get(name) ?? { reached: deferred(), released: deferred() };
    this.#gates.set(name, gate);
    return gate;
  }
}

type Deferred = { promise: Promise<void>; resolve(): void };

function deferred(): Deferred {
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

/** Programs put the name of an MCP server before its tools, and write other characters as `_`. */
function findTool(tools: ModelTool[], name: string): ModelTool | undefined {
  const plain = (text: string): string => text.replaceAll(/[^\w]/g, '_');
  const wanted = plain(name);
  return (
    tools.find((tool) => plain(tool.name) === wanted) ?? tools.find((tool) => plain(tool.name).endsWith(`__${wanted}`))
  );
}

function modelList(): object {
  const data = STUB_MODELS.map((id) => ({
    ...{ id, object: 'model', created: 0, owned_by: 'stub' },
    ...{ type: 'model', display_name: id, created_at: '2026-01-01T00:00:00Z' },
  }));
  return { object: 'list', data, has_more: false, first_id: STUB_MODELS[0], last_id: STUB_MODELS.at(-1) };
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

const ERROR_TYPES: Record<number, string> = {
  401: 'authentication_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  500: 'api_error',
};

/** The error in the shape that all three protocols share. */
function sendError(response: ServerResponse, status: number, message = `The stub was told to answer ${status}.`): void {
  const type = ERROR_TYPES[status] ?? 'invalid_request_error';
  sendJson(response, status, { type: 'error', error: { type, code: type, message, param: null } });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { port: { type: 'string', default: '0' }, key: { type: 'string' } } });
  const { url } = await startModelStub({ port: Number(values.port), ...(values.key ? { key: values.key } : {}) });
  process.stdout.write(`${url}\n`);
}
