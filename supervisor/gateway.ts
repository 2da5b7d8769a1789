/** A gateway: the type that the daemon and an embedding host share (specification, "What the service does"). */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { LIMITS } from '../protocol/limits.ts';
import { type Config, ConfigError, resolveConfig } from './config.ts';
import type { Deployments } from './deployments/deploy.ts';
import type { ExchangeHandler } from './edge/edge.ts';
import { handleNodeRequest } from './edge/node.ts';
import { type ExtensionPoints, GATEWAY_KINDS, type GatewayKind, unusedExtensionPoints } from './extension-points.ts';
import type { Authorize } from './http/access/caller.ts';
import { createLog, streamOf } from './operations/log-stream.ts';
import { type Assembly, assemble, disassemble } from './wiring.ts';

export type GatewayOptions = Partial<Omit<Config, 'dataDir'>> &
  ExtensionPoints & {
    /** Where everything is kept; made when it is missing. One gateway owns it at a time. */
    dataDir: string;
    /** False when the embedding host checks who calls; the routes are then served without the Bearer check. */
    auth?: boolean;
    /** What `profile.json` says that this gateway is; by default `daemon`, and `plugin` with `auth: false`. */
    kind?: GatewayKind;
    /**
     * Without the Bearer check: whether a request may use a capability, decided at once. Without it every page may do everything.
     */
    authorize?: Authorize;
    /** A pino logger of the host's; by default JSON lines on standard error. */
    logger?: Logger;
    /** Told when the gateway cannot go on (the SQLite writer does not stay up) and has stopped itself. */
    onFatal?: (reason: string) => void;
  };

/** A gateway that was built. `start` before the first request, `stop` at the end. */
export type Gateway = {
  readonly config: Config;
  readonly log: Logger;
  /** Null without the Bearer check. It changes when the token is rotated. */
  readonly token: string | null;
  /** Serves one request of a Node HTTP server. False when the path is not the gateway's and nothing was done. */
  handle(req: IncomingMessage, res: ServerResponse): boolean;
  /** The same for an edge. */
  readonly exchangeHandler: ExchangeHandler;
  /** Ready for requests once it resolves. Rejects when the data directory is in use (`DATA_LOCKED`) or damaged. */
  start(): Promise<void>;
  /** Lets calls end for up to `drainMs` (10 s), ends streams, flushes, stops every process. May be called twice. */
  stop(drainMs?: number): Promise<void>;
  /** Kills every process of the gateway, without asking and without waiting. */
  destroy(): void;
  /** Stores and activates an app folder's archive, as the upload route does. */
  readonly deployments: Deployments;
  /** Tells status pages what listens. */
  setListening(listening: { edge: 'uws' | 'node'; url: string }): void;
};

/** Builds a gateway; nothing runs and nothing is written until `start`. Throws `ConfigError`. */
export function buildGateway(options: GatewayOptions): Gateway {
  const {
    auth = true,
    kind = auth ? 'daemon' : 'plugin',
    authorize,
    logger,
    onFatal,
    conversationRunner,
    runnerStatus,
    fireAutomationFactory,
    ...settings
  } = options;
  const unused = unusedExtensionPoints(options);
  if (unused.length > 0)
    throw new ConfigError(`This version of the gateway does not support: ${unused.join(', ')}.`, unused[0]);
  if (auth && authorize !== undefined)
    throw new ConfigError('"authorize" is for a host that owns authentication; set auth: false with it.', 'authorize');
  if (!GATEWAY_KINDS.includes(kind)) throw new ConfigError(`"kind" must be ${GATEWAY_KINDS.join(', ')}.`, 'kind');
  const config = resolveConfig(options.dataDir, settings);
  const log = logger ?? createLog(config.log);
  return new RunningParts(config, auth, log, { authorize, conversationRunner, fireAutomationFactory, kind, onFatal });
}

/** What the host put in place of our own, and whom it wants told. */
type GivenParts = {
  [Name in 'authorize' | 'conversationRunner' | 'fireAutomationFactory' | 'onFatal']: GatewayOptions[Name] | undefined;
} & { kind: GatewayKind };

class RunningParts implements Gateway {
  readonly config: Config;
  readonly log: Logger;
  readonly #auth: boolean;
  readonly #given: GivenParts;
  #starting: Promise<Assembly> | null = null;
  #parts: Assembly | null = null;
  #stopped: Promise<void> | null = null;
  #listening: { edge: 'uws' | 'node'; url: string } | null = null;

  constructor(config: Config, auth: boolean, log: Logger, given: GivenParts) {
    this.config = config;
    this.#auth = auth;
    this.log = log;
    this.#given = given;
  }

  get token(): string | null {
    return this.#parts?.services.access?.token ?? null;
  }

  get deployments(): Deployments {
    return this.#started().services.deployments;
  }

  readonly exchangeHandler: ExchangeHandler = (exchange) => this.#started().pipeline.handle(exchange);

  handle(req: IncomingMessage, res: ServerResponse): boolean {
    const { pipeline } = this.#started();
    // A framework that mounts us below a path may have shortened `url`; the whole one is what our routes are about.
    const url = (req as { originalUrl?: string }).originalUrl ?? req.url ?? '/';
    if (!pipeline.claims(url.split('?', 1)[0] as string, req.headers.host)) return false;
    handleNodeRequest(req, res, {
      handler: this.exchangeHandler,
      onFault: (error) => this.log.error({ err: error }, 'A request failed unexpectedly.'),
    });
    return true;
  }

  setListening(listening: { edge: 'uws' | 'node'; url: string }): void {
    this.#listening = listening;
  }

  async start(): Promise<void> {
    if (this.#starting) throw new Error('The gateway was already started.');
    this.#starting = assemble(this.config, this.#auth, this.log, {
      ...this.#given,
      listening: () => this.#listening,
      onFatal: (reason) => {
        this.log.fatal(reason);
        void this.stop(0).then(() => this.#given.onFatal?.(reason));
      },
    });
    try {
      this.#parts = await this.#starting;
    } catch (error) {
      this.#starting = null;
      throw error;
    }
  }

  stop(drainMs: number = LIMITS.drainMs): Promise<void> {
    if (!this.#starting) return Promise.resolve();
    this.#stopped ??= this.#starting
      .then(
        (parts) => disassemble(parts, drainMs),
        () => {},
      )
      .then(() => streamOf(this.log)?.drain());
    return this.#stopped;
  }

  destroy(): void {
    this.#parts?.services.tree.destroy();
  }

  #started(): Assembly {
    if (!this.#parts) throw new Error('The gateway has not been started.');
    return this.#parts;
  }
}
