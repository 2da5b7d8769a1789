/** Says why a request of `ctx.fetch` failed: Node's HTTP client only says that it did, and has the reason in `cause`. */

/** What Node calls `code`, in words; its other messages are words already. */
const WORDS: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'there is no such name',
  EAI_AGAIN: 'the name cannot be looked up now',
  ECONNRESET: 'the connection was closed',
  UND_ERR_SOCKET: 'the connection was closed',
  ETIMEDOUT: 'it did not answer in time',
  EHOSTUNREACH: 'there is no way to this machine',
  ENETUNREACH: 'there is no way to this network',
  EPROTO: 'it does not speak TLS',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS',
};

/** `fetch failed` with the host and why; any other error as it is. */
export function withReason(error: unknown, { hostname, port, protocol }: URL): unknown {
  const { cause } = error as { cause?: unknown };
  if (!(error instanceof TypeError) || !(cause instanceof Error)) return error;
  const host = `${hostname}:${port === '' ? (protocol === 'https:' ? '443' : '80') : port}`;
  return new TypeError(`${error.message}: ${host}: ${reasonOf(cause)}`, { cause });
}

/** Why the body of an answer ended before its end: the client says `terminated`. */
export function whyTerminated(error: Error): string | null {
  const { cause, message } = error;
  if (!(error instanceof TypeError) || message !== 'terminated' || !(cause instanceof Error)) return null;
  return `The answer to ctx.fetch ended before its end: ${reasonOf(cause)}`;
}

/** In words, with what Node says of it: the code, and the addresses that were tried. */
function reasonOf(cause: Error): string {
  const { code, errors } = cause as { code?: unknown; errors?: unknown };
  const tried = Array.isArray(errors) ? errors.map((one: Error) => one.message).join(', ') : cause.message;
  if (typeof code !== 'string') return tried;
  const words = WORDS[code];
  if (words === undefined) return tried.includes(code) ? tried : `${tried} (${code})`;
  return `${words} (${tried.includes(code) ? tried : code})`;
}
