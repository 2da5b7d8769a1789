/** Hands requests of the host's server on to the gateway's socket, and its answers back, as they come. */
import { Agent, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { ADDRESS_HEADER, PROOF_HEADER } from './process/exchanged.ts';

/** About one connection only (RFC 9110, 7.6.1), or said by us alone. */
const OWN = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'upgrade',
  'expect',
  PROOF_HEADER,
  ADDRESS_HEADER,
]);

/** `proof` is null for a request that the host has not let in. */
export type Destination = { socket: string; proof: string | null };

export class Forwarder {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });

  forward(req: IncomingMessage, res: ServerResponse, { socket, proof }: Destination): void {
    const headers = withoutOwn(req.rawHeaders);
    headers.push(ADDRESS_HEADER, req.socket.remoteAddress ?? '');
    if (proof !== null) headers.push(PROOF_HEADER, proof);
    const path = (req as { originalUrl?: string }).originalUrl ?? req.url ?? '/';
    const onward = request({ socketPath: socket, agent: this.#agent, method: req.method ?? 'GET', path, headers });
    onward.on('response', (answer) => {
      const { statusCode = 502, statusMessage } = answer;
      res.writeHead(statusCode, statusMessage, withoutOwn(answer.rawHeaders, 'transfer-encoding'));
      // An event stream may have nothing to say for long.
      res.flushHeaders();
      answer.on('error', () => res.destroy());
      answer.pipe(res);
    });
    onward.on('error', () => {
      if (res.headersSent) res.destroy();
      else unavailable(res, 'The gateway ended the connection before it answered.');
    });
    // A client that leaves takes its request along; one that was refused early may still be sending.
    res.on('close', () => onward.destroy());
    req.on('error', () => onward.destroy());
    req.pipe(onward);
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** Answers in the place of a gateway that cannot. */
export function unavailable(res: ServerResponse, message: string, retryAfterSeconds = 1): void {
  const body = JSON.stringify({ isError: true, error: { code: 'OVERLOADED', message } });
  res.writeHead(503, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    'retry-after': String(retryAfterSeconds),
    'x-content-type-options': 'nosniff',
  });
  res.end(body);
}

/** Names and values in turn, as they came. */
function withoutOwn(raw: readonly string[], further?: string): string[] {
  const kept: string[] = [];
  for (let at = 0; at < raw.length; at += 2) {
    const name = (raw[at] as string).toLowerCase();
    if (!OWN.has(name) && name !== further) kept.push(raw[at] as string, raw[at + 1] as string);
  }
  return kept;
}
