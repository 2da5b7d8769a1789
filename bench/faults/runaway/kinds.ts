/** The apps that misbehave, in every way that `kinds.json` knows, and what each is mended with. */

import { DEFAULTS } from '../../../protocol/limits.ts';
import type { RetireReason } from '../../../protocol/wire/frames.ts';
import { appOf } from '../../../testing/apps.ts';
import GROUPS from './kinds.json' with { type: 'json' };

/** Time that a tool is given that does not end by itself, in milliseconds. */
export const TIMEOUT_MS = 1_000;

/**
 * Who notices besides the app itself. `nobody`: no call of any other app fails. `host`: the process that holds the other
 * apps ends, so that their reads run again and their actions may answer that the outcome is unknown. `writer`: the process
 * that writes ends, so that everybody's writes wait, or answer that.
 */
export type Reach = 'nobody' | 'host' | 'writer';

export type Kind = {
  name: string;
  /** What its tool `bad` runs, an expression; `endpoint` in it stands for the address of a server that the campaign runs. */
  handler: string;
  /** Code before the handler, at the top of the same module. */
  top?: string;
  /** It writes. Otherwise `bad` is a query. */
  action?: true;
  /** What the caller hears: `ok` and text that the result holds, or text that the message of `HANDLER_ERROR` holds. */
  answer: { ok: RegExp } | { error: RegExp };
  /**
   * Why its thread ends, as `/svc/_system` names it; one of several where it is a race that decides. Absent when the thread may
   * as well go on.
   */
  ends?: readonly RetireReason[];
  /** What a line of the app's log says of it, where that is not what the caller hears. */
  log?: RegExp;
  reach?: Reach;
};

/** As `kinds.json` has it: expressions as texts, the lines of a longer handler as a list; `ok` and `error` are the answer. */
type Entry = Pick<Kind, 'top' | 'action' | 'ends' | 'reach'> & {
  handler: string | string[];
  ok?: string;
  error?: string;
  log?: string;
};

const kindOf = ([name, { handler, ok, error = '', log, ...rest }]: [string, Entry]): Kind => ({
  name,
  handler: [handler].flat().join('\n'),
  answer: ok === undefined ? { error: new RegExp(error) } : { ok: new RegExp(ok) },
  ...(log === undefined ? {} : { log: new RegExp(log) }),
  ...rest,
});

export const KINDS: readonly Kind[] = Object.values(GROUPS as unknown as Record<string, Record<string, Entry>>)
  .flatMap((group) => Object.entries(group))
  .map(kindOf);

/** Time that the tool of this kind is given, in milliseconds: one that ends by itself has time to on a busy machine. */
export function timeoutOf({ answer }: Kind): number {
  return 'error' in answer && answer.error.source.includes('timed out') ? TIMEOUT_MS : DEFAULTS.queryTimeoutMs;
}

export type Files = Record<string, string | Buffer>;

const TABLE = 'CREATE TABLE t (n INTEGER)';
const OK = { ok: '() => "alive"' };

/** The app of one kind: `bad` misbehaves, `ok` does not. `endpoint` is the address of a server that never ends an answer. */
export function badApp(
  id: string,
  kind: Kind,
  endpoint: string,
  { timeoutMs = timeoutOf(kind), ownThread = false } = {},
): Files {
  const bad = { run: kind.handler, timeoutMs };
  const tools = kind.action ? { queries: OK, actions: { bad } } : { queries: { ...OK, bad } };
  const manifest = ownThread ? { thread: 'own' } : {};
  const files = appOf(id, { ...tools, manifest, migrations: [TABLE] });
  const file = `${kind.action ? 'actions' : 'queries'}/bad.js`;
  files[file] = `const endpoint = ${JSON.stringify(endpoint)};\n${files[file]}`;
  if (kind.top !== undefined) files[file] = `${kind.top}\n${files[file]}`;
  return files;
}

/** The version that its author uploads next: the same tools, and `bad` is good. */
export function mendedApp(id: string, kind: Kind): Files {
  const mended = { ...kind, handler: '() => "mended"' };
  delete mended.top;
  return badApp(id, mended, '', { timeoutMs: DEFAULTS.queryTimeoutMs });
}

/** An app that crashes: on load, or while a call runs. */
export function crashingApp(id: string, onLoad: boolean): Files {
  const crash = 'setTimeout(() => { throw new Error("boom"); });';
  const files = appOf(id, { queries: { bad: `async () => { ${onLoad ? '' : crash} await new Promise(() => {}); }` } });
  if (onLoad) files['queries/bad.js'] = `${crash}\n${files['queries/bad.js']}`;
  return files;
}
