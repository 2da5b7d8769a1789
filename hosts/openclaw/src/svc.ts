/**
 * svc in the process of the host: one gateway, however often the plugin is registered, and through a reload of its configuration
 * (specification, "Hosts that exist").
 */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { isOfHost } from './admission.ts';
import { runFire } from './fires.ts';
import type { HostConfig, HostLogger, PluginApi, ServiceContext } from './host-api.ts';
import { Child } from './process/child.ts';
import type { FireOrder, StartOrder, ToolAnswer, ToolOrder, TurnOrder } from './process/exchanged.ts';
import { type Program, removeOthers, unpacked } from './program.ts';
import { Forwarder, unavailable } from './proxy.ts';
import { hostKey, isOurs } from './session.ts';
import { CONFIG_PATH, hostUrl, type Settings, settingsOf } from './settings.ts';
import { TOOL_NAMES } from './tools.ts';
import { runTurn } from './turns.ts';
import { checkHost, nodeFault } from './versions.ts';

/** After the host has stopped the plugin's service: until it starts it again, if it only reloads. */
const RELOAD_MS = 10_000;
/** Restarts of a gateway that ended by itself: the first wait, doubled up to the last. */
const RETRY_MS = [1000, 60_000] as const;

type Running = { child: Child; socket: string; order: StartOrder; node: string; program: Program };

export class Svc {
  /** Of the registration that serves now: those before it may do nothing more. */
  #api: PluginApi | null = null;
  #settings: Settings | null = null;
  #running: Running | null = null;
  #fault: string | null = null;
  /** Starts and stops, one after the other. */
  #turn: Promise<void> = Promise.resolve();
  #reload: NodeJS.Timeout | null = null;
  #retry: NodeJS.Timeout | null = null;
  #retryMs: number = RETRY_MS[0];
  /** The tokens of turns that run, by the host's session key in lower case. */
  readonly #tokens = new Map<string, string>();
  readonly #proxy = new Forwarder();
  /** The host was told to end. */
  #isLast = false;

  constructor() {
    for (const signal of ['SIGTERM', 'SIGINT'] as const)
      process.prependListener(signal, () => {
        this.#isLast = true;
      });
  }

  /** Starts the gateway, or keeps the one that runs with the same settings. Rejects in words. */
  start(api: PluginApi, { config, stateDir, logger }: ServiceContext): Promise<void> {
    this.#api = api;
    clearTimeout(this.#reload ?? undefined);
    return this.#inTurn(() => this.#start(config, stateDir, logger));
  }

  /** Ends the gateway: at once when the host ends, else unless it starts again. */
  async stop(): Promise<void> {
    clearTimeout(this.#retry ?? undefined);
    if (this.#isLast) return await this.#inTurn(() => this.#end());
    this.#reload = setTimeout(() => void this.#inTurn(() => this.#end()), RELOAD_MS);
    this.#reload.unref();
  }

  /** Serves a request of the host's server. */
  handle(req: IncomingMessage, res: ServerResponse): boolean {
    const api = this.#api;
    if (this.#running === null || api === null) {
      unavailable(res, this.#fault ?? 'svc is starting.');
      return true;
    }
    const { socket, order } = this.#running;
    const isHosts = isOfHost(req, api.runtime.config.current(), process.env);
    this.#proxy.forward(req, res, { socket, proof: isHosts ? order.proof : null });
    return true;
  }

  /** Calls a tool for an agent of the host. Rejects in words where there is no gateway. */
  async callTool(call: ToolOrder, sessionKey: string | undefined, signal?: AbortSignal): Promise<ToolAnswer> {
    if (this.#running === null) throw new Error(this.#fault ?? 'svc is starting; try again in a second.');
    const token = this.#tokens.get((sessionKey ?? '').toLowerCase());
    if (token === undefined && isOurs(sessionKey)) throw new Error('The turn of this agent has ended.');
    return (await this.#running.child.peer.call('tool', { ...call, token }, signal)) as ToolAnswer;
  }

  async #start(config: HostConfig, stateDir: string, logger: HostLogger): Promise<void> {
    const settings = settingsOf(config, stateDir);
    const url = hostUrl(config, process.env, process.argv);
    this.#settings = settings;
    const { dataDir, gateway, node } = settings;
    const wanted = { dataDir, settings: gateway, url };
    const program = await unpacked(stateDir);
    if (this.#running !== null) {
      const { order: now, ...ran } = this.#running;
      const known = {
        dataDir: now.dataDir,
        settings: now.settings,
        url: now.url,
        node: ran.node,
        program: ran.program,
      };
      if (isDeepStrictEqual(known, { ...wanted, node, program })) return;
      await this.#end();
    }
    this.#fault = this.#faultOf(node, logger);
    if (this.#fault !== null) throw new Error(this.#fault);
    const order = { ...wanted, proof: randomBytes(32).toString('hex'), hostPid: process.pid };
    try {
      const started = await Child.start({
        file: program.gateway,
        node,
        order,
        answers: this.#answers(),
        onLine: (line) => tell(line, logger),
        onLost: () => this.#lost(config, stateDir, logger),
      });
      this.#running = { ...started, order, node, program };
      removeOthers(stateDir, program);
      this.#retryMs = RETRY_MS[0];
      logger.info(`svc serves ${url}/svc/ from ${dataDir}.`);
    } catch (error) {
      this.#fault = `svc did not start: ${(error as Error).message}`;
      throw new Error(this.#fault);
    }
  }

  #faultOf(node: string, logger: HostLogger): string | null {
    const api = this.#api as PluginApi;
    const missing = typeof api.runtime.agent?.runEmbeddedAgent === 'function' ? [] : ['runtime.agent.runEmbeddedAgent'];
    const { refusal, warning } = checkHost(api.runtime.version, missing);
    if (warning !== undefined) logger.warn(warning);
    return refusal ?? nodeFault(node, CONFIG_PATH);
  }

  /** Its gateway ended by itself: the next one brings everything back that was acknowledged. */
  #lost(config: HostConfig, stateDir: string, logger: HostLogger): void {
    this.#running = null;
    this.#fault = `svc's gateway ended, and starts again in ${this.#retryMs / 1000} s.`;
    logger.error(this.#fault);
    this.#retry = setTimeout(() => {
      this.#inTurn(() => this.#start(config, stateDir, logger)).catch((error: Error) => {
        logger.error(error.message);
        this.#lost(config, stateDir, logger);
      });
    }, this.#retryMs);
    this.#retry.unref();
    this.#retryMs = Math.min(2 * this.#retryMs, RETRY_MS[1]);
  }

  async #end(): Promise<void> {
    const running = this.#running;
    this.#running = null;
    this.#fault = null;
    await running?.child.end();
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }

  #answers() {
    return {
      turn: async (order: TurnOrder, signal: AbortSignal) => {
        const api = this.#api as PluginApi;
        const { agentId } = this.#settings as Settings;
        const key = hostKey(agentId, order.conversation).toLowerCase();
        const peer = this.#running?.child.peer;
        const emit = (event: { type: string }) => {
          peer?.call('event', { turnId: order.turnId, event }).catch(() => {});
        };
        this.#tokens.set(key, order.token);
        try {
          await runTurn(order, { api, agentId, tools: TOOL_NAMES, emit }, signal);
        } finally {
          if (this.#tokens.get(key) === order.token) this.#tokens.delete(key);
        }
      },
      fire: (order: FireOrder, signal: AbortSignal) => {
        const peer = this.#running?.child.peer;
        return runFire(order, async (asked) => await peer?.call('ask', asked), signal);
      },
    };
  }
}

/** A line of the gateway's log, in the host's. */
function tell(line: string, logger: HostLogger): void {
  let entry: { level?: unknown; msg?: unknown };
  try {
    entry = JSON.parse(line) as typeof entry;
  } catch {
    entry = { level: 40, msg: line };
  }
  const { level, msg } = entry;
  const how = typeof level === 'number' && level >= 50 ? 'error' : level === 40 ? 'warn' : 'info';
  if (typeof msg === 'string' && msg !== '') logger[how](msg);
}

const KEY = Symbol.for('svc-openclaw');

/** The one of this process: the host may load the plugin's modules more than once. */
export function theSvc(): Svc {
  const known = globalThis as { [KEY]?: Svc };
  known[KEY] ??= new Svc();
  return known[KEY];
}
