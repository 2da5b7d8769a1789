/**
 * Runs automations in the host's process: their handlers, with a `ctx` that asks the gateway (specification,
 * "Extension points").
 */
import { pathToFileURL } from 'node:url';
import type { FireResult } from 'svc-gateway';
import type { FireAsk, FireOrder } from './process/exchanged.ts';

type Ask = (ask: FireAsk) => Promise<unknown>;

/** Resolves with what the handler returns. Rejects with its error. */
export async function runFire(order: FireOrder, ask: Ask, signal: AbortSignal): Promise<FireResult | undefined> {
  const { runId, handler: file, automation, input, request, now, caller } = order;
  // Each version has files of its own, so that a module is never an old one.
  const { default: handler } = (await import(pathToFileURL(file).href)) as { default?: unknown };
  if (typeof handler !== 'function')
    throw new Error(`The handler of "${automation.ref}" must export a function by default.`);
  signal.throwIfAborted();
  const asked = new Set<Promise<unknown>>();
  const of =
    (verb: string) =>
    (...args: unknown[]): Promise<unknown> => {
      const answer = ask({ runId, verb, args });
      const settled = answer.catch(() => {}).finally(() => asked.delete(settled));
      asked.add(settled);
      return answer;
    };
  const ctx = {
    tool: of('tool'),
    agent: of('agent'),
    state: { get: of('state.get'), set: of('state.set'), delete: of('state.delete') },
    runs: { last: of('runs.last'), list: of('runs.list') },
    notify: of('notify'),
    secrets: { get: of('secrets.get') },
    fetch: (target: string | URL | Request, init: RequestInit = {}) =>
      fetch(target, { ...init, signal: init.signal ? AbortSignal.any([init.signal, signal]) : signal }),
    input,
    caller,
    signal,
    now,
  };
  const write = (level: string) => (message: string, fields?: unknown) => {
    of(`log.${level}`)(message, fields).catch(() => {});
  };
  const log = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  const returned: unknown = await handler({ ctx, log, input, request, automation });
  // The run ends after everything that the handler asked for, also where it did not wait.
  while (asked.size > 0) await Promise.all(asked);
  const { summary, output, response } = Object(returned) as FireResult;
  return { ...(summary !== undefined && { summary }), output, ...(response !== undefined && { response }) };
}
