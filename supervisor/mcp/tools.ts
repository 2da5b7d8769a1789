/**
 * Offers tools to MCP clients: the dispatcher's three, or each query and action of one app as a separate tool (specification,
 * "MCP server").
 */
import { SvcError } from '../../protocol/errors.ts';
import { causeOf, type HandlerCaller } from '../../protocol/wire/handler-caller.ts';
import type { DraftCheck } from '../authoring/draft-check.ts';
import type { Dispatcher, Sink, Target } from '../dispatch/dispatcher.ts';
import type { Confirm } from '../dispatch/request.ts';
import { allowsTool } from '../dispatch/roles.ts';
import type { Scope, Scopes } from '../dispatch/scope.ts';
import { newTraceId } from '../tree/actor/call.ts';
import type { AppPage } from './app-page.ts';
import { type Entry, tableOf } from './app-tools.ts';
import { checkArguments, DISPATCHER_TOOLS, DRAFT_CHECK, type McpTool, SQL_TOOLS } from './definitions.ts';
import {
  type McpContent,
  type McpResource,
  type McpResourceTemplate,
  type QueryResource,
  queryOfUri,
  queryResources,
  queryTemplate,
} from './mcp-resources.ts';
import type { FollowedResource } from './subscriptions.ts';

/** A tool's answer as JSON text. `structured`: the tool promised an object, and this is one. */
export type McpAnswer = { text: string; isError: boolean; structured: boolean };

/** `confirm` asks a person before an action that wants it runs. */
export type McpCall = {
  name: string;
  args: Record<string, unknown>;
  traceId: string;
  signal?: AbortSignal;
  confirm?: Confirm | undefined;
};

/** The tools and resources of one address for one caller. */
export type McpTools = {
  /** For people, and for agents that read instructions. */
  title: string;
  instructions: string;
  /** How its person is asked, where that does not depend on the client. */
  confirm: Confirm | undefined;
  list(): Promise<McpTool[]>;
  /** Rejects with `UNKNOWN_TOOL` and `INVALID_INPUT`, which are errors of the protocol; any other error of a tool is an answer. */
  call(call: McpCall): Promise<McpAnswer>;
  resources(): Promise<McpResource[]>;
  templates(): Promise<McpResourceTemplate[]>;
  /** Null when there is no such resource. Rejects with the error of a query. */
  read(uri: string, signal: AbortSignal): Promise<McpContent | null>;
  /**
   * The query to follow for a subscription; null when the resource is not a query's result. Rejects with `FORBIDDEN` and
   * `INVALID_INPUT`.
   */
  follow(uri: string): Promise<FollowedResource | null>;
};

/** Checks the caller's rights before each call, as over HTTP. Throws or rejects with `FORBIDDEN`. */
export type Permit = (capability: 'read' | 'write', app: string) => undefined | Promise<void>;

/** The caller. `source` is the source in change events of its writes. */
export type McpCaller = {
  source: 'handler' | 'agent';
  /** The caller as handlers of an app see it, by its key. */
  shown(key: string): HandlerCaller;
  /** The client for limits per client. */
  client: string;
  permit: Permit;
  /** Whether it may read an app, by its key, now: what was presented may have ended. */
  mayRead(key: string): boolean;
  /** Whose data it may reach by SQL. Throws `FORBIDDEN`. */
  demandSql(app: string, capability: 'read' | 'write'): void;
  /** Asks the person whose agent it is. */
  confirm?: Confirm;
};

type DispatcherCaller = McpCaller & {
  /** The answer of `svc_describe` for this caller. */
  describe(body: Record<string, unknown>): Promise<unknown>;
  /** Whether there is an app whose queries (`read`) or actions (`write`) it may call. */
  mayCall(capability: 'read' | 'write'): Promise<boolean>;
  /** Whether there is an app for which `demandSql` does not throw. */
  maySql(capability: 'read' | 'write'): Promise<boolean>;
};

/** The tools of `/svc/_mcp`. */
export function dispatcherTools(dispatcher: Dispatcher, scopes: Scopes, caller: DispatcherCaller): McpTools {
  const { permit, describe, mayCall, maySql } = caller;
  return {
    title: 'svc',
    confirm: caller.confirm,
    instructions:
      'A gateway to small apps. Call svc_describe to see the apps and what they can do, svc_read to run a query of an app, ' +
      'svc_write to run an action.',
    list: async () => {
      const calls = await allowedBy(mayCall);
      const sql = await allowedBy(maySql);
      return [...DISPATCHER_TOOLS.filter(calls), ...SQL_TOOLS.map(({ shown }) => shown).filter(sql)];
    },
    call: async ({ name, args, traceId, signal, confirm }) => {
      const sql = SQL_TOOLS.find(({ shown }) => shown.name === name);
      const tool = sql?.shown ?? DISPATCHER_TOOLS.find((one) => one.name === name);
      if (!tool) throw unknownTool(name, DISPATCHER_TOOLS);
      checkArguments(tool, args);
      return await answerOf(async () => {
        if (sql) return await callSql(dispatcher, scopes, caller, sql, args, traceId, signal);
        if (name === 'svc_describe') return answerWith(await describe(args));
        const kind = name === 'svc_read' ? 'query' : 'action';
        const { app, input = {} } = args as { app: string; input?: unknown };
        await permit(kind === 'query' ? 'read' : 'write', app);
        const target = await dispatcher.resolve(scopes.of(app), kind, args[kind] as string);
        const options = { caller, traceId, signal, promisesObject: false, confirm };
        return await run(dispatcher, target, JSON.stringify(input), options);
      });
    },
    resources: async () => [],
    templates: async () => ((await mayCall('read')) ? [queryTemplate(null)] : []),
    read: async (uri, signal) => {
      const named = queryOfUri(uri);
      return named && jsonContent(await readQuery(dispatcher, scopes.of(named.app), caller, named, signal));
    },
    follow: async (uri) => {
      const named = queryOfUri(uri);
      return named && (await followQuery(scopes.of(named.app), caller, named));
    },
  };
}

/**
 * `maySql`: whether it has the tools that read its tables, or write them, unless it has tools of their names. `check` of a draft, for
 * callers that may know what it finds. `page` for clients that show pages, where it has one.
 */
type AppOptions = {
  maySql(capability: 'read' | 'write'): boolean;
  check?: (() => Promise<DraftCheck>) | undefined;
  page?: AppPage | null;
};

/**
 * The tools of a live app or draft, as the version has them that serves now. Its `scopes` are those that its own tools may name.
 * Rejects with its error, such as `UNKNOWN_APP` and `NO_ACTIVE_VERSION`; a draft with a fault has tools, and answers their calls
 * with it.
 */
export async function appTools(
  dispatcher: Dispatcher,
  scopes: Scopes,
  app: string,
  caller: McpCaller,
  { maySql, check: given, page = null }: AppOptions,
): Promise<McpTools> {
  const { permit } = caller;
  const scope = scopes.of(app);
  const { manifest, fault } = await scope.code();
  const { tools, byName } = manifest === null ? { tools: [], byName: new Map<string, Entry>() } : tableOf(manifest);
  const manifestUri = `svc://${app}/app.json`;
  const tablesUri = `svc://${app}/tables`;
  const ownQuery = (uri: string): QueryResource | null => {
    const named = queryOfUri(uri);
    return named?.app === app ? named : null;
  };
  const sqlTools = SQL_TOOLS.filter(({ mode, shown }) => maySql(capabilityOf(mode)) && !byName.has(shown.name));
  const check = byName.has(DRAFT_CHECK.name) ? undefined : given;
  const opening = page !== null && !byName.has(page.tool.name) ? page : null;
  const may = (capability: 'read' | 'write') => permitted(permit, capability, app);
  const allows = (kind: Target['kind'], name: string) =>
    allowsTool(kind, name, caller.shown(scope.key), manifest?.roles);
  return {
    title: manifest?.name ?? app,
    confirm: caller.confirm,
    instructions:
      `The tools of the app "${app}". Queries only read; actions change its data. ` +
      `The resource ${manifestUri} is its manifest, ${tablesUri} has its tables.`,
    list: async () => {
      const mark = (tool: McpTool, own?: Entry): McpTool =>
        page === null ? tool : page.marked(tool, { opensPage: own?.opensPage === true, forPage: own !== undefined });
      const shown = [
        ...tools.filter(({ kind, own }) => allows(kind, own)).map((tool) => mark(tool.shown, tool)),
        ...(opening === null ? [] : [opening.tool]),
        ...sqlTools.map((tool) => mark(tool.shown)),
      ].filter(await allowedBy(may));
      return check === undefined ? shown : [...shown, mark(DRAFT_CHECK)];
    },
    call: async ({ name, args, traceId, signal, confirm }) => {
      const sql = sqlTools.find(({ shown }) => shown.name === name);
      if (sql) {
        checkArguments(sql.shown, args);
        return await answerOf(() => callSql(dispatcher, scopes, caller, sql, args, traceId, signal));
      }
      if (check !== undefined && name === DRAFT_CHECK.name) {
        checkArguments(DRAFT_CHECK, args);
        return await answerOf(async () => answerWith(await check()));
      }
      if (opening !== null && name === opening.tool.name) {
        checkArguments(opening.tool, args);
        return await answerOf(async () => {
          await permit('read', app);
          return { text: opening.opened, isError: false, structured: false };
        });
      }
      const tool = byName.get(name);
      if (!tool) {
        // Whether it is a tool is known once the fault is repaired.
        if (fault !== null) return await answerOf(() => Promise.reject(fault));
        throw unknownTool(
          name,
          tools.map(({ shown }) => shown),
        );
      }
      return await answerOf(async () => {
        await permit(tool.kind === 'query' ? 'read' : 'write', app);
        const target = await dispatcher.resolve(scope, tool.kind, tool.own);
        const promisesObject = tool.shown.outputSchema !== undefined;
        const options = { caller, traceId, signal, promisesObject, confirm };
        return await run(dispatcher, target, JSON.stringify(args), options);
      }, true);
    },
    resources: async () => {
      if (!(await may('read'))) return [];
      return [
        { uri: manifestUri, name: 'app.json', description: `The manifest of "${app}".`, mimeType: 'application/json' },
        { uri: tablesUri, name: 'tables', description: `The tables of "${app}".`, mimeType: 'application/json' },
        ...(page === null ? [] : [page.resource]),
        ...queryResources(app, { queries: (manifest?.queries ?? []).filter(({ name }) => allows('query', name)) }),
      ];
    },
    templates: async () => ((await may('read')) ? [queryTemplate(app)] : []),
    read: async (uri, signal) => {
      await permit('read', app);
      if (uri === manifestUri) {
        if (fault !== null) throw fault;
        return jsonContent(JSON.stringify(manifest, null, 2));
      }
      if (uri === tablesUri)
        return jsonContent((await runSql(dispatcher, scope, caller, { mode: 'describe' }, newTraceId(), signal)).text);
      const named = ownQuery(uri);
      if (named !== null) return jsonContent(await readQuery(dispatcher, scope, caller, named, signal));
      return page && (await page.read(uri));
    },
    follow: async (uri) => {
      const named = ownQuery(uri);
      return named && (await followQuery(scope, caller, named));
    },
  };
}

function jsonContent(text: string): McpContent {
  return { mimeType: 'application/json', text };
}

/** The result of a query as JSON text. Rejects with the error to answer. */
async function readQuery(
  dispatcher: Dispatcher,
  scope: Scope,
  caller: McpCaller,
  { query, input }: QueryResource,
  signal: AbortSignal,
): Promise<string> {
  await caller.permit('read', scope.app);
  const target = await dispatcher.resolve(scope, 'query', query);
  const options = { caller, traceId: newTraceId(), signal, promisesObject: false };
  return (await run(dispatcher, target, input, options)).text;
}

async function followQuery(
  scope: Scope,
  caller: McpCaller,
  { query, input }: QueryResource,
): Promise<FollowedResource> {
  await caller.permit('read', scope.app);
  const { client } = caller;
  return {
    request: { scope, query, input, caller: caller.shown(scope.key), client },
    may: () => caller.mayRead(scope.key),
  };
}

/** Says of a tool whether a caller that may do this is shown it: what does not only read needs `write`. */
async function allowedBy(may: (capability: 'read' | 'write') => Promise<boolean>): Promise<(tool: McpTool) => boolean> {
  const [read, write] = [await may('read'), await may('write')];
  return ({ annotations }) => (annotations.readOnlyHint ? read : write);
}

async function permitted(permit: Permit, capability: 'read' | 'write', app: string): Promise<boolean> {
  try {
    await permit(capability, app);
    return true;
  } catch (error) {
    if (error instanceof SvcError && error.code === 'FORBIDDEN') return false;
    throw error;
  }
}

type RunOptions = {
  caller: McpCaller;
  traceId: string;
  signal: AbortSignal | undefined;
  promisesObject: boolean;
  confirm?: Confirm | undefined;
};

/** Runs a tool with an input, which is JSON text, and takes what it answered as text. */
function run(
  dispatcher: Dispatcher,
  target: Target,
  input: string,
  { caller, traceId, signal, promisesObject, confirm }: RunOptions,
): Promise<McpAnswer> {
  return new Promise((resolve, reject) => {
    const { source } = caller;
    const request = {
      body: Buffer.from(`{"input":${input}}`),
      traceId: () => traceId,
      source,
      caller: caller.shown(target.app.key),
      confirm,
    };
    const sink = new AnswerSink(promisesObject, resolve, reject);
    onAbort(signal, dispatcher.submit(target, request, sink));
  });
}

function capabilityOf(mode: (typeof SQL_TOOLS)[number]['mode']): 'read' | 'write' {
  return mode === 'write' ? 'write' : 'read';
}

/** Calls one of `SQL_TOOLS`, with arguments that were checked. Rejects with `FORBIDDEN` before anything runs. */
async function callSql(
  dispatcher: Dispatcher,
  scopes: Scopes,
  caller: McpCaller,
  { mode }: (typeof SQL_TOOLS)[number],
  args: Record<string, unknown>,
  traceId: string,
  signal?: AbortSignal,
): Promise<McpAnswer> {
  const { app, ...statement } = args as { app: string };
  caller.demandSql(app, capabilityOf(mode));
  return await runSql(dispatcher, scopes.of(app), caller, { mode, ...statement }, traceId, signal);
}

/** Runs a statement; what it writes counts as written by an agent. */
function runSql(
  dispatcher: Dispatcher,
  scope: Scope,
  { shown }: Pick<McpCaller, 'shown'>,
  statement: { mode: string; sql?: string; params?: unknown },
  traceId: string,
  signal?: AbortSignal,
): Promise<McpAnswer> {
  return new Promise((resolve, reject) => {
    const cause = { source: 'agent', ...causeOf(shown(scope.key)) } as const;
    const request = { body: Buffer.from(JSON.stringify(statement)), traceId: () => traceId, ...cause };
    const submitted = dispatcher.sql(scope, request, new AnswerSink(false, resolve, reject));
    submitted.then((callOff) => onAbort(signal, callOff)).catch(reject);
  });
}

function answerWith(value: unknown): McpAnswer {
  return { text: JSON.stringify(value), isError: false, structured: false };
}

/** The client may have left already. */
function onAbort(signal: AbortSignal | undefined, callOff: () => void): void {
  if (signal?.aborted) callOff();
  else signal?.addEventListener('abort', callOff, { once: true });
}

class AnswerSink implements Sink {
  readonly #promisesObject: boolean;
  readonly #resolve: (answer: McpAnswer) => void;
  readonly failed: (error: SvcError) => void;
  readonly faulted: (error: unknown) => void;

  constructor(promisesObject: boolean, resolve: (answer: McpAnswer) => void, reject: (error: unknown) => void) {
    this.#promisesObject = promisesObject;
    this.#resolve = resolve;
    this.failed = reject;
    this.faulted = reject;
  }

  answered(status: number, bytes: Uint8Array): void {
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
    if (status >= 400) this.#resolve({ text: `{"status":${status},"body":${text}}`, isError: true, structured: false });
    else this.#resolve({ text, isError: false, structured: this.#promisesObject && text.startsWith('{') });
  }
}

/**
 * An error of a tool is its answer, for the model to read. With `isDirect` the arguments are the tool's own input, and a bad one
 * is an error of the protocol; so is a tool that went away with its version.
 */
async function answerOf(work: () => Promise<McpAnswer>, isDirect = false): Promise<McpAnswer> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    if (isDirect && error.code === 'INVALID_INPUT') throw error;
    if (isDirect && (error.code === 'UNKNOWN_QUERY' || error.code === 'UNKNOWN_ACTION')) {
      throw new SvcError('UNKNOWN_TOOL', error.message);
    }
    return { text: JSON.stringify({ isError: true, error: error.toBody() }), isError: true, structured: false };
  }
}

function unknownTool(name: string, tools: McpTool[]): SvcError {
  const names = tools.slice(0, 20).map((tool) => tool.name);
  return new SvcError(
    'UNKNOWN_TOOL',
    `There is no tool "${name.slice(0, 80)}"; the tools are: ${names.join(', ') || 'none'}.`,
  );
}
