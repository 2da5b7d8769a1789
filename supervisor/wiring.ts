/** Makes the parts of a gateway, connects them, and stops them in the right order. */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Logger } from 'pino';
import { appOfKey, isDraftKey, sessionOfKey } from '../protocol/ids.ts';
import { Registry } from '../storage/apps/registry.ts';
import { sweepDaily } from '../storage/apps/trash.ts';
import { blobFolders } from '../storage/blobs.ts';
import { checkFormat, moveFormat, writeProfile } from '../storage/data-format.ts';
import { mkdirDurable } from '../storage/files/atomic-file.ts';
import { Layout } from '../storage/layout.ts';
import { AppLogs } from '../storage/logs/app-log.ts';
import { Children, reapChildren } from '../storage/processes/children.ts';
import { acquireDataLock, type DataLock } from '../storage/processes/data-lock.ts';
import { makeSocketFolder } from '../storage/processes/socket-folder.ts';
import { tagOf } from '../storage/processes/tagged.ts';
import { Attachments } from './agents/conversations/attachments.ts';
import { Chat } from './agents/conversations/chat.ts';
import { ConversationTurns } from './agents/conversations/conversation-turns.ts';
import { Conversations } from './agents/conversations/conversations.ts';
import { openAgents } from './agents/open-agents.ts';
import { AgentProcess } from './agents/runners/agent-process.ts';
import { TurnDrafts } from './agents/turns/turn-drafts.ts';
import { TurnRuns } from './agents/turns/turn-runs.ts';
import { NewApps } from './authoring/new-apps.ts';
import { type GitStoreServices, openAuthoring, openTemplates } from './authoring/open-authoring.ts';
import { Automations, systemClock } from './automations/automations.ts';
import { Blobs } from './blobs.ts';
import type { Config } from './config.ts';
import { Databases } from './databases.ts';
import { Deployments } from './deployments/deploy.ts';
import { checkStore, openStore } from './deployments/store/open-store.ts';
import { VersionFiles } from './deployments/version-files.ts';
import { Apps } from './dispatch/apps.ts';
import { CachedReads } from './dispatch/cached-reads.ts';
import { ChangeStreams } from './dispatch/changes.ts';
import { Dispatcher } from './dispatch/dispatcher.ts';
import { Idempotency } from './dispatch/idempotency.ts';
import type { GatewayKind, GivenExtensions } from './extension-points.ts';
import { Access, type Admits, type Authorize } from './http/access/access.ts';
import { AgentTokens } from './http/access/agent-tokens.ts';
import type { Identify } from './http/access/person.ts';
import { Places } from './http/access/places.ts';
import { ProgramTokens } from './http/access/program-tokens.ts';
import { SignIns } from './http/access/sign-ins.ts';
import { Visitors } from './http/access/visitors.ts';
import { Pipeline } from './http/pipeline.ts';
import { Router } from './http/router.ts';
import { Jobs } from './jobs/jobs.ts';
import { LiveQueries } from './live/live-queries.ts';
import { LiveStreams } from './live/live-streams.ts';
import { McpSessions } from './mcp/sessions.ts';
import { Failures } from './notices/failures.ts';
import { Links } from './notices/links.ts';
import { Notices } from './notices/notices.ts';
import { Activity, dataBytes } from './operations/activity.ts';
import { Backups } from './operations/backups.ts';
import { DataRepair } from './operations/data-repair.ts';
import { EventLoopMonitor } from './operations/event-loop.ts';
import { roomToStart, unlessFull } from './operations/full-disk.ts';
import { streamOf } from './operations/log-stream.ts';
import { HttpMeter } from './operations/metrics/http-meter.ts';
import { ScheduledBackups } from './operations/scheduled-backups.ts';
import { Outside } from './outside.ts';
import { ConsoleFiles } from './pages/console-files.ts';
import { Pages } from './pages/pages.ts';
import { Preferences } from './pages/preferences.ts';
import { Commits } from './results/commits.ts';
import { Results } from './results/results.ts';
import { allRoutes } from './routes/all.ts';
import { Secrets } from './secrets.ts';
import type { Services } from './services.ts';
import type { Simulation } from './simulation.ts';
import { SqlProcesses } from './sql/sql-processes.ts';
import { Tracing } from './tracing/tracing.ts';
import { packageRoot, withRealPaths } from './tree/entry-points.ts';
import type { TreeOptions } from './tree/specifications.ts';
import { Tree } from './tree/tree.ts';

export const VERSION: string = (
  JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string }
).version;

/** A gateway that runs. */
export type Assembly = {
  services: Services;
  pipeline: Pipeline;
  jobs: Jobs;
  lock: DataLock;
  /** From the end of the start on. */
  sweeping: NodeJS.Timeout | undefined;
};

/** The host's parts and callbacks. */
export type Host = {
  /** False when the host checks who calls; `authorize` then decides, if given. */
  auth: boolean;
  authorize: Authorize | undefined;
  identify?: Identify | undefined;
  /** Whom the host lets in as its own; everyone else needs a session of ours, or a token for programs. */
  admits?: Admits | undefined;
  /** The host checks itself for which names it serves requests, and which sites they come from. */
  trustHost: boolean;
  kind: GatewayKind;
  /** The administrator's token, where the host keeps it; otherwise it is in `token.bin`. */
  token?: string | undefined;
  extensions: GivenExtensions;
  /** Only where an app is tested. */
  simulation?: Simulation;
  listening: Services['listening'];
  /** The gateway cannot go on. */
  onFatal(reason: string): void;
};

/** Resolves when the gateway can answer. When it rejects it leaves no process, no timer and no lock. */
export async function assemble(config: Config, log: Logger, host: Host): Promise<Assembly> {
  const layout = new Layout(config.dataDir, config.appsDir ?? undefined, config.appsStoreRoot ?? undefined);
  const room = await roomToStart(layout.dataDir);
  const lock = acquireDataLock(layout.lock);
  const undo: (() => unknown)[] = [() => lock.release()];
  try {
    const found = await checkFormat(layout);
    await checkStore(layout);
    const stream = streamOf(log);
    stream?.open();
    undo.push(() => stream?.drain());
    const tracing = host.simulation === undefined ? await Tracing.open(process.env, VERSION, log) : null;
    undo.push(() => tracing?.close());
    const tag = tagOf(layout.dataDir);
    const reaped = await reapChildren(layout.children, tag);
    if (reaped.length > 0)
      log.warn({ pids: reaped.map((child) => child.pid) }, 'Ended the processes of a gateway that died.');
    await moveFormat(layout, found, VERSION, (error) =>
      log.warn({ err: error }, 'format.json could not be written: the disk is full.'),
    );
    const logs = new AppLogs({ layout });
    const appLog = logs.append.bind(logs);
    // Hosts and jobs are told which folders they may use, so these must be there.
    for (const dir of [...codeDirs(layout), layout.tmpDir, layout.templatesCache]) await mkdirDurable(dir);
    const changes = new ChangeStreams();
    const onProcess = recordOf(new Children(layout.children, randomUUID()), log);
    const commits = new Commits({ file: (app) => layout.app(app).data });
    undo.push(() => commits.close());
    const results = new Results(commits);
    commits.onChanged = (app) => results.forget(app);
    const onWriterLost = (app: string) => {
      commits.changed(app);
      changes.reset(app);
    };
    const tree = new Tree({
      ...treeOptions(config, layout, log, host),
      appLog,
      onWriterLost,
      onDamaged: (key, damage) => registry.damages.met(key, damage),
      onCommitted: commits.committed.bind(commits),
      onProcess,
      secrets: (app) => secrets.given(app),
      simulation: host.simulation,
      keepBlob: (...asked) => blobs.keep(...asked),
      notice: (...sent) => notices.answer(...sent),
      onGaveUp: (...told) => failures.gaveUp(...told),
      onStarted: (app) => failures.started(app),
    });
    undo.push(() => tree.destroy());
    const databases = new Databases(tree, layout, (app, damage) => registry.damages.met(app, damage));
    const treeReady = tree.start();
    // Observed here too, so that a failure below does not leave it unhandled.
    treeReady.catch(() => {});
    const opening = Registry.open({
      layout,
      log,
      userVersion: (app) => databases.userVersion(app),
      makeDurable: (app) => databases.makeDurable(app),
      prepareAnew: (app, versionId) => deployments.prepareAnew(app, versionId),
      bringBack: (app, versionId) => deployments.bringBack(app, versionId),
      isWhole: async (check) => (await jobs.appData({ check })).integrity === 'ok',
    });
    opening.catch(() => {});
    await unlessFull(log, writeProfile(layout.profile, host.kind));
    const registry: Registry = await opening;
    const identity = { db: databases.own('_identity', layout.identityDb), file: layout.identityDb, log };
    const registered = (app: string) => registry.has(app);
    const programTokens = await ProgramTokens.open({ ...identity, registered });
    undo.push(() => programTokens.close());
    const places = new Places({ ...config, allowedHosts: [...config.allowedHosts, ...publicHost(config)] });
    let access: Access | null = null;
    if (host.auth || host.admits !== undefined) {
      access = await Access.open(host.auth ? layout.token : layout.sessionKey, {
        places,
        admits: host.admits ?? null,
        signIns: await SignIns.open(identity, config.signInHours),
        programTokens,
        registeredAt: (app) => registry.registeredAt(app),
        token: host.token,
        metricsToken: config.metricsToken,
        log,
      });
    }
    undo.push(() => access?.close());
    const agentTokens = new AgentTokens();
    const secrets = await Secrets.open({ layout, registered, log }, registry.ids());
    secrets.onChange((app) => {
      tree.tellSecrets(app);
      // Their values are taken out of results, also of those that are followed.
      commits.changed(app);
    });
    const folders = jobFolders(layout);
    const jobs = new Jobs({
      tracing,
      createChild: (events) => tree.jobsChild(folders, events),
      writable: folders.writable,
      onFault: (what) => log.error(what),
    });
    const pages = new Pages(log, (job) => jobs.drawTile(job));
    const sql = new SqlProcesses({
      createChild: (name, events) => tree.sqlChild(name, events),
      database: (app, migrated) => databases.ofCaller(app, migrated),
      onDamaged: (app, damage) => registry.damages.met(app, damage),
      maxResultBytes: config.maxResultBytes,
      onEnded: (app, msg) => {
        const versionId = tree.existing(app)?.summary.versionId;
        const origin = { app: appOfKey(app), versionId, tool: 'sql', traceId: null };
        appLog(app, JSON.stringify({ ts: new Date().toISOString(), level: 'error', ...origin, msg }));
      },
    });
    const runtime = databases.own('_runtime', layout.runtimeDb);
    const idempotency = new Idempotency(runtime);
    const attachments = new Attachments({ db: runtime, layout, log });
    const quotaMb = async (key: string) => {
      if (!isDraftKey(key)) return (await registry.state(key)).active?.blobQuotaMb;
      const draft = await gitStore?.drafts.draft(sessionOfKey(key), appOfKey(key));
      return (await draft?.whole())?.blobQuotaMb;
    };
    const blobs: Blobs = new Blobs({ layout, log, quotaMb });
    const clock = host.simulation?.clock ?? systemClock;
    const links = new Links(config, host.listening);
    const notices: Notices = new Notices({
      config,
      links,
      db: runtime,
      identity,
      keyFile: layout.pushKey,
      redactor: (key) => secrets.redactor(key),
      record: host.simulation?.notified ?? null,
      log,
      now: clock.now,
    });
    const nameOf = (app: string) => registry.loaded(app)?.active?.name ?? app;
    const automationName = (ref: string) => automations.catalog.get(ref)?.manifest.name ?? ref;
    const failures = new Failures({ notices, links, nameOf, automationName });
    const parts = {
      config,
      layout,
      log,
      registry,
      databases,
      tree,
      jobs,
      sql,
      commits,
      reads: new CachedReads(results, config),
      changes,
      tracing,
      pages,
      logs,
      idempotency,
      secrets,
      blobs,
      notices,
    };
    const apps = new Apps({ ...parts, programTokens });
    const store = openStore(parts);
    const { versionRetention } = config;
    const deployments: Deployments = new Deployments({
      ...parts,
      store,
      apps,
      versionRetention,
      webhookHolder: (slug) => automations.catalog.bySlug(slug)?.app,
    });
    const backups = new Backups({
      ...parts,
      svcVersion: VERSION,
      deployments,
      schedule: () => scheduledBackups.schedule,
    });
    const scheduledBackups: ScheduledBackups = new ScheduledBackups({
      ...parts,
      configured: config.backups,
      backups,
      clock,
      onMade: (failure) => failures.backedUp(failure),
    });
    const dispatcher = new Dispatcher({ ...parts, apps });
    const templates = openTemplates(parts);
    const outside = new Outside({ egress: egressOf(config), port: () => portOf(config, host.listening) });
    const newApps = new NewApps({ layout, registry, deployments, jobs, outside });
    const gitStore: GitStoreServices = openAuthoring({ ...parts, deployments, apps, tag, onProcess }, templates);
    const agentProcess = new AgentProcess({
      tag,
      maxAgents: config.maxAgents,
      createChild: (settings, events) => tree.agentsChild(settings, events),
      onProcess,
      log: (level, message) => log[level](message),
    });
    const { listening, extensions } = host;
    const agents = openAgents(
      { ...parts, agentProcess, tokens: agentTokens, dispatcher, gitStore, listening },
      extensions,
    );
    const automations: Automations = new Automations({
      ...parts,
      dispatcher,
      apps,
      deployments,
      appLog,
      baseUrl: () => listening()?.url ?? null,
      onProcess,
      conversationRunner: agents.run,
      fireAutomationFactory: extensions.fireAutomationFactory ?? null,
      notify: (app, args) => notices.fromApp(app, nameOf(app), args),
      onEnded: (run) => failures.ran(run),
      clock,
    });
    const conversationTurns = new ConversationTurns(runtime);
    const drafts = gitStore && new TurnDrafts({ ...gitStore, catalog: automations.catalog, log });
    const chat = new Chat({
      layout,
      log,
      runner: agents,
      runs: new TurnRuns({ ledger: automations.runs, events: automations.runEvents, log }),
      conversations: conversationTurns,
      drafts,
    });
    gitStore?.sessions.onClosed((session) => chat.closed(session));
    // What a turn that was stopped still does would be in the version, or be missing from it.
    gitStore?.sessions.onPublishing((session) => chat.turns.settled(session));
    const conversations = new Conversations({ db: runtime, rows: conversationTurns, turns: chat.turns, drafts });
    apps.connect({ deployments, automations, chat, conversations });
    const addresses = new Visitors({ apps, config });
    const live = new LiveQueries(parts);
    const mcpSessions = new McpSessions({ live, readers: changes.readers, changes });
    // The one place where is asked whose right has ended: all that goes on for a caller ends with it.
    const endRefused = (): void => {
      changes.readers.endRefused();
      mcpSessions.endRefused();
      chat.turns.endRefused();
    };
    agentTokens.confirmWith((...asked) => chat.turns.confirm(...asked));
    access?.whenEnded(endRefused);
    agentTokens.whenEnded(endRefused);
    const services: Services = {
      ...parts,
      version: VERSION,
      access,
      clientOf: (exchange, caller) =>
        access !== null || caller.kind === 'agent' || caller.kind === 'person'
          ? caller.client
          : `address ${addresses.clientOf(exchange)}`,
      agentTokens,
      programTokens,
      apps,
      dispatcher,
      automations,
      agentProcess,
      chat,
      agents,
      liveStreams: new LiveStreams(live, changes),
      activity: new Activity({
        meters: tree.meters,
        dataBytes: (app) => dataBytes(layout.app(app)),
        subscribers: (app) => changes.subscribersOf(app) + live.followersOf(app),
      }),
      mcpSessions,
      deployments,
      versionFiles: new VersionFiles({ ...parts, store }),
      backups,
      scheduledBackups,
      dataRepair: new DataRepair({ ...parts, apps, deployments, backups }),
      gitStore,
      templates,
      newApps,
      conversations,
      attachments,
      consoleFiles: new ConsoleFiles(log),
      preferences: new Preferences(identity.db),
      eventLoop: new EventLoopMonitor(),
      metricsLoop: new EventLoopMonitor(),
      httpMeter: new HttpMeter(),
      tracing,
      listening: host.listening,
    };
    const router = new Router(allRoutes(services));
    const { authorize = null, identify = null } = host;
    const makerOf = (app: string) => registry.makerOf(app);
    const visitors = access && addresses;
    const { corsOrigins } = config;
    const { httpMeter: meter } = services;
    const seen = { meter, tracing, log };
    const openTo = host.trustHost ? null : places;
    const callers = { access, visitors, agentTokens, authorize, identify, makerOf, openTo, corsOrigins };
    const pipeline = new Pipeline({ router, ...callers, ...seen });
    const assembly: Assembly = { services, pipeline, jobs, lock, sweeping: undefined };
    // From here on everything is there that a stop ends, the lock too; the log is closed after it.
    undo.splice(
      0,
      undo.length,
      () => stream?.drain(),
      () => disassemble(assembly, 0),
    );
    await treeReady;
    notices.open();
    // Repairs after a crash may need the writer.
    await deployments.open();
    await gitStore?.sessions.open();
    await gitStore?.drafts.open();
    await agents.catalog?.open();
    await automations.open();
    await scheduledBackups.open();
    templates.open();
    if (gitStore !== null) void openConversations(services);
    services.eventLoop.start();
    services.activity.start();
    assembly.sweeping = sweepDaily(layout, config.trashDays, (error) =>
      log.warn({ err: error }, 'Old files could not be removed.'),
    );
    return assembly;
  } catch (error) {
    await inTurn(undo.reverse(), log);
    throw await room.explain(error);
  }
}

/** In the background: a start does not wait for it, nor end for a full disk. The tables are made with their first use at the latest. */
async function openConversations({ conversations, attachments, registry, log }: Services): Promise<void> {
  try {
    await conversations.open();
    await attachments.open(registry.ids());
  } catch (error) {
    log.warn({ err: error }, 'What an earlier gateway left of conversations could not be looked at yet.');
  }
}

/** A gateway answers to the name that it gives to others. */
function publicHost({ publicUrl }: Config): string[] {
  return publicUrl === null ? [] : [new URL(publicUrl).hostname];
}

/** Folders that handler hosts read: the apps, and their code in the git store. */
function codeDirs({ appsDir, codeStore }: Layout): string[] {
  return codeStore === null ? [appsDir] : [appsDir, codeStore.mainDir];
}

/** Folders of the jobs: they write uploads, versions and repositories, and also read the fetched templates. */
function jobFolders({ tmpDir, appsDir, codeStore, templatesCache }: Layout) {
  const writable = [tmpDir, appsDir, ...(codeStore === null ? [] : [codeStore.dir])];
  return { readable: withRealPaths([templatesCache]), writable: withRealPaths(writable) };
}

const egressOf = ({ egress }: Config) => ({ allow: egress.allow ?? [], deny: egress.deny ?? [] });

/** Where the gateway listens; null while nobody knows. */
function portOf(config: Config, listening: Host['listening']): number | null {
  const url = listening()?.url;
  if (url === undefined) return config.port || null;
  const { port, protocol } = new URL(url);
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
}

function treeOptions(config: Config, layout: Layout, log: Logger, { listening, onFatal }: Host) {
  return {
    ...config,
    egress: egressOf(config),
    codeDirs: codeDirs(layout),
    socketFolder: makeSocketFolder(layout.sockets),
    paths: (app, versionId) => {
      const paths = layout.app(app);
      const { code, prepared } = paths.version(versionId);
      return { codeDir: code, preparedDir: prepared, dataFile: paths.data, blobs: blobFolders(layout, app) };
    },
    log: (level, message, app) => log[level](app === undefined ? {} : { app }, message),
    onFatal,
    gatewayPort: () => portOf(config, listening),
  } satisfies Partial<TreeOptions>;
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

/** Never rejects: logs failures, and stops the rest anyway. */
export async function disassemble(
  { services, pipeline, jobs, lock, sweeping }: Assembly,
  drainMs: number,
): Promise<void> {
  const {
    automations,
    agents,
    agentProcess,
    deployments,
    scheduledBackups,
    changes,
    gitStore,
    templates,
    tree,
    logs,
    access,
    log,
  } = services;
  clearInterval(sweeping);
  pipeline.draining = true;
  services.activity.stop();
  services.eventLoop.stop();
  services.metricsLoop.stop();
  const steps: (() => unknown)[] = [
    // Followers of a turn get its end.
    () => services.chat.stop(),
    () => services.mcpSessions.close(),
    () => changes.closeAll(),
    () => services.commits.close(),
    () => scheduledBackups.stop(),
    // Uploads need the writer to end well, so they come first.
    () =>
      Promise.race([
        Promise.all([deployments.settled(), services.blobs.settled()]),
        wait(drainMs, undefined, { ref: false }),
      ]),
    () => templates.stop(),
    () => services.attachments.stop(),
    () => gitStore?.tests.stop(),
    () => gitStore?.drafts.stop(),
    () => automations.stop(drainMs),
    () => services.notices.stop(),
    () => agents.catalog?.stop(),
    () => agentProcess.stop(),
    () => services.programTokens.close(),
    () => jobs.close(),
    () => services.sql.close(),
    () => tree.stop(drainMs),
    () => logs.flush(),
    () => access?.close(),
    () => services.tracing?.close(),
    () => lock.release(),
  ];
  await inTurn(steps, log);
}

/** Takes every step, also after one that fails. */
async function inTurn(steps: (() => unknown)[], log: Logger): Promise<void> {
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      log.error({ err: error }, 'A part of the gateway could not be stopped cleanly.');
    }
  }
}
