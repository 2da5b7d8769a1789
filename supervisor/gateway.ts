/** Wires the parts of a gateway; the type that the daemon and an embedding host share (specification, "What the service does"). */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { type Logger, pino } from 'pino';
import { LIMITS } from '../protocol/limits.ts';
import { AppLogs } from '../storage/app-log.ts';
import { writeFileAtomic } from '../storage/atomic-file.ts';
import { Children, reapChildren } from '../storage/children.ts';
import { acquireDataLock, type DataLock } from '../storage/data-lock.ts';
import { Layout } from '../storage/layout.ts';
import { Registry } from '../storage/registry.ts';
import { sweepTmp, sweepTrash } from '../storage/trash.ts';
import { Apps } from './apps.ts';
import { Access } from './auth.ts';
import { ChangeStreams } from './changes.ts';
import { type Config, ConfigError, resolveConfig } from './config.ts';
import { ConsoleFiles } from './console-files.ts';
import { Databases } from './databases.ts';
import { Deployments } from './deploy.ts';
import type { ExchangeHandler } from './edge/edge.ts';
import { handleNodeRequest } from './edge/node.ts';
import { consoleFile, entryPoint, packageRoot } from './entry-points.ts';
import { Frontend } from './frontend.ts';
import { Idempotency } from './idempotency.ts';
import { Jobs } from './jobs.ts';
import { Pages } from './pages.ts';
import { Preferences } from './preferences.ts';
import { type Route, Router } from './router.ts';
import { pageRoutes } from './routes/pages.ts';
import { registryRoutes } from './routes/registry.ts';
import { settingsRoutes } from './routes/settings.ts';
import { systemRoutes } from './routes/system.ts';
import { toolRoutes } from './routes/tools.ts';
import { type Seams, unusedSeams } from './seams.ts';
import type { Services } from './services.ts';
import { Tree } from './tree/tree.ts';

export type GatewayOptions = Partial<Omit<Config, 'dataDir'>> &
  Seams & {
    /** Where everything is kept; made when it is missing. One gateway owns it at a time. */
    dataDir: string;
    /** False when the embedding host checks who calls; the routes are then served without the Bearer check. */
    auth?: boolean;
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

export const VERSION: string = (
  JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string }
).version;

/** Every route, for the router and for the documentation's test. */
export function allRoutes(services: Services): Route[] {
  return [
    ...toolRoutes(services),
    ...registryRoutes(services),
    ...settingsRoutes(services),
    ...systemRoutes(services),
    ...pageRoutes(services),
  ];
}

/** Builds a gateway; nothing runs and nothing is written until `start`. Throws `ConfigError`. */
export function buildGateway(options: GatewayOptions): Gateway {
  const {
    auth = true,
    logger,
    onFatal,
    conversationRunner,
    runnerStatus,
    fireAutomationFactory,
    appsStoreRoot,
    ...settings
  } = options;
  const unused = unusedSeams(options);
  if (unused.length > 0)
    throw new ConfigError(`This version of the gateway has no use for: ${unused.join(', ')}.`, unused[0]);
  const config = resolveConfig(options.dataDir, settings);
  const log = logger ?? pino({ level: config.log, base: null }, pino.destination(2));
  return new RunningParts(config, auth, log, onFatal);
}

class RunningParts implements Gateway {
  readonly config: Config;
  readonly log: Logger;
  readonly #auth: boolean;
  readonly #onFatal: ((reason: string) => void) | undefined;
  #parts: Parts | null = null;
  #stopped: Promise<void> | null = null;
  #listening: { edge: 'uws' | 'node'; url: string } | null = null;

  constructor(config: Config, auth: boolean, log: Logger, onFatal: ((reason: string) => void) | undefined) {
    this.config = config;
    this.#auth = auth;
    this.log = log;
    this.#onFatal = onFatal;
  }

  get token(): string | null {
    return this.#parts?.services.access?.token ?? null;
  }

  get deployments(): Deployments {
    return this.#started().services.deployments;
  }

  readonly exchangeHandler: ExchangeHandler = (exchange) => this.#started().frontend.handle(exchange);

  handle(req: IncomingMessage, res: ServerResponse): boolean {
    const { router } = this.#started();
    // A framework that mounts us below a path may have shortened `url`; the whole one is what our routes are about.
    const url = (req as { originalUrl?: string }).originalUrl ?? req.url ?? '/';
    if (!router.claims(url.split('?', 1)[0] as string)) return false;
    handleNodeRequest(req, res, {
      handler: this.exchangeHandler,
      onFault: (error) => this.log.error({ err: error }, 'a request failed unexpectedly'),
    });
    return true;
  }

  setListening(listening: { edge: 'uws' | 'node'; url: string }): void {
    this.#listening = listening;
  }

  async start(): Promise<void> {
    if (this.#parts) throw new Error('The gateway was started before.');
    this.#parts = await startParts(this.config, this.#auth, this.log, {
      listening: () => this.#listening,
      onFatal: (reason) => {
        this.log.fatal(reason);
        void this.stop(0).finally(() => this.#onFatal?.(reason));
      },
    });
  }

  stop(drainMs: number = LIMITS.drainMs): Promise<void> {
    this.#stopped ??= this.#parts ? stopParts(this.#parts, drainMs) : Promise.resolve();
    return this.#stopped;
  }

  destroy(): void {
    this.#parts?.services.tree.destroy();
  }

  #started(): Parts {
    if (!this.#parts) throw new Error('The gateway has not been started.');
    return this.#parts;
  }
}

type Parts = {
  services: Services;
  router: Router;
  frontend: Frontend;
  jobs: Jobs;
  lock: DataLock;
  sweeping: NodeJS.Timeout;
};

async function startParts(
  config: Config,
  auth: boolean,
  log: Logger,
  hooks: { listening: Services['listening']; onFatal(reason: string): void },
): Promise<Parts> {
  const layout = new Layout(config.dataDir, config.appsDir ?? undefined);
  const lock = acquireDataLock(layout.lock);
  let tree: Tree | null = null;
  try {
    const reaped = await reapChildren(layout.children);
    if (reaped.length > 0)
      log.warn({ pids: reaped.map((child) => child.pid) }, 'processes of a gateway that died were ended');
    const children = new Children(layout.children, randomUUID());
    const logs = new AppLogs({ layout });
    tree = createTree(config, layout, log, logs, children, hooks.onFatal);
    const databases = new Databases({
      writerSocket: tree.writerSocket,
      ticket: (ticket) => (tree as Tree).ticket(ticket),
      dataFile: (app) => layout.app(app).data,
    });
    const treeReady = tree.start();
    // Observed here too, so that a failure below does not leave it unhandled.
    treeReady.catch(() => {});
    const [registry, access] = await Promise.all([
      Registry.open({ layout, log, userVersion: (app) => databases.userVersion(app) }),
      auth ? Access.open(layout.token, { log }) : null,
      writeProfile(layout),
    ]);
    const changes = new ChangeStreams();
    const pages = new Pages({ log, clientFile: consoleFile('client.js') });
    const jobs = new Jobs({ file: entryPoint('job') });
    const apps: Apps = new Apps({ layout, registry, tree, jobs });
    const idempotency = new Idempotency(databases.client('runtime', layout.runtimeDb, false));
    const deployments = new Deployments({
      layout,
      registry,
      jobs,
      databases,
      actors: {
        swap: (app, active) => apps.swap(app, active),
        stop: async (app) => {
          await apps.stop(app);
          changes.closeApp(app);
          pages.forget(app);
          await logs.close(app);
          await idempotency.forget(app);
        },
      },
      versionRetention: config.versionRetention,
      log,
    });
    const services: Services = {
      version: VERSION,
      config,
      access,
      apps,
      deployments,
      registry,
      layout,
      tree,
      changes,
      pages,
      consoleFiles: new ConsoleFiles(log),
      logs,
      idempotency,
      preferences: new Preferences(databases.client('identity', layout.identityDb, false)),
      log,
      listening: hooks.listening,
    };
    const router = new Router(allRoutes(services));
    const frontend = new Frontend({ router, access, corsOrigins: config.corsOrigins, log });
    await treeReady;
    return { services, router, frontend, jobs, lock, sweeping: sweepDaily(layout, config.trashDays, log) };
  } catch (error) {
    tree?.destroy();
    lock.release();
    throw error;
  }
}

function createTree(
  config: Config,
  layout: Layout,
  log: Logger,
  logs: AppLogs,
  children: Children,
  onFatal: (reason: string) => void,
): Tree {
  return new Tree({
    ...config,
    appsDir: layout.appsDir,
    paths: (app, versionId) => {
      const paths = layout.app(app);
      const { code, prepared } = paths.version(versionId);
      return { codeDir: code, preparedDir: prepared, dataFile: paths.data };
    },
    log: (level, message, app) => log[level](app === undefined ? {} : { app }, message),
    appLog: (app, line) => logs.append(app, line),
    onWriterReady: () => log.debug('the SQLite writer is ready'),
    onFatal,
    onProcess: (pid, role, alive) => (alive ? children.add(pid, role) : children.remove(pid)),
  });
}

/** Removes left-over uploads now, and old trash now and every day; nobody waits for it. */
function sweepDaily(layout: Layout, trashDays: number, log: Logger): NodeJS.Timeout {
  const report = (error: unknown) => log.warn({ err: error }, 'old files could not be removed');
  const sweep = () => void sweepTrash(layout, trashDays, Date.now()).catch(report);
  void sweepTmp(layout, Date.now()).catch(report);
  sweep();
  return setInterval(sweep, LIMITS.dayMs).unref();
}

/** `profile.json`, once (specification, "Gateway profile"). */
async function writeProfile(layout: Layout): Promise<void> {
  try {
    readFileSync(layout.profile);
  } catch {
    const profile = { id: 'local', kind: 'daemon', label: 'Local gateway', createdAt: new Date().toISOString() };
    await writeFileAtomic(layout.profile, `${JSON.stringify(profile, null, 2)}\n`);
  }
}

async function stopParts({ services, frontend, jobs, lock, sweeping }: Parts, drainMs: number): Promise<void> {
  clearInterval(sweeping);
  frontend.draining = true;
  services.changes.closeAll();
  await services.tree.stop(drainMs);
  await jobs.close();
  await services.logs.flush();
  services.access?.close();
  lock.release();
}
