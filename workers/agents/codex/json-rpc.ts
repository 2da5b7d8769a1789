/** Speaks JSON-RPC with a program in both directions, one message a line. Codex leaves out the member `jsonrpc`; so do we. */

import { SvcError } from '../../../protocol/errors.ts';
import { isRecord } from '../../../protocol/shapes/shape.ts';
import type { AgentProgram } from '../program.ts';

/** Members of a message; their types are unchecked. */
export type Params = Record<string, unknown>;

export type RpcListener = {
  /** Reading its output pauses until this resolves. */
  onNotification(method: string, params: Params): Promise<void>;
  /** Resolves with the answer; null for an unknown request. Reading goes on meanwhile. */
  onRequest(method: string, params: Params): Promise<Params | null>;
  /** No more messages come. */
  onLost(error: SvcError): void;
};

/** What the program answered instead of a result. */
export class RpcError extends Error {}

type Waiting = { resolve(result: Params): void; reject(error: Error): void };

/** The most characters of an invalid line that the error repeats. */
const REPEATED_CHARS = 200;
const METHOD_NOT_FOUND = -32601;

export class JsonRpc {
  readonly #program: AgentProgram;
  readonly #listener: RpcListener;
  readonly #waiting = new Map<number, Waiting>();
  #calls = 0;
  #lost: SvcError | null = null;

  constructor(program: AgentProgram, listener: RpcListener) {
    this.#program = program;
    this.#listener = listener;
    void this.#read();
  }

  get isAlive(): boolean {
    return this.#lost === null && this.#program.ended === null;
  }

  /** Rejects with an `RpcError` when it refuses, with `AGENT_FAILED` when it ends. */
  async call(method: string, params: Params): Promise<Params> {
    if (this.#lost) throw this.#lost;
    const id = ++this.#calls;
    const answer = new Promise<Params>((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    // It may end while the line is being sent.
    answer.catch(() => {});
    await this.#send({ id, method, params });
    return await answer;
  }

  async notify(method: string): Promise<void> {
    await this.#send({ method });
  }

  async #send(message: Params): Promise<void> {
    await this.#program.write(JSON.stringify(message));
  }

  async #read(): Promise<void> {
    let lost: SvcError;
    try {
      for await (const line of this.#program.lines()) {
        if (line.trim() !== '') await this.#take(parse(line));
      }
      // Its output ends a moment before the process does, and the error must say how that ended.
      await this.#program.end();
      lost = this.#program.failure();
    } catch (error) {
      lost = error instanceof SvcError ? error : new SvcError('AGENT_FAILED', `The agent failed: ${String(error)}`);
    }
    this.#lost = lost;
    for (const { reject } of this.#waiting.values()) reject(lost);
    this.#waiting.clear();
    this.#listener.onLost(lost);
    await this.#program.end();
  }

  async #take({ id, method, params, result, error }: Params): Promise<void> {
    if (typeof method === 'string') {
      const given = isRecord(params) ? params : {};
      if (id === undefined) await this.#listener.onNotification(method, given);
      else void this.#answer(id, method, given);
      return;
    }
    const waiting = this.#waiting.get(Number(id));
    if (!waiting) return;
    this.#waiting.delete(Number(id));
    if (isRecord(error)) waiting.reject(new RpcError(String(error.message)));
    else waiting.resolve(isRecord(result) ? result : {});
  }

  async #answer(id: unknown, method: string, params: Params): Promise<void> {
    try {
      const result = await this.#listener.onRequest(method, params);
      const unknown = { error: { code: METHOD_NOT_FOUND, message: `There is no ${method} here.` } };
      await this.#send({ id, ...(result === null ? unknown : { result }) });
    } catch {
      // It has ended meanwhile, which waiting requests report.
    }
  }
}

function parse(line: string): Params {
  try {
    const message: unknown = JSON.parse(line);
    if (isRecord(message)) return message;
  } catch {
    // Thrown below.
  }
  throw new SvcError('AGENT_FAILED', `The agent wrote what is no message: ${line.slice(0, REPEATED_CHARS)}`);
}
