/**
 * Asks the person at an MCP client before an action runs, by elicitation: clients of 2025 get a request in the stream of their
 * call, those of 2026 a result that asks them to call again with the answer (specification, "Confirmations").
 */
import { hash, randomUUID } from 'node:crypto';
import { bucketOf } from '../../protocol/buckets.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isRecord } from '../../protocol/shapes/shape.ts';
import { notConfirmed } from '../dispatch/confirmation.ts';
import type { Confirm, Confirmation } from '../dispatch/request.ts';
import type { SessionOwner } from './mcp-sessions.ts';

type Message = Record<string, unknown>;

/** Whose question it is. `session` is the one that the client names. */
export type Asker = Pick<SessionOwner, 'client' | 'path'> & { session: string | undefined };

/** A call of a client of 2026. `responses` and `state` are what it sends when it calls again. */
type Repeated = { name: string; args: unknown; responses: unknown; state: unknown };

/** Ends a call with a question. */
export class InputRequired extends Error {
  readonly result: { resultType: 'input_required'; [member: string]: unknown };

  constructor(inputRequests: object, requestState: string) {
    super('A person is to be asked first.');
    this.result = { resultType: 'input_required', inputRequests, requestState };
  }
}

/** The one question of a result. */
const QUESTION = 'confirm';
/** Clients show the message, and buttons for yes and no: there is nothing to fill in. */
const FORM = { type: 'object', properties: {} };

type Answer = 'accept' | 'decline' | 'none';
type OpenRequest = { asker: Asker; answer(answer: Answer): void };
type OpenResult = { call: string; until: number };

export class Confirmations {
  /** Requests in streams, by id. */
  readonly #requests = new Map<string, OpenRequest>();
  /** Calls under way that ask: those of agents too. */
  readonly #calls = new Map<string, () => void>();
  /** Results that ask, by `requestState`, oldest first. */
  readonly #results = new Map<string, OpenResult>();

  /** Asks in the stream of a call, to which `tell` writes. */
  byRequest(asker: Asker, tell: (message: object) => void): Confirm {
    return async (asked, signal) => {
      // In a cluster the answer is sent to the node that has the app, where the question is open.
      const id = `${bucketOf(asked.app)}.${randomUUID()}`;
      const answer = await new Promise<Answer>((resolve) => {
        const timer = setTimeout(resolve, LIMITS.permissionMs, 'none').unref();
        const settle = (answered: Answer): void => {
          clearTimeout(timer);
          this.#requests.delete(id);
          resolve(answered);
        };
        this.#requests.set(id, { asker, answer: settle });
        if (signal?.aborted) settle('none');
        signal?.addEventListener('abort', () => settle('none'), { once: true });
        const params = { message: questionText(asked), requestedSchema: FORM };
        tell({ id, method: 'elicitation/create', params });
      });
      this.#requests.delete(id);
      if (answer === 'accept') return;
      if (answer === 'none') tell({ method: 'notifications/cancelled', params: { requestId: id } });
      throw notConfirmed(asked, answer === 'none' ? 'unanswered' : 'refused');
    };
  }

  /**
   * Asks by the result of a call, unless the call has the answer to such a question, which counts once. Rejects with `INVALID_INPUT`
   * for the state of no open question.
   */
  byResult({ client, path }: Asker, { name, args, responses, state }: Repeated): Confirm {
    return async (asked) => {
      const call = hash('sha256', JSON.stringify([client, path, name, args]));
      const open = this.#results.get(String(state));
      if (state !== undefined && (open?.call !== call || open.until <= Date.now())) throw notOpen();
      const response = isRecord(responses) ? responses[QUESTION] : undefined;
      if (open !== undefined && isRecord(response)) {
        this.#results.delete(String(state));
        if (response.action === 'accept') return;
        throw notConfirmed(asked, 'refused');
      }
      const params = { mode: 'form', message: questionText(asked), requestedSchema: FORM };
      throw new InputRequired({ [QUESTION]: { method: 'elicitation/create', params } }, this.#keep(call));
    };
  }

  /** Has `abort` called if the client withdraws this call while it asks. Answers what ends that. */
  asking(asker: Asker, id: string | number, abort: () => void): () => void {
    const key = keyOf(asker, id);
    this.#calls.set(key, abort);
    return () => {
      if (this.#calls.get(key) === abort) this.#calls.delete(key);
    };
  }

  /** Takes a message of the client that answers a question, or withdraws a call that asks; false for any other. */
  take(asker: Asker, message: Message): boolean {
    if (message.method === 'notifications/cancelled') {
      const id = isRecord(message.params) ? message.params.requestId : undefined;
      const abort = this.#calls.get(keyOf(asker, id));
      abort?.();
      return abort !== undefined;
    }
    const open = message.method === undefined ? this.#requests.get(String(message.id)) : undefined;
    if (open === undefined || keyOf(open.asker, 0) !== keyOf(asker, 0)) return false;
    const { result } = message;
    open.answer(isRecord(result) && result.action === 'accept' ? 'accept' : 'decline');
    return true;
  }

  #keep(call: string): string {
    const now = Date.now();
    for (const [state, { until }] of this.#results) {
      if (until > now && this.#results.size < LIMITS.mcpQuestions) break;
      this.#results.delete(state);
    }
    const state = randomUUID();
    this.#results.set(state, { call, until: now + LIMITS.permissionMs });
    return state;
  }
}

/** Whether a client with these capabilities shows a form to its person. */
export function asksByForm(capabilities: unknown): boolean {
  const elicitation = isRecord(capabilities) ? capabilities.elicitation : undefined;
  return isRecord(elicitation) && ('form' in elicitation || !('url' in elicitation));
}

function notOpen(): SvcError {
  const message =
    'This "requestState" is of no open question: it was answered, is too old, or belongs to another call. Call without it.';
  return new SvcError('INVALID_INPUT', message, { path: '/requestState' });
}

function questionText({ app, action, detail }: Confirmation): string {
  return [`Run "${action}" of "${app}"?`, detail].filter(Boolean).join('\n');
}

function keyOf({ client, path, session }: Asker, id: unknown): string {
  return JSON.stringify([client, path, session, id]);
}
