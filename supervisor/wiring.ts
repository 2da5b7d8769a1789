/** Makes the parts of a gateway, wires them to each other, and takes them down again in the right order. */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Logger } from 'pino';
import { LIMITS } from '../protocol/limits.ts';
import { AppLogs } from '../storage/app-log.ts';
import { isMissing, mkdirDurable, writeFileAtomic } from '../storage/atomic-file.ts';
import { Children, reapChildren } from '../storage/children.ts';
import { acquireDataLock, type DataLock } from '../storage/data-lock.ts';
import { Layout } from '../storage/layout.ts';
import { Registry } from '../storage/registry.ts';
import { makeSocketFolder } from '../storage/socket-folder.ts';
import { sweepTmp, sweepTrash } from '../storage/trash.ts';
import { openAuthoring, openTemplates } from './authoring/open-authoring.ts';
import { Automations } from './automations/automations.ts';
import type { Config } from './config.ts';
import { Databases } from './databases.ts';
import { Deployments } from './deployments/deploy.ts';
import { checkStore, openStore } from './deployments/store/open-store.ts';
import { Apps } from './dispatch/apps.ts';
import { ChangeStreams } from './dispatch/changes.ts';
import { Dispatcher } from './dispatch/dispatcher.ts';
import { Idempotency } from './dispatch/idempotency.ts';
import { LiveApps } from './dispatch/live-apps.ts';
import type { ExtensionPoints, GatewayKind } from './extension-points.ts';
import { Access } from './http/access/access.ts';
import type { Authorize } from './http/access/caller.ts';
import { Places } from './http/access/places.ts';
import { ProgramTokens } from './http/access/program-tokens.ts';
import { SignIns } from './http/access/sign-ins.ts';
import { Pipeline } from './http/pipeline.ts';
import { Router } from './http/router.ts';
import { Jobs } from './jobs/jobs.ts';
import { Backups } from './operations/backups.ts';
import { EventLoopMonitor } from './operations/event-loop.ts';
import { roomToStart, unlessFull } from './operations/full-disk.ts';
import { ConsoleFiles } from './pages/console-files.ts';
import { Pages } from './pages/pages.ts';
import { Preferences } from './pages/preferences.ts';
import { allRoutes } from './routes/all.ts';
import type { Services } from './services.ts';
import { consoleFile, packageRoot, withRealPaths } from './tree/entry-points.ts';
import { Tree } from './tree/tree.ts';
import type { TreeOptions } from './tree/tree-options.ts';

export const VERSION: string = (
  JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string }
).version;

/** A gateway that runs. */
export type Assembly = {
  services: Services;
  router: Router;
  pipeline: Pipeline;
  jobs: Jobs;
  lock: DataLock;
  sweeping: NodeJS.Timeout;
};

/**
 * Resolves when the gateway can answer. When it rejects nothing is left: no process, no lock. `onFatal` is called when the
 * gateway cannot go on later.
 */
export async function assemble(
  config: Config,
  auth: boolean,
  log: Logger,
  hooks: {
    conversationRunner: ExtensionPoints['conversationRunner'] | undefined;
    fireAutomationFactory: ExtensionPoints['fireAutomationFactory'] | undefined;
    authorize: Authorize | undefined;
    kind: GatewayKind;
    listening: Services['listening'];
    onFatal(reason: string): void;
  },
): Promise<Assembly> {
  const layout = new Layout(config.dataDir, config.appsDir ?? undefined, config.appsStoreRoot ?? undefined);
  const room = await roomToStart(layout.dataDir);
  const lock = acquireDataLock(layout.lock);
  let tree: Tree | null = null;
  let access: Access | null = null;
  let tokens: ProgramTokens | null = null;
  try {
    await checkStore(layout);
    const reaped = await reapChildren(layout.children);
    if (reaped.length > 0)
      log.warn({ pids: reaped.map((child) => child.pid) }, 'Ended the processes of a gateway that died.');
    const children = new Children(layout.children, randomUUID());
    const logs = new AppLogs({ layout });
    // Hosts and jobs are told which folders they may use, so these must be there.
    for (const dir of [...codeDirs(layout), layout.tmpDir, layout.templatesCache]) await mkdirDurable(dir);
    const changes = new ChangeStreams();
    const onProcess = recordOf(children, log);
    const running = createTree(config, layout, log, logs, changes, onProcess, hooks);
    tree = running;
    const databases = new Databases({
      writerSocket: (file) => running.writerSocket(file),
      ticket: (ticket) => running.ticket(ticket),
      dataFile: (app) => layout.app(app).data,
    });
    const treeReady = running.start();
    // Observed here too, so that a failure below does not leave it unhandled.
    treeReady.catch(() => {});
    const opening = Registry.open({
      layout,
      log,
      userVersion: (app) => databases.userVersion(app),
      makeDurable: (app) => databases.makeDurable(app),
      bringBack: (app, versionId) => deployments.bringBack(app, versionId),
    });
    opening.catch(() => {});
    await writeProfile(layout, hooks.kind, log);
    const registry = await opening;
    const identity = databases.client('_identity', layout.identityDb, false);
    const programTokens = await ProgramTokens.open({
      db: identity,
      file: layout.identityDb,
      registered: (app) => registry.has(app),
      log,
    });
    tokens = programTokens;
    if (auth) {
      access = await Access.open(layout.token, {
        places: new Places(config),
        signIns: await SignIns.open({ db: identity, file: layout.identityDb, log }),
        programTokens,
        registeredAt: (app) => registry.registeredAt(app),
        log,
      });
    }
    access?.whenEnded(() => {
      changes.readers.endAll();
      logs.endFollowers();
    });
    const pages = new Pages({ log, clientFile: consoleFile('client.js') });
    const jobs = new Jobs({
      createChild: (events) => running.jobsChild(jobFolders(layout), events),
      onFault: (what) => log.error(what),
    });
    const apps: Apps = new Apps({ layout, registry, tree, jobs });
    const idempotency = new Idempotency(databases.client('_runtime', layout.runtimeDb, false));
    const store = openStore({ layout, config, jobs, log });
    const deployments: Deployments = new Deployments({
      layout,
      registry,
      store,
      databases,
      actors: new LiveApps({
        apps,
        automations: () => automations,
        tree,
        changes,
        pages,
        logs,
        programTokens,
        idempotency,
      }),
      versionRetention: config.versionRetention,
      log,
    });
    const backups = new Backups({
      layout,
      config,
      svcVersion: VERSION,
      apps: () => registry.ids(),
      hold: (app, work) => deployments.hold(app, work),
      pack: (job, signal) => jobs.pack(job, signal),
    });
    const dispatcher = new Dispatcher({
      apps,
      changes,
      idempotency,
      config,
      keyOf: (id) => id,
      uses: (id) => apps.uses(id),
      describing: { registry, deployments },
    });
    const automations: Automations = new Automations({
      dispatcher,
      config,
      apps,
      changes,
      deployments,
      registry,
      layout,
      databases,
      tree,
      jobs,
      log,
      appLog: (app, line) => logs.append(app, line),
      baseUrl: () => hooks.listening()?.url ?? null,
      onProcess,
      conversationRunner: hooks.conversationRunner ?? null,
      fireAutomationFactory: hooks.fireAutomationFactory ?? null,
    });
    const templates = openTemplates({ layout, config, log });
    const gitStore = openAuthoring(
      { layout, config, registry, deployments, jobs, tree, databases, changes, pages, logs, idempotency, log },
      templates,
    );
    const services: Services = {
      version: VERSION,
      config,
      access,
      programTokens,
      apps,
      dispatcher,
      automations,
      deployments,
      backups,
      gitStore,
      templates,
      registry,
      layout,
      tree,
      changes,
      pages,
      consoleFiles: new ConsoleFiles(log),
      logs,
      idempotency,
      preferences: new Preferences(identity),
      eventLoop: new EventLoopMonitor(),
      log,
      listening: hooks.listening,
    };
    const router = new Router(allRoutes(services));
    const authorize = hooks.authorize ?? null;
    const pipeline = new Pipeline({ router, access, authorize, corsOrigins: config.corsOrigins, log });
    await treeReady;
    // What a crash left may need the writer.
    await deployments.open();
    await gitStore?.sessions.open();
    await gitStore?.drafts.open();
    await automations.open();
    templates.open();
    services.eventLoop.start();
    return { services, router, pipeline, jobs, lock, sweeping: sweepDaily(layout, config.trashDays, log) };
  } catch (error) {
    tree?.destroy();
    access?.close();
    void tokens?.close();
    lock.release();
    throw await room.explain(error);
  }
}

/** What handler hosts read: the apps, and what the git store has on disk of their code. */
function codeDirs({ appsDir, codeStore }: Layout): string[] {
  return codeStore === null ? [appsDir] : [appsDir, codeStore.mainDir];
}

/** What jobs use: they write uploads, versions and repositories, and read besides the templates that were fetched. */
function jobFolders({ tmpDir, appsDir, codeStore, templatesCache }: Layout): {
  readable: string[];
  writable: string[];
} {
  const writable = [tmpDir, appsDir, ...(codeStore === null ? [] : [codeStore.root])];
  return {
    readable: withRealPaths([templatesCache]),
    writable: withRealPaths(writable),
  };
}

function createTree(
  config: Config,
  layout: Layout,
  log: Logger,
  logs: AppLogs,
  changes: ChangeStreams,
  onProcess: TreeOptions['onProcess'],
  { listening, onFatal }: { listening: Services['listening']; onFatal(reason: string): void },
): Tree {
  return new Tree({
    ...config,
    egress: { allow: config.egress.allow ?? [], deny: config.egress.deny ?? [] },
    codeDirs: codeDirs(layout),
    socketFolder: makeSocketFolder(layout.sockets),
    paths: (app, versionId) => {
      const paths = layout.app(app);
      const { code, prepared } = paths.version(versionId);
      return { codeDir: code, preparedDir: prepared, dataFile: paths.data };
    },
    log: (level, message, app) => log[level](app === undefined ? {} : { app }, message),
    appLog: (app, line) => logs.append(app, line),
    onWriterReady: () => log.debug('The SQLite writer is ready.'),
    onWriterLost: (app) => changes.reset(app),
    onFatal,
    onProcess,
    gatewayPort: () => {
      const url = listening()?.url;
      if (url === undefined) return config.port || null;
      const { port, protocol } = new URL(url);
      return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
    },
  });
}

/** Keeps the record of processes on disk, by which the next gateway finds those that are left of this one. */
function recordOf(children: Children, log: Logger): TreeOptions['onProcess'] {
  return (pid, role, alive) => {
    try {
      if (alive) children.add(pid, role);
      else children.remove(pid);
    } catch (error) {
      // A full disk must not end a gateway that can still answer.
      log.warn({ err: error }, 'The record of processes could not be written.');
    }
  };
}

/** Removes left-over uploads now, and old trash now and every day; nobody waits for it. */
function sweepDaily(layout: Layout, trashDays: number, log: Logger): NodeJS.Timeout {
  const report = (error: unknown) => log.warn({ err: error }, 'Old files could not be removed.');
  const sweep = () => void sweepTrash(layout, trashDays, Date.now()).catch(report);
  void sweepTmp(layout, Date.now()).catch(report);
  sweep();
  return setInterval(sweep, LIMITS.dayMs).unref();
}

/** `profile.json` (specification, "Gateway profile"): made once, and its `kind` is what the gateway is now. */
async function writeProfile(layout: Layout, kind: GatewayKind, log: Logger): Promise<void> {
  let profile: object = { id: 'local', kind, label: 'Local gateway', createdAt: new Date().toISOString() };
  try {
    const stored = JSON.parse(readFileSync(layout.profile, 'utf8')) as { kind?: unknown };
    if (stored.kind === kind) return;
    profile = { ...stored, kind };
  } catch (error) {
    if (!isMissing(error)) return;
  }
  await unlessFull(log, writeFileAtomic(layout.profile, `${JSON.stringify(profile, null, 2)}\n`));
}

/** Never rejects: what fails is logged, and the rest is taken down all the same. */
export async function disassemble(
  { services, pipeline, jobs, lock, sweeping }: Assembly,
  drainMs: number,
): Promise<void> {
  const {
    automations,
    deployments,
    backups,
    changes,
    gitStore,
    templates,
    tree,
    logs,
    access,
    programTokens,
    log,
    eventLoop,
  } = services;
  clearInterval(sweeping);
  pipeline.draining = true;
  changes.closeAll();
  eventLoop.stop();
  const steps: (() => unknown)[] = [
    () => backups.stop(),
    // Uploads need the writer to end well, so they come first.
    () => Promise.race([deployments.settled(), wait(drainMs, undefined, { ref: false })]),
    () => templates.stop(),
    () => gitStore?.drafts.stop(),
    () => automations.stop(drainMs),
    () => programTokens.close(),
    () => jobs.close(),
    () => tree.stop(drainMs),
    () => logs.flush(),
    () => access?.close(),
    () => lock.release(),
  ];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      log.error({ err: error }, 'A part of the gateway could not be stopped cleanly.');
    }
  }
}
