/**
 * Runs `ctx.tool`: tools of the automation's app, of the apps that its file names, and of MCP servers (specification,
 * "Context of a fire").
 */
import { SvcError } from '../../../protocol/errors.ts';
import type { DescribedApp } from '../../../protocol/routes/apps/tools-rows.ts';
import { isRecord } from '../../../protocol/shapes/shape.ts';
import type { AtOwner, WorkForApp } from '../../dispatch/at-owner.ts';
import { describeApps } from '../../dispatch/describe.ts';
import { appOf, type Dispatcher, type Target, toolOf } from '../../dispatch/dispatcher.ts';
import type { Scopes } from '../../dispatch/scope.ts';
import type { LiveAutomation } from '../catalog.ts';
import type { McpToolServers } from '../mcp-tool-servers.ts';

/** The MCP servers of the configuration. */
export type ToolServers = Pick<McpToolServers, 'callForJson'>;

/** The caller. `signal` aborts when the run ends, with the error for the call. */
type ToolCaller = { automation: LiveAutomation; traceId: string; signal: AbortSignal };

/** `json` is what the tool answered, as JSON text; `ok` is false for an action that answered with 400 or above. */
export type ToolAnswer = { json: Uint8Array; ok: boolean };

type Arguments = Record<string, unknown>;

/** A call of an app's tool, whose node may be another one. `by` is the automation. */
type AppCall = { kind: Target['kind']; tool: string; input: unknown; traceId: string; by: string };
type AppAnswer = { text: string; ok: boolean };

export class FireTools {
  readonly #dispatcher: Dispatcher;
  readonly #apps: Scopes;
  readonly #servers: ToolServers | null;
  readonly #query: WorkForApp<AppCall, AppAnswer>;
  readonly #action: WorkForApp<AppCall, AppAnswer>;
  readonly #description: WorkForApp<Arguments, unknown>;

  constructor(dispatcher: Dispatcher, apps: Scopes, servers: ToolServers | null, atOwner: AtOwner) {
    this.#dispatcher = dispatcher;
    this.#apps = apps;
    this.#servers = servers;
    const run: WorkForApp<AppCall, AppAnswer> = (app, call, signal) => this.#run(app, call, signal);
    // The run ends them, and the limits of the app.
    this.#query = atOwner('automation-query', { repeats: true, ms: null }, run);
    this.#action = atOwner('automation-action', { repeats: false, ms: null }, run);
    this.#description = atOwner('automation-describe', { repeats: true }, (app, args) =>
      describeApps(this.#apps, args, [app]),
    );
  }

  /** Rejects with `TOOL_REFUSED`, `UNKNOWN_TOOL`, `TOOL_SERVER_FAILED`, or what the tool itself fails with. */
  async call(caller: ToolCaller, name: string, args: unknown): Promise<ToolAnswer> {
    caller.signal.throwIfAborted();
    const { tools } = caller.automation.manifest.requires;
    if (tools && !tools.includes(name)) {
      throw new SvcError('TOOL_REFUSED', `"${shown(name)}" is not in "requires.tools" of "${caller.automation.ref}".`);
    }
    if (name === 'svc_read') return await this.#callApp(caller, 'query', argumentsOf(args));
    if (name === 'svc_write') return await this.#callApp(caller, 'action', argumentsOf(args));
    if (name === 'svc_describe') return await this.#describe(caller, argumentsOf(args));
    const dot = name.indexOf('.');
    if (dot > 0) return await this.#callServer(caller, name.slice(0, dot), name.slice(dot + 1), args);
    throw new SvcError(
      'UNKNOWN_TOOL',
      `There is no tool "${shown(name)}"; the tools are svc_describe, svc_read, svc_write, and <server>.<tool> of MCP servers.`,
    );
  }

  async #callApp(
    { automation, traceId, signal }: ToolCaller,
    kind: Target['kind'],
    args: Arguments,
  ): Promise<ToolAnswer> {
    const app = permitted(automation, appOf(args));
    const call = { kind, tool: toolOf(args, kind), input: args.input, traceId, by: automation.ref };
    const { text, ok } = await (kind === 'query' ? this.#query : this.#action)(app, call, signal);
    return { json: Buffer.from(text), ok };
  }

  async #run(app: string, { kind, tool, input, traceId, by }: AppCall, signal?: AbortSignal): Promise<AppAnswer> {
    const target = await this.#dispatcher.resolve(this.#apps.of(app), kind, tool);
    // It may have ended while the app was looked up.
    signal?.throwIfAborted();
    const body = Buffer.from(JSON.stringify({ input }));
    return await new Promise<AppAnswer>((resolve, reject) => {
      let callOff: () => void = () => {};
      const onAbort = () => {
        callOff();
        reject(signal?.reason as Error);
      };
      const settle = (then: () => void) => {
        signal?.removeEventListener('abort', onAbort);
        then();
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      callOff = this.#dispatcher.submit(
        target,
        { body, traceId: () => traceId, source: 'automation', caller: { kind: 'automation', name: by } },
        {
          // Also for a run that has ended meanwhile: its writes are stored.
          answered: (status, json) => {
            const answer = answerOf(kind, status, json);
            settle(() => resolve(answer));
          },
          failed: (error) => settle(() => reject(error)),
          faulted: (error) => settle(() => reject(error as Error)),
        },
      );
    });
  }

  async #describe({ automation, signal }: ToolCaller, args: Arguments): Promise<ToolAnswer> {
    const isOfAll = args.app === undefined && args.query === undefined && args.action === undefined;
    const described = isOfAll
      ? { apps: await Promise.all(appsOf(automation).map((app) => this.#lineOf(app, signal))) }
      : await this.#description(permitted(automation, appOf(args)), args, signal);
    return { json: Buffer.from(JSON.stringify(described) ?? 'null'), ok: true };
  }

  /** What a description of all apps says of one. */
  async #lineOf(app: string, signal: AbortSignal): Promise<DescribedApp> {
    try {
      const { apps } = (await this.#description(app, {}, signal)) as { apps: [DescribedApp] };
      return apps[0];
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      return { app, error: { code: error.code, message: error.message } };
    }
  }

  async #callServer(caller: ToolCaller, server: string, tool: string, args: unknown): Promise<ToolAnswer> {
    if (!this.#servers) {
      const message = `No MCP server is configured as "${server}"; this gateway has none.`;
      throw new SvcError('TOOL_SERVER_FAILED', message);
    }
    // As text both ways: what a server sends is not read here.
    const given = Buffer.from(JSON.stringify(args ?? {}));
    return { json: await this.#servers.callForJson(server, tool, given, caller.signal), ok: true };
  }
}

function appsOf({ app, manifest }: LiveAutomation): string[] {
  return [...new Set([app, ...(manifest.apps ?? [])])].sort();
}

/** The app, when the automation may use it. Throws `TOOL_REFUSED`. */
function permitted(automation: LiveAutomation, app: string): string {
  if (appsOf(automation).includes(app)) return app;
  throw new SvcError(
    'TOOL_REFUSED',
    `"${automation.ref}" may not use the app "${shown(app)}"; name it in "apps" of its automation.json.`,
    { path: 'app' },
  );
}

function argumentsOf(args: unknown): Arguments {
  if (args === undefined || args === null) return {};
  if (isRecord(args)) return args;
  throw new SvcError('BAD_REQUEST', 'The arguments of a tool must be an object.');
}

/** The memory of `json` belongs to the connection that it came on, and the answer leaves later. */
function answerOf(kind: Target['kind'], status: number, json: Uint8Array): AppAnswer {
  const text = Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString();
  if (kind === 'query') return { text, ok: true };
  return { text: `{"status":${status},"body":${text}}`, ok: status < 400 };
}

function shown(name: string): string {
  return name.slice(0, 80);
}
