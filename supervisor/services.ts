/** Lists the parts of a gateway for the routes; `wiring.ts` connects them once. */

import type { Logger } from 'pino';
import type { Attachments } from './agents/conversations/attachment-store.ts';
import type { Chat } from './agents/conversations/chat.ts';
import type { AgentServices } from './agents/open-agents.ts';
import type { AgentProcess } from './agents/runners/agent-process.ts';
import type { NewApps } from './authoring/new-apps.ts';
import type { GitStoreServices } from './authoring/open-authoring.ts';
import type { Templates } from './authoring/templates.ts';
import type { Automations } from './automations/automations.ts';
import type { Blobs } from './blobs.ts';
import type { ClusterNode } from './cluster/node.ts';
import type { Config } from './config.ts';
import type { Databases } from './databases.ts';
import type { Deployments } from './deployments/deploy.ts';
import type { VersionFiles } from './deployments/version-files.ts';
import type { Apps, AppsOptions } from './dispatch/apps.ts';
import type { CachedReads } from './dispatch/cached-reads.ts';
import type { Dispatcher } from './dispatch/dispatcher.ts';
import type { ScopesOf } from './dispatch/scope.ts';
import type { Exchange } from './edge/edge.ts';
import type { Access } from './http/access/access.ts';
import type { AgentTokens } from './http/access/agent-tokens.ts';
import type { Caller } from './http/access/grants.ts';
import type { LiveStreams } from './live/live-streams.ts';
import type { McpSessions } from './mcp/mcp-sessions.ts';
import type { Notices } from './notices/notices.ts';
import type { Activity } from './operations/activity.ts';
import type { AuditLog } from './operations/audit-log.ts';
import type { Backups } from './operations/backups.ts';
import type { DataRepair } from './operations/data-repair.ts';
import type { EventLoopMonitor } from './operations/event-loop.ts';
import type { HttpMeter } from './operations/metrics/http-meter.ts';
import type { ScheduledBackups } from './operations/scheduled-backups.ts';
import type { ConsoleFiles } from './pages/console-files.ts';
import type { Preferences } from './pages/preferences.ts';
import type { ClientDocuments } from './people/connections/client-documents.ts';
import type { SqlProcesses } from './sql/sql-processes.ts';
import type { Hosted } from './start/hosted.ts';
import type { Tracing } from './tracing/tracing.ts';

export type Services = AppsOptions & {
  version: string;
  blobs: Blobs;
  config: Config;
  databases: Databases;
  /** Null for a gateway of its own. */
  cluster: ClusterNode | null;
  /** Null when the embedding host owns authentication. */
  access: Access | null;
  /**
   * The client of a caller, for limits per client. If a host owns authentication and distinguishes callers, it is an address.
   */
  clientOf(exchange: Exchange, caller: Caller): string;
  /** Tokens with which agents call the gateway. */
  agentTokens: AgentTokens;
  /** Who did what. */
  audit: AuditLog;
  /** The address of a client, past the proxies that the configuration trusts. */
  addressOf(exchange: Exchange): string;
  /** The same as limits count it: of IPv6 the network. */
  networkOf(exchange: Exchange): string;
  apps: Apps;
  reads: CachedReads;
  /** Runs SQL of callers. */
  sql: SqlProcesses;
  /** Finds live apps and drafts. */
  scopes: ScopesOf;
  /** To the tools of live apps and drafts. */
  dispatcher: Dispatcher;
  automations: Automations;
  agentProcess: AgentProcess;
  chat: Chat;
  /** The runner of turns, and the catalog of agents. */
  agents: AgentServices;
  liveStreams: LiveStreams;
  mcpSessions: McpSessions;
  deployments: Deployments;
  versionFiles: VersionFiles;
  backups: Backups;
  scheduledBackups: ScheduledBackups;
  notices: Notices;
  dataRepair: DataRepair;
  /** Workspaces, drafts and authoring; null on the tarball backend. */
  gitStore: GitStoreServices;
  templates: Templates;
  newApps: NewApps;
  /** Serves and releases apps and workspaces while the gateway runs. */
  hosted: Hosted;
  /** What programs say of themselves. */
  clientDocuments: ClientDocuments;
  attachments: Attachments;
  consoleFiles: ConsoleFiles;
  preferences: Preferences;
  /** The last hour of each app. */
  activity: Activity;
  eventLoop: EventLoopMonitor;
  /** The same for metrics, so that neither takes the other's figures; it runs after the first scrape. */
  metricsLoop: EventLoopMonitor;
  httpMeter: HttpMeter;
  /** Null where no traces are wanted. */
  tracing: Tracing | null;
  log: Logger;
  /**
   * The edge of `serve`, and why it is not the fast one if that was wanted; null while nothing listens or when a host owns the
   * server.
   */
  listening: () => { edge: 'uws' | 'node'; url: string; notice?: string | null } | null;
};
