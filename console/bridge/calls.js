/**
 * `svc.read`, `svc.write`, `svc.describe` and `svc.onChange` of a page, over any way to the gateway (specification,
 * "Page bridge"). Both bridges have them from here: that of pages, over HTTP, and that of pages in a host of MCP Apps, over its
 * messages.
 */

/**
 * Every rejection is one of these, with a message for people. `code` is the gateway's error code, `OFFLINE` when the call was not
 * sent because there is no connection, `UNREACHABLE` when no answer came to what was sent, `UNAUTHORIZED` when the session has
 * ended, `UNSUPPORTED` for what a host of MCP Apps cannot do, `HOST_REFUSED` for what it would not, or `ACTION_FAILED` for an
 * action that answered with a status of 400 or above and names no code in its body.
 */
export class SvcError extends Error {
  constructor(status, { code, message, path, issues }, body) {
    super(message);
    this.name = 'SvcError';
    Object.assign(this, { code, status, path, issues, body });
  }
}

const UNKNOWN = 'No answer came, so this may be stored or not. Look before you send it again.';
const UNKNOWN_ONCE = 'No answer came. Send it again: it will not be stored twice.';
/** What a call that was not run is refused with: its key is as good as before. */
const NOT_RUN = new Set(['OFFLINE', 'UNAUTHORIZED', 'OVERLOADED', 'RATE_LIMITED']);

/** `crypto.randomUUID` is missing at addresses without TLS. */
const newKey = () => [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join('-');

/**
 * Gives `svc` its calls. `read(query, input)` and `describe(filter)` resolve to the answer; `write(action, input, { key, unanswered })`
 * to `{ status, body }`: `key` is an idempotency key, which it is given only if it `keepsKeys`, and `unanswered` what a person is told when
 * nobody knows whether it was taken. `written()` is called once whoever waited for the answer of the last action has seen it.
 */
export function giveCalls(svc, { read, write, describe, keepsKeys, written }) {
  /** Actions without an answer yet. */
  let writes = 0;
  /** Calls of `once` that had no answer, as JSON → their idempotency keys. */
  const unanswered = new Map();

  async function sendOnce(action, input) {
    const call = JSON.stringify([action, input]);
    const key = unanswered.get(call) ?? newKey();
    try {
      const result = await write(action, input, { key, unanswered: UNKNOWN_ONCE });
      unanswered.delete(call);
      return result;
    } catch (error) {
      if (error.code === 'UNREACHABLE') unanswered.set(call, key);
      // The first call was cut off, and its key answers nothing else any more.
      else if (!NOT_RUN.has(error.code) && unanswered.delete(call) && error.code === 'CONFLICT')
        error.message = UNKNOWN;
      throw error;
    }
  }

  /** Counts as an action until it has an answer. */
  const writing = async (answer) => {
    writes++;
    try {
      return await answer;
    } finally {
      writes--;
      if (writes === 0) setTimeout(written);
    }
  };

  /** Resolves to the query's value. */
  svc.read = ({ query, input = {} }) => read(query, input);

  /**
   * Resolves to the action's body. With `once`, a call that got no answer and is made again as it was is the same call for the
   * gateway: what it stores is stored once.
   */
  svc.write = async ({ action, input = {}, once = false }) => {
    const call = once && keepsKeys ? sendOnce(action, input) : write(action, input, { unanswered: UNKNOWN });
    const { status, body } = await writing(call);
    if (status < 400) return body;
    const error = { code: 'ACTION_FAILED', message: `The action ${action} answered with status ${status}.` };
    for (const member of ['code', 'message', 'path']) {
      if (typeof body?.[member] === 'string') error[member] = body[member];
    }
    throw new SvcError(status, error, body);
  };

  /** The app's manifest, or one tool of it: `describe({ action: 'add' })`. */
  svc.describe = (filter = {}) => describe(filter);

  /**
   * Calls back with `{ type: 'change', table, tables, action, source, ts, seq }` for each change of the app's data, and
   * with `{ type: 'reset', tables: [] }` when changes may have been missed and everything should be read again.
   * Returns the function that unsubscribes. The same object is the `detail` of the DOM event `svc:datachange`.
   */
  svc.onChange = (callback) => {
    const listener = (event) => callback(event.detail);
    document.addEventListener('svc:datachange', listener);
    return () => document.removeEventListener('svc:datachange', listener);
  };

  const emit = (detail) => document.dispatchEvent(new CustomEvent('svc:datachange', { bubbles: true, detail }));

  return {
    isWriting: () => writes > 0,
    writing,
    emit,
    reset: () => emit({ type: 'reset', app: svc.appId, tables: [] }),
  };
}
