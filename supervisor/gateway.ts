/** Defines the gateway, which the daemon and embedding hosts share (specification, "Gateway"). */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { LIMITS } from '../protocol/limits.ts';
import { nodeFault } from '../protocol/node-versions.ts';
import { isToken } from '../storage/token.ts';
import type { HostToolCall } from './agents/host-tools.ts';
import { type Config, ConfigError, resolveConfig, type Settings } from './config.ts';
import type { Deployments } from './deployments/deploy.ts';
import type { ExchangeHandler } from './edge/edge.ts';
import { type ExtensionPoints, GATEWAY_KINDS, type GatewayKind } from './extension-points.ts';
import type { Admits, Authorize } from './http/access/callers.ts';
import type { Identify } from './http/access/person.ts';
import type { McpAnswer } from './mcp/tools.ts';
import { createLog, streamOf } from './operations/log-stream.ts';
import type { Services } from './services.ts';
import type { Host } from './start/given-parts.ts';
import type { Assembly } from './wiring.ts';

export type GatewayOptions = Settings<Omit<Config, 'dataDir'>> &
  ExtensionPoints & {
    /** Where everything is kept; made when it is missing. One gateway owns it at a time. */
    dataDir: string;
    /** False when the embedding host checks who calls; the routes are then served without the Bearer check. */
    auth?: boolean;
    /**
     * Without the Bearer check and `authorize`, requests are served for names of this machine, `host`, `appDomain` and
     * `allowedHosts` only (421 `MISDIRECTED`), and from browsers only those of the gateway's own pages, of `corsOrigins`, or
     * that open a page in a tab (403 `FORBIDDEN`). True where the host checks that itself (specification,
     * "Requests of other sites"). Default false.
     */
    trustHost?: boolean;
    /**
     * The administrator's token, 64 hex characters, for a host that keeps it itself: it is then neither read from `token.bin` nor
     * written there.
     */
    token?: string;
    /** The gateway's kind in `profile.json`; by default `daemon`, and `plugin` with `auth: false`. */
    kind?: GatewayKind;
    /**
     * Without the Bearer check: whether a request may use a capability, decided at once. Without it every caller may do
     * everything, see `trustHost`.
     */
    authorize?: Authorize;
    /**
     * Without the Bearer check: who makes a request, decided at once; null for nobody, who is answered 401 `UNAUTHORIZED`, or left
     * to `authorize` where that is given too. A person may do what their roles allow, and no more than `authorize` allows where that
     * is given; handlers see them as `ctx.user` (specification, "People of a host").
     */
    identify?: Identify;
    /**
     * Without the Bearer check, instead of `authorize`: whether a request comes with what the host itself checks. Such a caller may
     * do everything. Others need a token for programs, or in a browser a session of this gateway: `POST /svc/_session/links` makes
     * the link that begins one (specification, "Embedding").
     */
    admits?: Admits;
    /** A pino logger of the host's; by default JSON lines on standard error. */
    logger?: Logger;
    /** Called when the gateway has stopped itself because the SQLite writer kept dying. */
    onFatal?: (reason: string) => void;
  };

/** Builds a gateway, which runs and writes nothing until `start`. Throws `ConfigError`. */
export function buildGateway(options: GatewayOptions): Gateway {
  const {
    auth = true,
    kind = auth ? 'daemon' : 'plugin',
    token,
    authorize,
    identify,
    admits,
    trustHost = false,
    logger,
    onFatal,
    conversationRunner,
    runnerStatus,
    fireAutomationFactory,
    ...settings
  } = options;
  checkCallers({ auth, token, authorize, identify, admits, trustHost: trustHost || undefined });
  if (!GATEWAY_KINDS.includes(kind)) throw new ConfigError(`"kind" must be ${GATEWAY_KINDS.join(', ')}.`, 'kind');
  const fault = nodeFault(process.versions.node);
  if (fault?.isTooOld) throw new ConfigError(`The gateway does not run here: ${fault.finding}. ${fault.advice}`);
  const config = resolveConfig(options.dataDir, settings);
  const log = logger ?? createLog(config);
  if (fault !== null) log.warn(`${fault.finding}. ${fault.advice}`);
  const extensions = { conversationRunner, runnerStatus, fireAutomationFactory };
  const host = { auth, authorize, identify, admits, trustHost, kind, token, extensions };
  return new Gateway(config, log, host, (reason) => onFatal?.(reason));
}

type CallerOptions = { auth: boolean; token: string | undefined } & Record<
  'authorize' | 'identify' | 'admits' | 'trustHost',
  unknown
>;

/** Throws `ConfigError` where options about who calls do not fit each other. */
function checkCallers({ auth, token, trustHost, ...functions }: CallerOptions): void {
  for (const [key, given] of Object.entries(functions))
    if (given !== undefined && typeof given !== 'function') throw new ConfigError(`"${key}" must be a function.`, key);
  const given = Object.entries({ ...functions, trustHost }).flatMap(([key, value]) => (value === undefined ? [] : key));
  if (auth && given[0] !== undefined)
    throw new ConfigError(`"${given[0]}" is for a host that owns authentication; set auth: false with it.`, given[0]);
  if (token !== undefined && !(auth && isToken(token)))
    throw new ConfigError('"token" must be 64 hex characters, and is not for a host with auth: false.', 'token');
  if (given.includes('admits') && given.length > 1)
    throw new ConfigError(
      'With "admits" the gateway decides the rest; leave out authorize, identify and trustHost.',
      'admits',
    );
}

type Listening = ReturnType<Services['listening']>;
/** A gateway that runs, with the code that only a started one needs: a host that builds one and waits has loaded little. */
type Running = { assembly: Assembly; handle: HandleRequest };
type HandleRequest = typeof import('./edge/node.ts').handleNodeRequest;

/** A gateway that was built. `start` before the first request, `stop` at the end. */
export class Gateway {
  readonly config: Config;
  readonly log: Logger;
  readonly #host: Omit<Host, 'listening' | 'onFatal'>;
  readonly #onFatal: (reason: string) => void;
  #starting: Promise<Running> | null = null;
  #running: Running | null = null;
  #stopped: Promise<void> | null = null;
  #listening: Listening = null;
  /** The host answers requests for our addresses itself, which was logged. */
  #isTaken = false;

  /** @internal `buildGateway` checks what it gives. */
  constructor(
    config: Config,
    log: Logger,
    host: Omit<Host, 'listening' | 'onFatal'>,
    onFatal: (reason: string) => void,
  ) {
    this.config = config;
    this.log = log;
    this.#host = host;
    this.#onFatal = onFatal;
  }

  /** Null without the Bearer check. It changes when the token is rotated. */
  get token(): string | null {
    return this.#host.auth ? (this.#running?.assembly.services.access?.token ?? null) : null;
  }

  /** Stores and activates an app folder's archive, as the upload route does. */
  get deployments(): Deployments {
    return this.#started().assembly.services.deployments;
  }

  /** Serves the requests of an edge, once the gateway was started. */
  get exchangeHandler(): ExchangeHandler {
    return this.#started().assembly.handle;
  }

  /**
   * Serves one request of a Node HTTP server. False when the path is not the gateway's and nothing was done. True, with a warning
   * in the log, for one of our paths that the host has begun to answer itself.
   */
  handle(req: IncomingMessage, res: ServerResponse): boolean {
    const { assembly, handle } = this.#started();
    const { pipeline } = assembly;
    // A framework that mounts us below a path may have shortened `url`; the whole one is what our routes are about.
    const url = (req as { originalUrl?: string }).originalUrl ?? req.url ?? '/';
    if (!pipeline.claims(url.split('?', 1)[0] as string, req.headers.host)) return false;
    if (res.headersSent || res.writableEnded) {
      this.#tellTaken(url);
      return true;
    }
    handle(req, res, {
      handler: assembly.handle,
      onFault: (error) => this.log.error({ err: error }, 'A request failed unexpectedly.'),
    });
    return true;
  }

  /**
   * Calls a tool of the dispatcher, or one for SQL, for an agent of the host. Rejects with `UNAUTHORIZED`, `UNKNOWN_TOOL` and
   * `INVALID_INPUT`; any other failure is an answer with `isError`.
   */
  async callTool(call: HostToolCall): Promise<McpAnswer> {
    const { callHostTool } = await import('./agents/host-tools.ts');
    return callHostTool(this.#started().assembly.services, call);
  }

  /** Tells status pages what listens. A node of a cluster then sees whether it is reached. */
  setListening(listening: NonNullable<Listening>): void {
    this.#listening = listening;
    void this.#running?.assembly.checkAddress();
  }

  /**
   * Ready for requests once it resolves. Rejects when the data directory is in use (`DATA_LOCKED`) or damaged, and with a
   * `ConfigError` when the log file cannot be opened.
   */
  async start(): Promise<void> {
    if (this.#starting) throw new Error('The gateway was already started.');
    this.#starting = this.#run();
    try {
      this.#running = await this.#starting;
    } catch (error) {
      this.#starting = null;
      throw error;
    }
  }

  /** As a node of a cluster, hands over what it has for up to `drainMs`, while requests are still accepted: `stop` comes after it. */
  async leave(drainMs: number = LIMITS.drainMs): Promise<void> {
    await this.#running?.assembly.leave(drainMs);
  }

  /** Lets calls end for up to `drainMs` (10 s), ends streams, flushes, stops every process. May be called twice. */
  stop(drainMs: number = LIMITS.drainMs): Promise<void> {
    if (!this.#starting) return Promise.resolve();
    this.#stopped ??= this.#starting
      .then(
        ({ assembly }) => assembly.end(drainMs),
        () => {},
      )
      .then(() => streamOf(this.log)?.drain());
    return this.#stopped;
  }

  /** Kills every process of the gateway, without asking and without waiting. */
  destroy(): void {
    this.#running?.assembly.services.tree.destroy();
  }

  async #run(): Promise<Running> {
    const [{ assemble }, { handleNodeRequest: handle }] = await Promise.all([
      import('./wiring.ts'),
      import('./edge/node.ts'),
    ]);
    const assembly = await assemble(this.config, this.log, {
      ...this.#host,
      listening: () => this.#listening,
      onFatal: (reason) => {
        this.log.fatal(reason);
        void this.stop(0).then(() => this.#onFatal(reason));
      },
    });
    return { assembly, handle };
  }

  /** Said once: a route of the host's at our addresses takes them all. */
  #tellTaken(url: string): void {
    if (this.#isTaken) return;
    this.#isTaken = true;
    const path = url.split('?', 1)[0]?.slice(0, LIMITS.textChars);
    this.log.warn(
      `The host has answered ${path} itself and handed it over then. Hand requests to the gateway before routes of the host's own, ` +
        'and keep those off the addresses of the gateway.',
    );
  }

  #started(): Running {
    if (!this.#running) throw new Error('The gateway has not been started.');
    return this.#running;
  }
}
