/** Makes the parts of a gateway in phases, and connects them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Logger } from 'pino';
import { TOOL_SERVER_LIMITS } from '../protocol/agents/tool-server-entries.ts';
import { appOfKey, isDraftKey, workspaceOfKey, workspacePart } from '../protocol/ids.ts';
import { Registry } from '../storage/apps/registry.ts';
import { writeProfile } from '../storage/data-format.ts';
import { Layout } from '../storage/layout.ts';
import { Attachments } from './agents/conversations/attachment-store.ts';
import { Chat } from './agents/conversations/chat.ts';
import { ChatStore, makeChatTables } from './agents/conversations/chat-store.ts';
import { openAgents } from './agents/open-agents.ts';
import { AgentProcess } from './agents/runners/agent-process.ts';
import { TurnDrafts } from './agents/turns/turn-drafts.ts';
import { NewApps } from './authoring/new-apps.ts';
import { type GitStoreServices, gitStoreOf, openAuthoring, openTemplates } from './authoring/open-authoring.ts';
import { Automations, systemClock } from './automations/automations.ts';
import { Blobs } from './blobs.ts';
import { type Config, egressOf } from './config.ts';
import { Deployments } from './deployments/deploy.ts';
import { openStore } from './deployments/store/open-store.ts';
import { Apps } from './dispatch/apps.ts';
import { HERE } from './dispatch/at-owner.ts';
import { CachedReads } from './dispatch/cached-reads.ts';
import { Dispatcher } from './dispatch/dispatcher.ts';
import { Idempotency } from './dispatch/idempotency.ts';
import type { ScopesOf } from './dispatch/scope.ts';
import type { ExchangeHandler } from './edge/edge.ts';
import { Access } from './http/access/access.ts';
import { AgentTokens } from './http/access/agent-tokens.ts';
import { Places } from './http/access/places.ts';
import { ProgramTokens } from './http/access/program-tokens.ts';
import { SignIns } from './http/access/sign-ins.ts';
import type { Pipeline } from './http/pipeline.ts';
import { Jobs } from './jobs/jobs.ts';
import { FailureNotices } from './notices/failure-notices.ts';
import { NoticeLinks } from './notices/notice-links.ts';
import { Notices } from './notices/notices.ts';
import { Backups } from './operations/backups.ts';
import { roomToStart, unlessFull } from './operations/full-disk.ts';
import { streamOf } from './operations/log-stream.ts';
import { ScheduledBackups } from './operations/scheduled-backups.ts';
import { Pages } from './pages/pages.ts';
import { Accounts } from './people/accounts.ts';
import { ClientDocuments } from './people/connections/client-documents.ts';
import { waysOf } from './people/ways.ts';
import { RuntimeTables } from './runtime/runtime-databases.ts';
import { Secrets } from './secrets.ts';
import type { Services } from './services.ts';
import { SqlProcesses } from './sql/sql-processes.ts';
import { joinCluster, openCluster, openIdentity, openRepository, openRuntime } from './start/cluster.ts';
import { jobFolders, openDataDirectory } from './start/data-directory.ts';
import type { Host } from './start/given-parts.ts';
import { Hosted, refusalIn } from './start/hosted.ts';
import { openRequests, recover } from './start/last-phases.ts';
import { Phases } from './start/phases.ts';
import { portOf, prepareCommons, startProcesses } from './start/processes.ts';
import { packageRoot } from './tree/entry-points.ts';
import { WebClient } from './web-client.ts';

export const VERSION: string = (
  JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string }
).version;

/** A gateway that runs. */
export type Assembly = {
  services: Services;
  pipeline: Pipeline;
  /** Answers requests, in a cluster with the other nodes. */
  handle: ExchangeHandler;
  jobs: Jobs;
  /** These are of `ClusterNode`, and do nothing without one. */
  checkAddress(): Promise<void>;
  leave(drainMs: number): Promise<void>;
  /** Lets calls, uploads and runs end for up to `drainMs`, and stops everything. Never rejects. */
  end(drainMs: number): Promise<void>;
};

/** Resolves when the gateway can answer. When it rejects it leaves no process, no timer and no lock. */
export async function assemble(config: Config, log: Logger, host: Host): Promise<Assembly> {
  const layout = new Layout(config.dataDir, config.appsDir ?? undefined, config.appsStoreRoot ?? undefined);
  const room = await roomToStart(layout.dataDir);
  const stream = streamOf(log);
  const phases = new Phases(log, host.onPhase);
  try {
    const { tracing, tag, logs, onProcess } = await openDataDirectory(phases, { layout, log, version: VERSION, host });
    const appLog = logs.append.bind(logs);
    const places = new Places({ ...config, allowedHosts: [...config.allowedHosts, ...publicHost(config)] });
    const hasAccess = host.auth || host.admits !== undefined;
    const ofNode = { config, layout, log, version: VERSION, places: hasAccess ? places : null };
    const cluster = await openCluster(phases, ofNode);
    const processes = startProcesses(phases, {
      config,
      layout,
      log,
      host,
      cluster,
      appLog,
      onProcess,
      onDamaged: (key, damage) => registry.damages.report(key, damage),
      secrets: (app) => secrets.given(app),
      keepBlob: (...asked) => blobs.keep(...asked),
      notice: (...sent) => notices.answer(...sent),
      onGaveUp: (...crash) => failures.gaveUp(...crash),
      onStarted: (app) => failures.started(app),
    });
    const { changes, commits, results, tree, treeReady, databases, unsettled } = processes;
    phases.begin('registry');
    const opening = Registry.open({
      layout,
      log,
      userVersion: (app) => databases.userVersion(app),
      makeDurable: (app) => databases.makeDurable(app),
      prepareAnew: (app, versionId) => deployments.prepareAnew(app, versionId),
      restoreFiles: (app, versionId) => deployments.restoreFiles(app, versionId),
      onLost: (app) => apps.dataLost(app),
      listed: cluster?.apps ?? null,
      isWhole: async (check) => (await jobs.appData({ check })).integrity === 'ok',
    });
    opening.catch(() => {});
    await unlessFull(log, writeProfile(layout.profile, host.kind));
    const registry: Registry = await opening;
    void prepareCommons(registry.registered(), layout, tree);
    phases.begin('access');
    const identity = openIdentity(cluster, databases, layout, log);
    const registered = (app: string) => registry.has(app);
    const refusalOf = (key: string) => refusalIn(registry, gitStore, key);
    const [programTokens, accounts] = await Promise.all([
      ProgramTokens.open({ ...identity, registered }),
      Accounts.open(identity, (app) => registry.makerOf(app), waysOf(config)),
    ]);
    phases.ends(() => programTokens.close());
    phases.ends(() => accounts.close());
    let access: Access | null = null;
    if (hasAccess) {
      access = await Access.open(host.auth ? layout.token : layout.sessionKey, {
        places,
        admits: host.admits ?? null,
        signIns: await SignIns.open(identity, config.signInHours),
        programTokens,
        accounts,
        registeredAt: (app) => registry.registeredAt(app),
        token: host.token,
        metricsToken: config.metricsToken,
        log,
      });
    }
    phases.ends(() => access?.close());
    const agentTokens = new AgentTokens((...asked) => chat.turns.confirm(...asked));
    phases.begin('stores');
    const demand = (key: string) => {
      if (!isDraftKey(key)) registry.demand(key);
      const refusal = refusalOf(key);
      if (refusal !== null) throw refusal;
    };
    const secrets = await Secrets.open({ layout, demand, log });
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
      unsettled,
      onFault: (what) => log.error(what),
    });
    phases.ends(() => jobs.close());
    const pages = new Pages(log, (job) => jobs.drawTile(job));
    const sql = new SqlProcesses({
      createChild: (name, events) => tree.sqlChild(name, events),
      database: (app, migrated) => databases.ofCaller(app, migrated),
      onDamaged: (app, damage) => registry.damages.report(app, damage),
      unsettled,
      maxResultBytes: config.maxResultBytes,
      onEnded: (app, msg) => {
        const versionId = tree.existing(app)?.summary.versionId;
        const origin = { app: appOfKey(app), versionId, tool: 'sql', traceId: null };
        appLog(app, JSON.stringify({ ts: new Date().toISOString(), level: 'error', ...origin, msg }));
      },
    });
    phases.ends(() => sql.close());
    const runtime = openRuntime(cluster, databases, layout);
    const tables = new RuntimeTables(runtime, makeChatTables);
    const idempotency = new Idempotency(runtime);
    const attachments = new Attachments({ tables, layout, refusalOf, log });
    phases.ends(() => attachments.stop());
    const quotaMb = async (key: string) => {
      const workspace = workspaceOfKey(key);
      if (workspace === undefined) return (await registry.state(key)).active?.blobQuotaMb;
      return (await scopes(workspace).of(appOfKey(key)).code()).version?.blobQuotaMb;
    };
    // In a cluster: another node would find the files of an app or a draft.
    const share = async (key: string): Promise<void> => {
      const [id, workspace] = [appOfKey(key), workspaceOfKey(key)];
      if (workspace === undefined) await cluster?.store({ kind: 'app', id });
      else await cluster?.store({ kind: 'workspace', id: workspacePart(workspace, id) });
    };
    const blobs: Blobs = new Blobs({
      layout,
      log,
      quotaMb,
      refusalOf,
      share,
    });
    const clock = host.simulation?.clock ?? systemClock;
    const links = new NoticeLinks(config, host.listening);
    const notices: Notices = new Notices({
      config,
      links,
      runtime,
      identity,
      keyFile: layout.pushKey,
      redactor: (key) => secrets.redactor(key),
      record: host.simulation?.notified ?? null,
      log,
      now: clock.now,
    });
    phases.ends(() => notices.stop());
    // Before these and those above: what they wait for, and store last, is at another node that may have ended.
    phases.ends(() => cluster?.forgetPeople());
    const nameOf = (app: string) => registry.loaded(app)?.active?.name ?? app;
    const automationName = (ref: string) => automations.catalog.get(ref)?.manifest.name ?? ref;
    const failures = new FailureNotices({ notices, links, nameOf, automationName });
    const parts = {
      config,
      layout,
      log,
      registry,
      databases,
      runtime,
      tree,
      jobs,
      sql,
      commits,
      reads: new CachedReads(results, config.queryTimeoutMs),
      changes,
      tracing,
      pages,
      logs,
      idempotency,
      secrets,
      blobs,
      notices,
      atOwner: cluster?.atOwner ?? host.atOwner ?? HERE,
    };
    phases.begin('deployments');
    const apps: Apps = new Apps({ ...parts, programTokens, accounts });
    const scopes: ScopesOf = (workspace) => (workspace == null ? apps : gitStoreOf(services).drafts.in(workspace));
    const repository = openRepository(cluster, layout, jobs);
    const store = openStore({ ...parts, repository });
    const { versionRetention } = config;
    const deployments: Deployments = new Deployments({
      ...parts,
      store,
      apps,
      share,
      versionRetention,
      addresses: {
        holderOf: (slug) => automations.catalog.bySlug(slug)?.app,
        of: (app) => automations.catalog.slugsOf(app),
        shared: cluster?.webhooks ?? null,
      },
    });
    const backups = new Backups({
      ...parts,
      svcVersion: VERSION,
      deployments,
      schedule: () => scheduledBackups.schedule,
    });
    const dispatcher = new Dispatcher(parts);
    const templates = openTemplates(parts);
    phases.ends(() => templates.stop());
    const web = new WebClient({ egress: egressOf(config), port: () => portOf(config, host.listening) });
    const newApps = new NewApps({ layout, cluster, registry, deployments, jobs, databases, web });
    const clientDocuments = new ClientDocuments(egressOf(config), () => portOf(config, host.listening));
    const serves = (app: string): boolean => cluster?.serves(app) ?? true;
    const gitStore: GitStoreServices = openAuthoring(
      {
        ...parts,
        deployments,
        apps,
        repository,
        shared: cluster?.workspaces ?? null,
        serves,
        tag,
        onProcess,
        refusalOf,
      },
      templates,
    );
    phases.ends(() => gitStore?.workspaces.stop());
    phases.ends(() => gitStore?.drafts.stop());
    phases.ends(() => gitStore?.tests.stop());
    phases.begin('agents');
    const agentProcess = new AgentProcess({
      tag,
      maxAgents: config.maxAgents,
      toolServers: { servers: config.mcpServers, limits: TOOL_SERVER_LIMITS },
      createChild: (settings, events) => tree.agentsChild(settings, events),
      onProcess,
      log: (level, message) => log[level](message),
    });
    phases.ends(() => agentProcess.stop());
    const { listening, extensions } = host;
    const agents = openAgents(
      { ...parts, agentProcess, tokens: agentTokens, dispatcher, scopes, gitStore, listening },
      extensions,
    );
    phases.ends(() => agents.catalog?.stop());
    phases.begin('automations');
    const automations: Automations = new Automations({
      ...parts,
      dispatcher,
      apps,
      deployments,
      appLog,
      baseUrl: () => listening()?.url ?? null,
      agentProcess,
      conversationRunner: agents.run,
      fireAutomationFactory: extensions.fireAutomationFactory ?? null,
      notify: (app, args) => notices.fromApp(app, nameOf(app), args),
      onEnded: (run) => failures.ran(run),
      clock,
    });
    phases.ends((drainMs) => automations.stop(drainMs));
    const scheduledBackups: ScheduledBackups = new ScheduledBackups({
      ...parts,
      configured: config.backups,
      backups,
      scheduler: automations.scheduler,
      now: clock.now,
      onMade: (failure) => failures.backedUp(failure),
    });
    phases.begin('conversations');
    const drafts = gitStore && new TurnDrafts({ ...gitStore, catalog: automations.catalog, log });
    const chat: Chat = new Chat({
      store: new ChatStore({ tables, layout, log }),
      log,
      runner: agents,
      engine: automations.engine,
      drafts,
      refusalOf,
    });
    gitStore?.workspaces.onClosed((workspace) => chat.closed(workspace));
    // What a turn that was stopped still does would be in the version, or be missing from it.
    gitStore?.workspaces.onPublishing((workspace) => chat.turns.settled(workspace));
    apps.connect({ deployments, automations, chat });
    const made = {
      ...parts,
      version: VERSION,
      cluster,
      access,
      agentTokens,
      programTokens,
      accounts,
      apps,
      scopes,
      dispatcher,
      automations,
      agentProcess,
      chat,
      agents,
      deployments,
      backups,
      scheduledBackups,
      gitStore,
      templates,
      newApps,
      clientDocuments,
      attachments,
      hosted: new Hosted({
        ...parts,
        deployments,
        gitStore,
        automations,
        apps,
        chat,
        attachments,
      }),
    };
    const { services, pipeline } = openRequests(phases, made, {
      host,
      places,
      store,
      databases,
      identity,
      refusalOf,
    });
    const servesNothing = cluster !== null || host.servesNothing === true;
    await recover(phases, services, pipeline, { treeReady, servesNothing });
    await joinCluster(phases, cluster, { ...services, runtime });
    const handle = cluster?.handler(automations, pipeline) ?? pipeline.handle;
    const leave = async (drainMs: number) => {
      if (cluster === null) return;
      // Afterwards another node has what is stored of people.
      const stored = Promise.all([programTokens.storeLastUses(), accounts.people.storeLastUses()]);
      await Promise.race([stored, wait(drainMs, undefined, { ref: false })]);
      await cluster.leave(drainMs);
    };
    const checkAddress = async () => cluster?.checkAddress();
    return { services, pipeline, handle, jobs, checkAddress, leave, end: (drainMs) => phases.end(drainMs) };
  } catch (error) {
    await phases.end(0);
    // Said of what failed to end, too.
    await stream?.drain();
    throw await room.explain(error);
  }
}

/** A gateway answers to the name that it gives to others. */
function publicHost({ publicUrl }: Config): string[] {
  return publicUrl === null ? [] : [new URL(publicUrl).hostname];
}
