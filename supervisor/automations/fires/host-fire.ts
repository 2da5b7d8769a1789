/**
 * Runs an automation in the embedding host's process instead of a thread, through `fireAutomationFactory` (specification,
 * "Extension points").
 */

import type { RunRecord } from '../../../protocol/automations/runs.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { withReason } from '../../../protocol/http/network-errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { joinSignals } from '../../../protocol/signals.ts';
import type { AskVerb } from '../../../protocol/wire/frames.ts';
import type { FireAutomation, FireContext, FireLog } from '../../extension-points.ts';
import { unknownSecret } from '../../secrets.ts';
import { timedOut } from '../../tree/actor/call-errors.ts';
import type { LiveAutomation } from '../catalog.ts';
import type { Fire } from './fire.ts';

/** Where the lines of the app's log go, and who judges the output of an automation that has an `outputSchema`. */
export type HostFireOptions = {
  automationTimeoutMs: number;
  /** The file of its handler. */
  handlerOf(automation: LiveAutomation): string;
  /** One line of JSON, without the newline. */
  appLog(app: string, line: string): void;
  /** `output` is JSON text, null for none. */
  checkOutput(automation: LiveAutomation, output: string | null): Promise<void>;
};

/** Gives the run to the host; `fire` is over when the host has ended it, or its time is up. Never rejects. */
export async function runOnHost(
  run: FireAutomation,
  fire: Fire,
  { automationTimeoutMs, handlerOf, appLog, checkOutput }: HostFireOptions,
): Promise<void> {
  const { automation } = fire;
  const { input, at: now, request } = fire.request;
  const fail = (message: string) => fire.failed(new SvcError('HANDLER_ERROR', message));
  const late = () => fail(`${timedOut(automation.id, automationTimeoutMs)}.`);
  const timer = setTimeout(late, automationTimeoutMs);
  const { signal } = fire;
  signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
  try {
    const { ref, id, manifest } = automation;
    const { name, version } = manifest;
    const ctx = contextOf(fire, input, now);
    const log = logOf(fire, appLog);
    const result: unknown = await run({
      runId: fire.run.runId,
      automationRef: ref,
      automation: { ref, id, name, version },
      handler: handlerOf(automation),
      input,
      ...(request && { request }),
      now,
      ctx,
      log,
      signal,
    });
    const { summary, output, response } = Object(result) as Record<string, unknown>;
    const body = Buffer.from(JSON.stringify({ summary, output, response }));
    if (automation.manifest.hasOutputSchema) {
      const refusal = await checkOutput(automation, JSON.stringify(output) ?? null).catch((error: unknown) => ({
        error,
      }));
      if (refusal) return fire.faulted(refusal.error);
    }
    fire.result(200, body);
  } catch (error) {
    const message = (error as { message?: unknown } | null)?.message;
    fail(
      typeof message === 'string'
        ? fire.redactor.text(message).slice(0, LIMITS.errorMessageChars)
        : 'The host failed on this run.',
    );
  }
}

function contextOf(fire: Fire, input: unknown, now: number): FireContext {
  const ask = async (verb: AskVerb, args: Record<string, unknown>): Promise<unknown> => {
    const body = await fire.ask(verb, Buffer.from(JSON.stringify(args)));
    return body.length === 0 ? undefined : (JSON.parse(Buffer.from(body).toString()) as unknown);
  };
  return {
    tool: (name, args) => ask('tool', { name, args }),
    agent: ({ prompt, json }) => ask('agent', { prompt, json }),
    state: {
      get: (key) => ask('state.get', { key }),
      set: async (key, value) => void (await ask('state.set', { key, value })),
      delete: async (key) => void (await ask('state.delete', { key })),
    },
    runs: {
      last: (filter) => ask('runs.last', { filter }) as Promise<RunRecord | null>,
      list: (filter) => ask('runs.list', { filter }) as Promise<RunRecord[]>,
    },
    notify: (notice) => ask('notify', { notice }) as Promise<{ channels: number }>,
    fetch: async (request, init = {}) => {
      const signal = init.signal ? joinSignals([init.signal, fire.signal]).signal : fire.signal;
      const [url, given] =
        request instanceof Request ? [new URL(request.url), request.method] : [new URL(request), 'GET'];
      const method = (init.method ?? given).toUpperCase();
      // What keeps a request from being recorded does not keep it from being made.
      const begun = ask('fetch', { method, url: url.origin + url.pathname });
      begun.catch(() => {});
      const ended = (end: object): void =>
        void begun.then((ordinal) => ask('fetched', { ordinal, ...end })).catch(() => {});
      try {
        const response = await fetch(request, { ...init, signal });
        ended({ status: response.status });
        return response;
      } catch (error) {
        const thrown = withReason(error, url);
        ended({ error: { message: String((thrown as Error).message) } });
        throw thrown;
      }
    },
    secrets: {
      get: async (name) => {
        const { app } = fire.about;
        const value = fire.options.secrets.get(app, name);
        if (value === undefined) throw unknownSecret(app, name);
        return value;
      },
    },
    input,
    caller: fire.caller,
    user: null,
    signal: fire.signal,
    now,
  };
}

function logOf(fire: Fire, appLog: HostFireOptions['appLog']): FireLog {
  const { runId } = fire.run;
  const { automation } = fire;
  const { now } = fire.options;
  const { app, versionId, id } = automation;
  const write =
    (level: keyof FireLog) =>
    (msg: string, fields: Record<string, unknown> = {}): void => {
      const head = { ts: new Date(now()).toISOString(), level, app, versionId, tool: id, traceId: fire.traceId, runId };
      let line: string;
      try {
        line = JSON.stringify({ ...fields, ...head, msg });
      } catch {
        line = JSON.stringify({ ...head, msg, fields: 'not serializable' });
      }
      line = fire.redactor.jsonText(line);
      if (Buffer.byteLength(line) > LIMITS.logLineBytes) {
        line = JSON.stringify({
          ...head,
          msg: fire.redactor.text(msg).slice(0, LIMITS.logLineBytes / 8),
          truncated: true,
        });
      }
      appLog(app, line);
      fire.logged(line);
    };
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}
