/**
 * Connects to an MCP server over streamable HTTP: the SDK's transport, with answers of bounded size and no streams except those
 * of calls.
 */
import { setTimeout as pause } from 'node:timers/promises';
import {
  INTERNAL_ERROR,
  isJSONRPCRequest,
  type JSONRPCMessage,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import type { HttpServerEntry } from '../../../protocol/agents/tool-server-entries.ts';
import { LIMITS } from '../../../protocol/limits.ts';

type SendOptions = NonNullable<Parameters<StreamableHTTPClientTransport['send']>[1]>;

export class HttpTransport extends StreamableHTTPClientTransport {
  constructor(entry: HttpServerEntry, maxAnswerBytes: number) {
    super(new URL(entry.url), {
      requestInit: { headers: entry.headers ?? {} },
      fetch: boundedFetch(maxAnswerBytes),
    });
  }

  /** Like the SDK's, which waits for ever when a stream ends without an answer; here that is an error. */
  override send(message: JSONRPCMessage | JSONRPCMessage[], options: SendOptions = {}): Promise<void> {
    if (Array.isArray(message) || !isJSONRPCRequest(message)) return super.send(message, options);
    const { id } = message;
    const error = {
      code: INTERNAL_ERROR,
      message: 'the answer broke off or is too large. Whether the tool did its work is not known.',
    };
    return super.send(message, {
      ...options,
      // The SDK ignores it after an answer.
      onRequestStreamEnd: () => this.onmessage?.({ jsonrpc: '2.0', id, error }),
    });
  }

  /** Ends the session on the server if it is reachable, and the connection. */
  override async close(): Promise<void> {
    // The server may be gone, or have forgotten the session.
    await Promise.race([this.terminateSession().catch(() => {}), pause(LIMITS.toolServerEndMs)]);
    await super.close();
  }
}

function boundedFetch(maxBytes: number): (url: string | URL, init?: RequestInit) => Promise<Response> {
  /** Answers that were too long. Requested again, they would be as long. */
  let cut = 0;
  return async (url, init) => {
    if (init?.method === 'GET') {
      // A stream that does not resume an answer carries the server's own messages, which have no limit.
      const resumes = new Headers(init.headers).has('last-event-id');
      if (!resumes || cut > 0) {
        if (resumes) cut--;
        return new Response(null, { status: 405 });
      }
    }
    const response = await fetch(url, init);
    if (!response.body) return response;
    const streams = response.headers.get('content-type')?.startsWith('text/event-stream');
    const bounded = response.body.pipeThrough(
      bound(maxBytes, () => {
        if (streams) cut++;
      }),
    );
    const { status, statusText, headers } = response;
    return new Response(bounded, { status, statusText, headers });
  };
}

function bound(maxBytes: number, onCut: () => void): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0;
  return new TransformStream({
    transform(chunk, controller) {
      bytes += chunk.length;
      if (bytes <= maxBytes) {
        controller.enqueue(chunk);
        return;
      }
      onCut();
      controller.error(new Error(`the answer has more than ${maxBytes} bytes`));
    },
  });
}
