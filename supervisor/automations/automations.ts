/**
 * Connects the parts of automations: the catalog of live ones, the scheduler and webhooks that fire them, the runs, and their
 * history (specification, "Runs").
 */
import { existsSync } from 'node:fs';
import { clearTimeout, setImmediate, setTimeout } from 'node:timers';
import type { Logger } from 'pino';
import type { RunRecord } from '../../protocol/automations/runs.ts';
import { isDiskFull } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Registry } from '../../storage/apps/registry.ts';
import { readWebhookKeys } from '../../storage/automations/automation-files.ts';
import type { Layout } from '../../storage/layout.ts';
import type { AgentProcess } from '../agents/runners/agent-process.ts';
import type { Config } from '../config.ts';
import type { Databases } from '../databases.ts';
import type { Deployments } from '../deployments/deploy.ts';
import type { Apps } from '../dispatch/apps.ts';
import type { AtOwner } from '../dispatch/at-owner.ts';
import type { ChangeStreams } from '../dispatch/change-streams.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { ConversationRunner, FireAutomationFactory } from '../extension-points.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { RunEngine } from '../runs/engine.ts';
import { RunLedger } from '../runs/ledger.ts';
import type { Run } from '../runs/run.ts';
import { RunEvents } from '../runs/run-events.ts';
import type { RuntimeDatabases } from '../runtime/runtime-databases.ts';
import type { Secrets } from '../secrets.ts';
import type { SimulatedClock } from '../simulation.ts';
import type { Tracing } from '../tracing/tracing.ts';
import type { Tree } from '../tree/tree.ts';
import { AutomationCatalog, type LiveAutomation } from './catalog.ts';
import { Enablement } from './enablement.ts';
import { FireTools } from './fires/fire-tools.ts';
import { Fires, type FiresOptions } from './fires/fires.ts';
import { McpToolServers } from './mcp-tool-servers.ts';
import { type InternalAutomation, Scheduler } from './schedule/scheduler.ts';
import { Webhooks } from './webhooks/webhooks.ts';

type AutomationsOptions = {
  dispatcher: Dispatcher;
  config: Config;
  apps: Apps;
  atOwner: AtOwner;
  changes: ChangeStreams;
  deployments: Deployments;
  registry: Registry;
  layout: Layout;
  databases: Databases;
  runtime: RuntimeDatabases;
  tree: Tree;
  jobs: Jobs;
  secrets: Secrets;
  log: Logger;
  /** One line of JSON for an app's log. */
  appLog(app: string, line: string): void;
  /** Address of the gateway, null when a host owns the server. */
  baseUrl(): string | null;
  agentProcess: AgentProcess;
  tracing: Tracing | null;
  conversationRunner: ConversationRunner;
  fireAutomationFactory: FireAutomationFactory | null;
  notify: FiresOptions['notify'];
  /** The end of a run is stored. */
  onEnded(run: RunRecord): void;
  clock: Clock;
};

/** The clock and timers of automations. */
type Clock = Pick<SimulatedClock, 'now' | 'setTimer'>;

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimer: (ms, wake) => {
    const timer = setTimeout(wake, ms);
    return () => clearTimeout(timer);
  },
};

/** How many automations live versions have, how many of them are on; how many runs run, and how many wait for their turn. */
type AutomationsStatus = { registered: number; enabled: number; running: number; waiting: number };

export class Automations {
  readonly catalog: AutomationCatalog;
  readonly runs: RunLedger;
  readonly runEvents: RunEvents;
  readonly engine: RunEngine;
  readonly fires: Fires;
  /** Of the catalog's automations, and those of the gateway itself. */
  readonly scheduler: Scheduler<LiveAutomation | InternalAutomation>;
  readonly webhooks: Webhooks;
  readonly enablement: Enablement;
  /** Null when the configuration names none. */
  readonly toolServers: McpToolServers | null;
  /** Milliseconds since the epoch, by its clock. */
  readonly now: () => number;
  readonly #log: Logger;
  /** Apps whose runs are not put right yet: nothing of them fires. */
  readonly #arriving = new Set<string>();
  #isOpen = false;
  /** Looks whether there is room by now. */
  #retry: NodeJS.Timeout | null = null;
  #stopped = false;

  constructor(options: AutomationsOptions) {
    const { config, layout, registry, databases, tree, apps, log, clock } = options;
    const { now } = clock;
    this.now = now;
    this.#log = log;
    this.catalog = new AutomationCatalog({ layout, registry, log });
    this.runs = new RunLedger({
      runtime: options.runtime,
      analytics: databases.own('_analytics', layout.analyticsDb),
      putAnalyticsAside: () => databases.putAside('_analytics', layout.analyticsDb, now()),
      now,
      log,
      onEnded: (run) => {
        tree.meters.of(run.app).ran(run);
        options.onEnded(run);
      },
    });
    this.runEvents = new RunEvents(this.runs, options.changes.readers);
    this.toolServers = toolServers(options);
    this.engine = new RunEngine({ ledger: this.runs, events: this.runEvents, log, now });
    this.fires = new Fires({
      catalog: this.catalog,
      engine: this.engine,
      ledger: this.runs,
      events: this.runEvents,
      secrets: options.secrets,
      tools: new FireTools(options.dispatcher, apps, this.toolServers, options.atOwner),
      notify: options.notify,
      actorOf: async ({ app, id }) => {
        const { active } = await apps.get(app);
        return tree.fireActor({ app, id }, active);
      },
      runner: options.conversationRunner,
      factory: options.fireAutomationFactory,
      handlerOf: ({ app, id, versionId }) => {
        const file = layout.app(app).version(versionId).automationHandler(id);
        return existsSync(`${file}.js`) ? `${file}.js` : `${file}.ts`;
      },
      checkOutput: ({ app, id, versionId }, output) => {
        const { validators } = layout.app(app).version(versionId);
        return options.jobs.checkOutput({ app, validators, automation: id, output });
      },
      baseUrl: options.baseUrl,
      appLog: options.appLog,
      automationTimeoutMs: config.automationTimeoutMs,
      tracing: options.tracing,
      log,
      now,
    });
    this.scheduler = this.#createScheduler(clock);
    this.webhooks = new Webhooks({
      catalog: this.catalog,
      fires: this.fires,
      secrets: options.secrets,
      appLog: options.appLog,
      keyOf: async ({ app }, slug) => (await readWebhookKeys(layout.app(app))).get(slug) ?? null,
      now,
    });
    this.enablement = new Enablement({
      layout,
      registry,
      deployments: options.deployments,
      catalog: this.catalog,
      log,
    });
    this.catalog.onChange((app) => {
      if (!this.#arriving.has(app)) this.scheduler.reconcile(app, this.catalog.list(app));
    });
  }

  /** Reads what these apps have, ends the runs that were cut off, and begins to fire. Call it once the writer is ready. */
  async serve(apps: readonly string[]): Promise<void> {
    for (const app of apps) this.#arriving.add(app);
    // A start has no callers yet.
    if (this.#isOpen) this.engine.refuse(apps);
    const loaded = this.catalog.serve(apps);
    await Promise.all([this.#openRuns(apps, loaded), loaded]);
  }

  /** On a full disk no run can be stored: the scheduler fires nothing until there is room. */
  async #openRuns(apps: readonly string[], loaded: Promise<void>): Promise<void> {
    try {
      await this.runs.serve(apps);
      await loaded;
      const fired = await this.runs.lastCronFires(this.now()).catch((error: unknown) => {
        this.#log.warn({ err: error }, 'What fired last could not be read: a clock that was set back may repeat it.');
        return new Map<string, number>();
      });
      if (this.#stopped) return;
      // Those that were released meanwhile are not here.
      const here = apps.filter((app) => this.#arriving.delete(app));
      this.engine.serve(here);
      this.scheduler.takeOver(new Map(here.map((app) => [app, this.catalog.list(app)])), fired);
      // The first time; an automation that is added later is new and has missed nothing.
      this.scheduler.start(fired);
      this.#isOpen = true;
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      this.#log.warn({ err: error }, 'The disk is full: automations wait until there is room.');
      this.#retry = setTimeout(() => {
        this.#openRuns(apps, loaded).catch((failure: unknown) =>
          this.#log.error({ err: failure }, 'Automations cannot be run.'),
        );
      }, LIMITS.diskRetryMs).unref();
    }
  }

  status(): AutomationsStatus {
    return { ...this.catalog.counts, ...this.engine.load('automation') };
  }

  /**
   * Fires nothing of an app any more, and gives its runs `drainMs` to end; the others are stored as `interrupted`. Another node goes on
   * with it.
   */
  async release(app: string, drainMs: number): Promise<void> {
    this.#arriving.delete(app);
    this.engine.refuse([app]);
    this.catalog.release(app);
    await this.engine.release(({ record }) => record.kind === 'automation' && record.app === app, drainMs);
    this.runEvents.release(app);
    await this.runs.release(app);
  }

  /** Before an app is removed: ends its runs and deletes their history. */
  async removed(app: string): Promise<void> {
    this.catalog.forget(app);
    const isOfApp = ({ record }: Run) => record.kind === 'automation' && record.app === app;
    await this.engine.abort(isOfApp, 'The app was removed.');
  }

  /** Stops firing; runs get `drainMs` to end, the others are stored as `interrupted`. */
  async stop(drainMs: number): Promise<void> {
    this.#stopped = true;
    if (this.#retry !== null) clearTimeout(this.#retry);
    this.scheduler.stop();
    await this.engine.stop('automation', drainMs);
    this.runEvents.closeAll();
    await this.runs.settled();
  }

  #createScheduler({ now, setTimer }: Clock): Scheduler<LiveAutomation | InternalAutomation> {
    return new Scheduler({
      now,
      setTimer,
      yieldTurn: (rest) => void setImmediate(rest),
      fire: (automation, scheduledAt) => {
        if ('internal' in automation) automation.internal.fire(scheduledAt);
        else this.#fireCron(automation, scheduledAt);
      },
      lastFired: (automation) =>
        'internal' in automation ? automation.internal.lastFired() : this.runs.cronFired(automation),
      watchedFrom: (automation, at) => {
        if ('internal' in automation) return automation.internal.watchedFrom(at);
        this.runs.noteCronFired(automation, at).catch((err: unknown) => {
          const message = 'It could not be noted since when an automation is scheduled.';
          this.#log.warn({ err, automation: automation.ref }, message);
        });
      },
      log: (level, message) => this.#log[level](message),
    });
  }

  #fireCron(automation: LiveAutomation, scheduledAt: number): void {
    const trigger = { kind: 'cron', origin: scheduledAt } as const;
    const extra = () => [this.runs.cronFire(automation, scheduledAt)];
    this.fires.start({ automation, trigger, at: scheduledAt, input: undefined, extra }).catch((error: unknown) => {
      this.#log.error({ err: error, automation: automation.ref }, 'A scheduled run could not be started.');
    });
  }
}

function toolServers({ config, agentProcess, log }: AutomationsOptions): McpToolServers | null {
  if (Object.keys(config.mcpServers).length === 0) return null;
  return new McpToolServers({
    callMs: config.automationTimeoutMs,
    agents: agentProcess,
    log: (level, message) => log[level](message),
  });
}
