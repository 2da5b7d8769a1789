/** Exchanges JSON lines with a Claude Code process, including requests and responses in both directions. */
import { randomUUID } from 'node:crypto';
import { SvcError } from '../../../protocol/errors.ts';
import { isRecord } from '../../../protocol/shapes/shape.ts';
import type { AgentProgram } from '../program.ts';

/** One of its lines. Names only members that we use; their types are unchecked. */
export type ClaudeMessage = Record<string, unknown>;

type ClaudeListener = {
  /** Reading its output pauses until this resolves. */
  onMessage(message: ClaudeMessage): Promise<void>;
  /** A request of Claude Code, such as whether it may use a tool. Answer with `respond` or `refuse`. */
  onRequest(id: string, request: ClaudeMessage): void;
  /** It withdrew the request. */
  onRequestCancelled(id: string): void;
  /** No more messages come. */
  onLost(error: SvcError): void;
};

type Waiting = { resolve(response: ClaudeMessage): void; reject(error: SvcError): void };

/** The most characters of an invalid line that the error repeats. */
const REPEATED_CHARS = 200;

export class ClaudeProcess {
  readonly program: AgentProgram;
  readonly #waiting = new Map<string, Waiting>();
  #lost: SvcError | null = null;

  constructor(program: AgentProgram, listener: ClaudeListener) {
    this.program = program;
    void this.#read(listener);
  }

  get isAlive(): boolean {
    return this.#lost === null && this.program.ended === null;
  }

  /** Asks it something. Rejects with `AGENT_FAILED` when it refuses or ends. */
  async request(request: { subtype: string; [member: string]: unknown }): Promise<ClaudeMessage> {
    if (this.#lost) throw this.#lost;
    const id = randomUUID();
    const response = new Promise<ClaudeMessage>((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    // It may end while the line is being sent.
    response.catch(() => {});
    await this.send({ type: 'control_request', request_id: id, request });
    return await response;
  }

  async respond(id: string, response: ClaudeMessage): Promise<void> {
    await this.send({ type: 'control_response', response: { subtype: 'success', request_id: id, response } });
  }

  async refuse(id: string, error: string): Promise<void> {
    await this.send({ type: 'control_response', response: { subtype: 'error', request_id: id, error } });
  }

  async send(message: ClaudeMessage): Promise<void> {
    await this.program.write(JSON.stringify(message));
  }

  async #read(listener: ClaudeListener): Promise<void> {
    let lost: SvcError;
    try {
      for await (const line of this.program.lines()) {
        if (line.trim() !== '') await this.#take(parse(line), listener);
      }
      // It may close its output before it exits.
      await this.program.end();
      lost = this.program.failure();
    } catch (error) {
      lost = error instanceof SvcError ? error : new SvcError('AGENT_FAILED', (error as Error).message);
    }
    this.#lost = lost;
    for (const { reject } of this.#waiting.values()) reject(lost);
    this.#waiting.clear();
    listener.onLost(lost);
    await this.program.end();
  }

  async #take(message: ClaudeMessage, listener: ClaudeListener): Promise<void> {
    const { type, request_id: id } = message;
    if (type === 'control_response' && isRecord(message.response)) this.#answer(message.response);
    else if (type === 'control_request' && typeof id === 'string' && isRecord(message.request)) {
      listener.onRequest(id, message.request);
    } else if (type === 'control_cancel_request' && typeof id === 'string') listener.onRequestCancelled(id);
    else await listener.onMessage(message);
  }

  #answer({ request_id: id, subtype, response, error }: ClaudeMessage): void {
    const waiting = this.#waiting.get(String(id));
    this.#waiting.delete(String(id));
    if (subtype === 'success') waiting?.resolve(isRecord(response) ? response : {});
    else waiting?.reject(new SvcError('AGENT_FAILED', `Claude Code refused: ${String(error)}`));
  }
}

function parse(line: string): ClaudeMessage {
  try {
    const message: unknown = JSON.parse(line);
    if (isRecord(message)) return message;
  } catch {
    // Thrown below.
  }
  throw new SvcError('AGENT_FAILED', `Claude Code wrote what is no message: ${line.slice(0, REPEATED_CHARS)}`);
}
