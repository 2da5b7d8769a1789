/** The last phases of a start: the way of a request to the parts, repairs after a crash, and what runs by the clock. */
import { setTimeout as wait } from 'node:timers/promises';
import type { SvcError } from '../../protocol/errors.ts';
import { sweepDaily } from '../../storage/apps/trash.ts';
import type { Databases } from '../databases.ts';
import type { CodeStore } from '../deployments/store/code-store.ts';
import { VersionFiles } from '../deployments/version-files.ts';
import { HERE } from '../dispatch/at-owner.ts';
import type { Places } from '../http/access/places.ts';
import { Visitors } from '../http/access/visitors.ts';
import { Pipeline } from '../http/pipeline.ts';
import { Router } from '../http/router.ts';
import { LiveQueries } from '../live/live-queries.ts';
import { LiveStreams } from '../live/live-streams.ts';
import { LiveAtOwner } from '../mcp/live-at-owner.ts';
import { McpSessions } from '../mcp/mcp-sessions.ts';
import { Activity, dataBytes } from '../operations/activity.ts';
import { AuditLog, MACHINE } from '../operations/audit-log.ts';
import { DataRepair } from '../operations/data-repair.ts';
import { EventLoopMonitor } from '../operations/event-loop.ts';
import { HttpMeter } from '../operations/metrics/http-meter.ts';
import { ConsoleFiles } from '../pages/console-files.ts';
import { Preferences } from '../pages/preferences.ts';
import type { IdentityDb } from '../people/identity-db.ts';
import { allRoutes } from '../routes/all.ts';
import type { Services } from '../services.ts';
import type { Host } from './given-parts.ts';
import type { Phases } from './phases.ts';

/** What is made here. */
type MadeHere =
  | 'clientOf'
  | 'addressOf'
  | 'networkOf'
  | 'audit'
  | 'liveStreams'
  | 'activity'
  | 'mcpSessions'
  | 'versionFiles'
  | 'dataRepair'
  | 'consoleFiles'
  | 'preferences'
  | 'eventLoop'
  | 'metricsLoop'
  | 'httpMeter'
  | 'listening';
type RequestsOptions = {
  host: Host;
  places: Places;
  store: CodeStore;
  databases: Databases;
  identity: IdentityDb;
  refusalOf(key: string): SvcError | null;
};

/** Every part is made by now. */
export function openRequests(
  phases: Phases,
  parts: Omit<Services, MadeHere>,
  { host, places, store, databases, identity, refusalOf }: RequestsOptions,
): { services: Services; pipeline: Pipeline } {
  phases.begin('requests');
  const { config, layout, log, registry, tree, changes, blobs, tracing, access, agentTokens, apps } = parts;
  const { programTokens, accounts, deployments, chat, scheduledBackups } = parts;
  const addresses = new Visitors({ apps, config });
  const live = new LiveQueries(parts);
  const liveOfAll = parts.atOwner === HERE ? live : new LiveAtOwner(live, apps, parts.atOwner);
  const mcpSessions = new McpSessions({ live, liveOfAll, readers: changes.readers, changes });
  // The one place where is asked whose right has ended: all that goes on for a caller ends with it.
  const endRefused = (): void => {
    changes.readers.endRefused();
    mcpSessions.endRefused();
    chat.turns.endRefused();
  };
  for (const given of [access, agentTokens, programTokens]) given?.on('ended', endRefused);
  accounts.onEnded(endRefused);
  const audit = new AuditLog({ ...identity, log });
  phases.ends(() => audit.stop());
  access?.on('rotated', () => void audit.record(MACHINE, 'token.rotated', null));
  const services: Services = {
    ...parts,
    clientOf: (exchange, caller) =>
      access !== null || caller.kind === 'agent' || caller.kind === 'person'
        ? caller.client
        : `address ${addresses.clientOf(exchange)}`,
    addressOf: (exchange) => addresses.addressOf(exchange),
    networkOf: (exchange) => addresses.clientOf(exchange),
    audit,
    liveStreams: new LiveStreams(live, changes),
    activity: new Activity({
      meters: tree.meters,
      dataBytes: (app) => dataBytes(layout.app(app)),
      subscribers: (app) => changes.subscribersOf(app) + live.followersOf(app),
    }),
    mcpSessions,
    versionFiles: new VersionFiles({ ...parts, store }),
    dataRepair: new DataRepair({ ...parts, databases }),
    consoleFiles: new ConsoleFiles(log),
    preferences: new Preferences(identity),
    eventLoop: new EventLoopMonitor(),
    metricsLoop: new EventLoopMonitor(),
    httpMeter: new HttpMeter(),
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
  const callers = { access, visitors, agentTokens, authorize, identify, makerOf, openTo, corsOrigins, refusalOf };
  const pipeline = new Pipeline({ router, ...callers, ...seen });
  // Uploads need the writer to end well, and everything that they call.
  phases.ends((drainMs) =>
    Promise.race([Promise.all([deployments.settled(), blobs.settled()]), wait(drainMs, undefined, { ref: false })]),
  );
  // An upload may wait for a backup.
  phases.ends(() => scheduledBackups.stop());
  // These streams do not end by themselves.
  phases.ends(() => changes.closeAll());
  phases.ends(() => mcpSessions.close());
  // Followers of a turn get its end.
  phases.ends(() => chat.stop());
  return { services, pipeline };
}

/** Repairs what a crash left, which may need the writer, and begins what runs by the clock. */
export async function recover(
  phases: Phases,
  services: Services,
  pipeline: Pipeline,
  { treeReady, servesNothing }: { treeReady: Promise<void>; servesNothing: boolean },
): Promise<void> {
  const { databases, hosted, templates, layout, config, log } = services;
  phases.begin('recovery');
  const ready = openGateway(services, treeReady);
  // Observed here too, so that it is not left unhandled while files are read.
  ready.catch(() => {});
  phases.ends(() => hosted.stop());
  await hosted.open(ready, servesNothing);
  templates.open();
  phases.begin('ready');
  phases.ends(() => services.metricsLoop.stop());
  phases.ends(() => services.eventLoop.stop());
  services.eventLoop.start();
  phases.ends(() => services.activity.stop());
  services.activity.start();
  const purge = async (names: string[]) => {
    for (const name of names) await databases.purge(name);
  };
  const sweeping = sweepDaily(layout, config.trashDays, purge, (error) =>
    log.warn({ err: error }, 'Old files could not be removed.'),
  );
  phases.ends(() => clearInterval(sweeping));
  phases.ends(() => {
    pipeline.draining = true;
  });
  phases.begin('running');
}

/** What is of the gateway itself, and of all apps. */
async function openGateway(services: Services, treeReady: Promise<void>): Promise<void> {
  const { notices, deployments, agents, scheduledBackups } = services;
  // Repairs after a crash may need the writer.
  await treeReady;
  notices.open();
  await deployments.open();
  await agents.catalog?.open();
  // Before the scheduler starts: it makes up for what was missed.
  await scheduledBackups.open();
}
