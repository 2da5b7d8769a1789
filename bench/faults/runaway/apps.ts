/** The apps of the campaign: one for each kind of misbehaviour, and what it is mended with. */
import { DEFAULTS } from '../../../protocol/limits.ts';
import { appOf } from '../../../testing/apps.ts';
import { type Kind, timeoutOf } from './kinds.ts';

export type Files = Record<string, string | Buffer>;

const TABLE = 'CREATE TABLE t (n INTEGER)';
const OK = { ok: '() => "alive"' };

/** The app of one kind: `bad` misbehaves, `ok` does not. `endpoint` is the address of `startEndpoint`. */
export function badApp(id: string, kind: Kind, endpoint: string, timeoutMs: number = timeoutOf(kind)): Files {
  const bad = { run: kind.handler, timeoutMs };
  const tools = kind.action ? { queries: OK, actions: { bad } } : { queries: { ...OK, bad } };
  const files = appOf(id, { ...tools, migrations: [TABLE] });
  const file = `${kind.action ? 'actions' : 'queries'}/bad.js`;
  files[file] = `const endpoint = ${JSON.stringify(endpoint)};\n${files[file]}`;
  if (kind.top !== undefined) files[file] = `${kind.top}\n${files[file]}`;
  return files;
}

/** The version that its author uploads next: the same tools, and `bad` is good. */
export function mendedApp(id: string, kind: Kind): Files {
  const mended = { ...kind, handler: '() => "mended"' };
  delete mended.top;
  return badApp(id, mended, '', DEFAULTS.queryTimeoutMs);
}

/** An app that crashes: on load, or while a call runs. */
export function crashingApp(id: string, onLoad: boolean): Files {
  const crash = 'setTimeout(() => { throw new Error("boom"); });';
  const files = appOf(id, { queries: { bad: `async () => { ${onLoad ? '' : crash} await new Promise(() => {}); }` } });
  if (onLoad) files['queries/bad.js'] = `${crash}\n${files['queries/bad.js']}`;
  return files;
}
