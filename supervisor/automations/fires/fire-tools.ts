/**
 * `ctx.tool`: what an automation may call, and the way there (decisions, section 6). The three tools of the dispatcher go
 * the way that an HTTP call goes, to the automation's own app and to those that its file names.
 */
import { SvcError } from '../../../protocol/errors.ts';
import { ToolKind } from '../../../protocol/frames.ts';
import type { ActionSummary, QuerySummary } from '../../../protocol/manifest.ts';
import type { App } from '../../dispatch/apps.ts';
import { type Describing, describe } from '../../dispatch/describe.ts';
import {
  announce,
  appOf,
  type Dispatching,
  findAction,
  findQuery,
  newCall,
  toolOf,
} from '../../dispatch/dispatcher.ts';
import type { CallReply } from '../../tree/actor/call.ts';
import type { LiveAutomation } from '../catalog.ts';
import type { ToolServers } from './fire-request.ts';

/** Who calls. `signal` aborts when the run is over; its reason is what the call then rejects with. */
export type ToolCaller = { automation: LiveAutomation; traceId: string; signal: AbortSignal };

/** `json` is what the tool answered, as JSON text; `ok` is false for an action that answered with 400 or above. */
export type ToolAnswer = { json: Uint8Array; ok: boolean };

type Arguments = Record<string, unknown>;

const WRITE_SUFFIX = Buffer.from('}');

export class FireTools {
  readonly #gateway: Dispatching & Describing;
  readonly #servers: ToolServers | null;

  constructor(gateway: Dispatching & Describing, servers: ToolServers | null) {
    this.#gateway = gateway;
    this.#servers = servers;
  }

  /** Rejects with `TOOL_REFUSED`, `UNKNOWN_TOOL`, `TOOL_SERVER_FAILED`, or what the tool itself fails with. */
  async call(caller: ToolCaller, name: string, args: unknown): Promise<ToolAnswer> {
    caller.signal.throwIfAborted();
    const { tools } = caller.automation.manifest.requires;
    if (tools && !tools.includes(name)) {
      throw new SvcError('TOOL_REFUSED', `"${shown(name)}" is not in "requires.tools" of "${caller.automation.ref}".`);
    }
    if (name === 'svc_read') return await this.#read(caller, argumentsOf(args));
    if (name === 'svc_write') return await this.#write(caller, argumentsOf(args));
    if (name === 'svc_describe') return await this.#describe(caller, argumentsOf(args));
    const dot = name.indexOf('.');
    if (dot > 0) return await this.#callServer(caller, name.slice(0, dot), name.slice(dot + 1), args);
    throw new SvcError(
      'UNKNOWN_TOOL',
      `There is no tool "${shown(name)}"; the tools are svc_describe, svc_read, svc_write, and <server>.<tool> of MCP servers.`,
    );
  }

  async #read(caller: ToolCaller, args: Arguments): Promise<ToolAnswer> {
    const app = await this.#gateway.apps.get(permitted(caller, appOf(args)));
    return await this.#run(caller, app, findQuery(this.#gateway, app, toolOf(args, 'query')), null, args);
  }

  async #write(caller: ToolCaller, args: Arguments): Promise<ToolAnswer> {
    const app = await this.#gateway.apps.get(permitted(caller, appOf(args)));
    const action = findAction(this.#gateway, app, toolOf(args, 'action'));
    return await this.#run(caller, app, action, action, args);
  }

  #run(
    { signal, traceId }: ToolCaller,
    app: App,
    tool: QuerySummary,
    action: ActionSummary | null,
    { input }: Arguments,
  ): Promise<ToolAnswer> {
    return new Promise((resolve, reject) => {
      // It may have ended while the app was looked up.
      signal.throwIfAborted();
      const body = Buffer.from(JSON.stringify({ input }));
      const reply = new ToolReply(this.#gateway, app.key, action, resolve, reject);
      const kind = action ? ToolKind.action : ToolKind.query;
      const call = newCall(this.#gateway, tool, kind, body, traceId, reply);
      const actor = this.#gateway.apps.actor(app);
      const onAbort = () => {
        actor.abandon(call);
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', onAbort, { once: true });
      reply.onSettled = () => signal.removeEventListener('abort', onAbort);
      actor.submit(call);
    });
  }

  async #describe(caller: ToolCaller, args: Arguments): Promise<ToolAnswer> {
    if (args.app !== undefined) permitted(caller, appOf(args));
    return answerOf(await describe(this.#gateway, args, permittedApps(caller)));
  }

  async #callServer(caller: ToolCaller, server: string, tool: string, args: unknown): Promise<ToolAnswer> {
    if (!this.#servers?.has(server)) {
      throw new SvcError('TOOL_SERVER_FAILED', `No MCP server "${shown(server)}" is configured on this gateway.`);
    }
    // As text both ways: what a server sends is not read here.
    const given = Buffer.from(JSON.stringify(args ?? {}));
    return { json: await this.#servers.callForJson(server, tool, given, caller.signal), ok: true };
  }
}

/** Turns the answer of an app's tool into one of `ctx.tool`; tells the app's subscribers what an action wrote. */
class ToolReply implements CallReply {
  readonly #gateway: Dispatching;
  readonly #app: string;
  readonly #action: ActionSummary | null;
  readonly #resolve: (answer: ToolAnswer) => void;
  readonly #reject: (error: unknown) => void;
  onSettled: () => void = () => {};

  constructor(
    gateway: Dispatching,
    app: string,
    action: ActionSummary | null,
    resolve: (answer: ToolAnswer) => void,
    reject: (error: unknown) => void,
  ) {
    this.#gateway = gateway;
    this.#app = app;
    this.#action = action;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** Also for a run that has ended meanwhile: what was written was written. */
  result(status: number, body: Uint8Array): void {
    this.onSettled();
    if (!this.#action) {
      // Its memory belongs to the connection that it came on, and the answer leaves later.
      this.#resolve({ json: Buffer.from(body), ok: true });
      return;
    }
    announce(this.#gateway, this.#app, this.#action, status, 'automation');
    const json = Buffer.concat([Buffer.from(`{"status":${status},"body":`), body, WRITE_SUFFIX]);
    this.#resolve({ json, ok: status < 400 });
  }

  failed(error: SvcError): void {
    this.onSettled();
    this.#reject(error);
  }

  outcomeUnknown(): void {
    this.#gateway.changes.reset(this.#app);
  }

  faulted(error: unknown): void {
    this.onSettled();
    this.#reject(error);
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
  if (typeof args === 'object' && !Array.isArray(args)) return args as Arguments;
  throw new SvcError('BAD_REQUEST', 'The arguments of a tool must be an object.');
}

function answerOf(value: unknown): ToolAnswer {
  return { json: Buffer.from(JSON.stringify(value) ?? 'null'), ok: true };
}

function shown(name: string): string {
  return name.slice(0, 80);
}
