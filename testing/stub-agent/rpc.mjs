/** Speaks JSON-RPC in lines over standard input and output: sends, asks, and answers requests. */
import { createInterface } from 'node:readline';

/** Our requests to the client that it has not answered. */
const asked = new Map();
let lastId = 0;
let isDeaf = false;

/** Resolves when the pipe has room. */
export function put(text) {
  return new Promise((done) => {
    if (process.stdout.write(`${text}\n`)) done();
    else process.stdout.once('drain', done);
  });
}

export const send = (message) => put(JSON.stringify({ jsonrpc: '2.0', ...message }));

export function ask(method, params) {
  const id = ++lastId;
  return new Promise((done, failed) => {
    asked.set(id, { done, failed });
    void send({ id, method, params });
  });
}

/** From now on it reads nothing, and neither the end of the input nor SIGTERM ends the process. */
export function beDeaf() {
  isDeaf = true;
  process.on('SIGTERM', () => {});
  setInterval(() => {}, 1 << 30);
}

/** Answers requests with `methods`, by their names: each resolves with `result` or `error`. `notified` gets the rest. */
export function serve(methods, notified) {
  createInterface({ input: process.stdin }).on('line', async (line) => {
    if (isDeaf) return;
    const { id, method, params, result, error } = JSON.parse(line);
    if (method === undefined) {
      const waiting = asked.get(id);
      asked.delete(id);
      if (error) waiting?.failed(new Error(error.message));
      else waiting?.done(result);
    } else if (id === undefined) {
      notified(method, params);
    } else {
      const answer = methods[method]
        ? await methods[method](params)
        : { error: { code: -32601, message: `There is no method ${method}.` } };
      void send({ id, ...answer });
    }
  });
  process.stdin.on('end', () => {
    if (!isDeaf) process.exit(0);
  });
}
