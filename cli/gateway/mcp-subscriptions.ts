/**
 * Keeps an MCP client of 2025 in a session with the gateway and forwards its notifications, of its subscriptions and lists,
 * also after a lost connection, and in a new session after a restart of the gateway.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ErrorBody } from '../../protocol/errors.ts';
import { untilItBreaks } from '../../protocol/http/client.ts';
import { eventReader, followEvents, streamPlace } from '../../protocol/http/event-stream.ts';
import { GatewayError } from '../../protocol/http/gateway-error.ts';

export type McpMessage = {
  jsonrpc?: string;
  id?: string | number;
  method?: string;
  params?: { uri?: string; [member: string]: unknown };
  result?: { [member: string]: unknown };
  error?: unknown;
};

/** Sends one request to the gateway, wherever it is now. Rejects when there is none. */
export type McpFetch = (method: string, message: McpMessage | null, more?: McpFetchOptions) => Promise<Response>;
/** `text` is the message as it came. */
export type McpFetchOptions = { headers?: Record<string, string>; signal?: AbortSignal; text?: string };

const SESSION = 'mcp-session-id';
const LISTS_CHANGED = ['notifications/tools/list_changed', 'notifications/resources/list_changed'];

export class McpSubscriptions {
  readonly #fetch: McpFetch;
  readonly #tell: (message: McpMessage) => void;
  readonly #uris = new Set<string>();
  readonly #leaving = new AbortController();
  #initialize: McpMessage | null = null;
  #session: string | null = null;
  #following: Promise<void> | null = null;

  constructor(fetch: McpFetch, tell: (message: McpMessage) => void) {
    this.#fetch = fetch;
    this.#tell = tell;
  }

  /** The client has begun, and the gateway has answered. */
  begun(initialize: McpMessage, { headers }: Response): void {
    this.#initialize = initialize;
    this.#session = headers.get(SESSION);
    if (this.#session !== null) this.#following ??= this.#follow();
  }

  /**
   * The answer to `resources/subscribe` or `resources/unsubscribe`. Rejects if the gateway cannot answer, with the
   * reason.
   */
  async answer(message: McpMessage): Promise<McpMessage> {
    const uri = message.params?.uri ?? '';
    let answer = await this.#ask(message);
    if (answer === null) {
      await this.#beginAgain();
      answer = await this.#ask(message);
    }
    if (answer === null) throw new Error('The gateway keeps no session for this subscription.');
    if (answer.error === undefined && message.method === 'resources/subscribe') this.#uris.add(uri);
    else this.#uris.delete(uri);
    return answer;
  }

  /** Ends the session, because the client is gone. */
  async close(): Promise<void> {
    this.#leaving.abort();
    if (this.#following === null) return;
    await this.#following;
    await this.#fetch('DELETE', null, { headers: this.headers }).catch(() => {});
  }

  /** Null if the session has ended, as after a restart of the gateway. */
  async #ask(message: McpMessage): Promise<McpMessage | null> {
    const response = await this.#fetch('POST', message, { headers: this.headers, signal: this.#leaving.signal });
    if (response.status === 404) {
      const { error } = JSON.parse(await response.text()) as { error: { code: string; message: string } };
      if (error.code !== 'NOT_FOUND') throw new Error(error.message);
      return null;
    }
    for await (const answer of messagesOf(response)) if (answer.id === message.id) return answer;
    throw new Error('The gateway did not answer.');
  }

  async #beginAgain(): Promise<void> {
    if (this.#initialize === null) throw new Error('The client has not begun with "initialize".');
    const response = await this.#fetch('POST', this.#initialize, { signal: this.#leaving.signal });
    for await (const answer of messagesOf(response)) if (answer.error !== undefined) return;
    this.#session = response.headers.get(SESSION);
    if (this.#session !== null) this.#following ??= this.#follow();
    // They may be others since the last session ended.
    for (const method of LISTS_CHANGED) this.#tell({ jsonrpc: '2.0', method });
    for (const uri of this.#uris) {
      const params = { uri };
      const answer = await this.#ask({ jsonrpc: '2.0', id: uri, method: 'resources/subscribe', params });
      if (answer?.error !== undefined) this.#uris.delete(uri);
      // It may have changed meanwhile. If it can no longer be followed, the client learns that by reading it.
      this.#tell({ jsonrpc: '2.0', method: 'notifications/resources/updated', params });
    }
  }

  async #follow(): Promise<void> {
    const { signal } = this.#leaving;
    const place = streamPlace();
    const open = async (): Promise<AsyncIterable<Uint8Array> | Uint8Array[]> => {
      const headers = { ...this.headers, accept: 'text/event-stream', 'last-event-id': place.lastEventId };
      const { ok, status, body } = await this.#fetch('GET', null, { headers, signal });
      if (status !== 404) return ok && body ? untilItBreaks(body) : [];
      await this.#beginAgain();
      place.lastEventId = '';
      return await open();
    };
    // The gateway may come back; the next attempt asks again.
    const tryOpen = () => open().catch(() => []);
    const wait = () => sleep(place.retryMs, undefined, { signal });
    try {
      for await (const { data } of followEvents(place, tryOpen, wait)) {
        const message = parsed(data);
        if (message !== null) this.#tell(message);
      }
    } catch {
      // Its client has left.
    }
  }

  /** Those that name the session. */
  get headers(): Record<string, string> {
    return this.#session === null ? {} : { [SESSION]: this.#session };
  }
}

/** The messages of an answer. Throws for one that the gateway refused before it read the message. */
export async function* messagesOf(response: Response): AsyncGenerator<McpMessage> {
  if (response.headers.get('content-type')?.startsWith('text/event-stream') && response.body) {
    const read = eventReader();
    for await (const chunk of response.body)
      for (const { data } of read(chunk)) if (data !== '') yield JSON.parse(data) as McpMessage;
    return;
  }
  const text = await response.text();
  if (text === '') return;
  const answer = parsed(text) as (McpMessage & { isError?: boolean; error?: ErrorBody }) | null;
  if (answer === null)
    throw new GatewayError(response.status, {
      code: 'INTERNAL',
      message: `${new URL(response.url).origin} is not a gateway: its answer is not JSON.`,
    });
  if (answer.isError && answer.error) throw new GatewayError(response.status, answer.error);
  yield answer;
}

/** Null for a text that is not JSON, such as the page of another server. */
function parsed(text: string): McpMessage | null {
  try {
    return JSON.parse(text) as McpMessage | null;
  } catch {
    return null;
  }
}
