/**
 * Runs `ctx.tool`: tools of the automation's app, of the apps that its file names, and of MCP servers (specification,
 * "Context of a fire").
 */
import { SvcError } from '../../../protocol/errors.ts';
import { isRecord } from '../../../protocol/shapes/shape.ts';
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

export class FireTools {
  readonly #dispatcher: Dispatcher;
  readonly #apps: Scopes;
  readonly #servers: ToolServers | null;

  constructor(dispatcher: Dispatcher, apps: Scopes, servers: ToolServers | null) {
    this.#dispatcher = dispatcher;
    this.#apps = apps;
    this.#servers = servers;
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

  async #callApp(caller: ToolCaller, kind: Target['kind'], args: Arguments): Promise<ToolAnswer> {
    const scope = this.#apps.of(permitted(caller, appOf(args)));
    const target = await this.#dispatcher.resolve(scope, kind, toolOf(args, kind));
    const { signal, traceId } = caller;
    // It may have ended while the app was looked up.
    signal.throwIfAborted();
    const body = Buffer.from(JSON.stringify({ input: args.input }));
    return await new Promise<ToolAnswer>((resolve, reject) => {
      let callOff: () => void = () => {};
      const onAbort = () => {
        callOff();
        reject(signal.reason as Error);
      };
      const settle = (then: () => void) => {
        signal.removeEventListener('abort', onAbort);
        then();
      };
      signal.addEventListener('abort', onAbort, { once: true });
      callOff = this.#dispatcher.submit(
        target,
        {
          body,
          traceId: () => traceId,
          source: 'automation',
          caller: { kind: 'automation', name: caller.automation.ref },
        },
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

  async #describe(caller: ToolCaller, args: Arguments): Promise<ToolAnswer> {
    if (args.app !== undefined) permitted(caller, appOf(args));
    const described = await describeApps(this.#apps, args, permittedApps(caller));
    return { json: Buffer.from(JSON.stringify(described) ?? 'null'), ok: true };
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

function permittedApps({ automation }: ToolCaller): string[] {
  return [...new Set([automation.app, ...(automation.manifest.apps ?? [])])].sort();
}

/** The app, when the automation may use it. Throws `TOOL_REFUSED`. */
function permitted(caller: ToolCaller, app: string): string {
  if (permittedApps(caller).includes(app)) return app;
  throw new SvcError(
    'TOOL_REFUSED',
    `"${caller.automation.ref}" may not use the app "${shown(app)}"; name it in "apps" of its automation.json.`,
    { path: 'app' },
  );
}

function argumentsOf(args: unknown): Arguments {
  if (args === undefined || args === null) return {};
  if (isRecord(args)) return args;
  throw new SvcError('BAD_REQUEST', 'The arguments of a tool must be an object.');
}

/** The memory of `json` belongs to the connection that it came on, and the answer leaves later. */
function answerOf(kind: Target['kind'], status: number, json: Uint8Array): ToolAnswer {
  if (kind === 'query') return { json: Buffer.from(json), ok: true };
  return {
    json: Buffer.concat([Buffer.from(`{"status":${status},"body":`), json, Buffer.from('}')]),
    ok: status < 400,
  };
}

function shown(name: string): string {
  return name.slice(0, 80);
}
