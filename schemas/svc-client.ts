/** `token` is an access token, or one for programs; without it only public tools answer. */
export type ClientOptions = { url: string; token?: string; fetch?: typeof globalThis.fetch };

/** With an `idempotencyKey`, an action that is called again with the same input runs only once (within 24 hours). */
export type CallOptions = { signal?: AbortSignal; idempotencyKey?: string };

/** Calls reject with this: the gateway's error, or an answer of an action with a status of 400 or above. */
export class CallError extends Error {
  readonly code: string;
  readonly status: number;
  /** The value that is wrong, as a JSON Pointer. */
  readonly path: string | undefined;
  readonly issues: { path: string; message: string; keyword: string }[] | undefined;
  /** The body that an action answered with. */
  // biome-ignore lint/suspicious/noExplicitAny: its type depends on the handler
  readonly body: any;

  constructor(status: number, { code = 'ACTION_FAILED', message, path, issues, body }: Partial<CallError>) {
    super(message ?? `The answer has the status ${status}.`);
    this.name = 'CallError';
    this.code = code;
    this.status = status;
    this.path = path;
    this.issues = issues;
    this.body = body;
  }
}

export interface Client {
  /** Resolves to the value of the query. */
  query<Name extends keyof Queries & string>(
    name: Name,
    ...rest: Arguments<Queries[Name]>
  ): Promise<Queries[Name]['output']>;
  /** Resolves to the action's body. */
  action<Name extends keyof Actions & string>(
    name: Name,
    ...rest: Arguments<Actions[Name]>
  ): Promise<Actions[Name]['output']>;
}

/** The input may be left out if `{}` is a valid one. */
type Arguments<Tool extends { input: object }> =
  Record<never, never> extends Tool['input']
    ? [input?: Tool['input'], options?: CallOptions]
    : [input: Tool['input'], options?: CallOptions];

/** Calls the tools of the app over HTTP. Errors of `fetch`, such as a lost connection, reach the caller. */
export function createClient({ url, token, fetch = globalThis.fetch }: ClientOptions): Client {
  const call = async (
    tool: string,
    body: { query: string } | { action: string },
    input: object = {},
    { signal, idempotencyKey }: CallOptions = {},
  ) => {
    const response = await fetch(`${url.replace(/\/+$/, '')}/svc/_tool/${tool}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      },
      body: JSON.stringify({ app: APP, ...body, input }),
      ...(signal === undefined ? {} : { signal }),
    });
    const answer = (await response.json().catch(() => ({}))) as {
      isError?: boolean;
      // biome-ignore lint/suspicious/noExplicitAny: the types of the tools give its type
      data?: any;
      error?: Partial<CallError>;
    };
    if (answer.isError !== false) throw new CallError(response.status, answer.error ?? { code: 'NO_ANSWER' });
    return answer.data;
  };
  return {
    query: (query, ...[input, options]) => call('svc_read', { query }, input, options),
    action: async (action, ...[input, options]) => {
      const { status, body } = await call('svc_write', { action }, input, options);
      if (status >= 400) throw new CallError(status, { body, ...(typeof body?.error === 'object' ? body.error : {}) });
      return body;
    },
  };
}
