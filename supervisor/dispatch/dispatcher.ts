/**
 * What every way to a tool shares, HTTP and an automation's `ctx.tool` alike: what a body asks for, the app's tool of that
 * name, its call, and the change events of what it wrote (specification, "Three-tool dispatcher"; decisions, section 3).
 */
import { SvcError } from '../../protocol/errors.ts';
import { ToolKind } from '../../protocol/frames.ts';
import type { ActionSummary, QuerySummary, VersionSummary } from '../../protocol/manifest.ts';
import type { Services } from '../services.ts';
import { Call, type CallReply } from '../tree/actor/call.ts';
import type { App, AppsView } from './apps.ts';
import type { Change } from './changes.ts';

/** The parts of the gateway that a call passes through. */
export type Dispatching = Pick<Services, 'changes'> & {
  apps: AppsView;
  config: Pick<Services['config'], 'queryTimeoutMs' | 'actionTimeoutMs'>;
};

/** The app that is asked for. Throws `BAD_REQUEST`. */
export function appOf(body: Record<string, unknown>): string {
  const id = body.app;
  if (typeof id !== 'string')
    throw new SvcError('BAD_REQUEST', 'Say which app: "app" must be a string.', { path: 'app' });
  return id;
}

/** The name of the query or action that is asked for. Throws `BAD_REQUEST`. */
export function toolOf(body: Record<string, unknown>, member: 'query' | 'action'): string {
  const name = body[member];
  if (typeof name !== 'string') {
    throw new SvcError('BAD_REQUEST', `Say which ${member}: "${member}" must be a string.`, { path: member });
  }
  return name;
}

/** Throws `UNKNOWN_QUERY`, or `WRONG_KIND` for an action. */
export function findQuery({ apps }: Dispatching, app: App, name: string): QuerySummary {
  const summary = apps.serving(app);
  const query = summary.queries.find((tool) => tool.name === name);
  if (!query) throw unknownTool(app.id, summary, 'query', name);
  return query;
}

/** Throws `UNKNOWN_ACTION`, or `WRONG_KIND` for a query. */
export function findAction({ apps }: Dispatching, app: App, name: string): ActionSummary {
  const summary = apps.serving(app);
  const action = summary.actions.find((tool) => tool.name === name);
  if (!action) throw unknownTool(app.id, summary, 'action', name);
  return action;
}

/** A call that is ready to be submitted; its time runs from now on. `body` is JSON text whose `input` member is the input. */
export function newCall(
  { config }: Dispatching,
  tool: QuerySummary,
  kind: typeof ToolKind.query | typeof ToolKind.action,
  body: Uint8Array,
  traceId: string,
  reply: CallReply,
): Call {
  const allowedMs = tool.timeoutMs ?? (kind === ToolKind.query ? config.queryTimeoutMs : config.actionTimeoutMs);
  return new Call({ kind, tool: tool.name, body, traceId, allowedMs }, reply, performance.now());
}

/** Tells the subscribers of what is kept under `key` what an action that answered with this status wrote. Before its own answer leaves. */
export function announce(
  { changes }: Dispatching,
  key: string,
  { name, writes }: ActionSummary,
  status: number,
  source: Change['source'],
): void {
  if (status >= 400) return;
  for (const table of writes) changes.emit(key, { table, action: name, source });
}

function unknownTool(app: string, summary: VersionSummary, wanted: 'query' | 'action', name: string): SvcError {
  const shown = name.slice(0, 80);
  const [own, other] = wanted === 'query' ? [summary.queries, summary.actions] : [summary.actions, summary.queries];
  if (other.some((tool) => tool.name === name)) {
    const use = wanted === 'query' ? 'an action: call it through svc_write' : 'a query: call it through svc_read';
    return new SvcError('WRONG_KIND', `"${shown}" of "${app}" is ${use}.`);
  }
  const known =
    own
      .map((tool) => tool.name)
      .slice(0, 20)
      .join(', ') || 'none';
  return new SvcError(
    wanted === 'query' ? 'UNKNOWN_QUERY' : 'UNKNOWN_ACTION',
    `"${app}" has no ${wanted} "${shown}"; it has: ${known}.`,
  );
}
