/** The routes about the gateway itself: health, status, metrics, logs, OpenAPI documents (specification, "Conventions of HTTP"). */
import { TOOL_SERVER_STATES } from '../../agents/tool-server-entries.ts';
import { LIMITS } from '../../limits.ts';
import { count, listOf, number, type Of, object, oneOf, orNull, text, textOrNull } from '../../shapes/schema.ts';
import { elsewhere, limitOf, OF_APP, switched, TIME } from '../pieces.ts';
import { resource, row } from '../row.ts';
import { BACKUP_STATUS, BACKUP_STATUS_EXAMPLE } from './backups-rows.ts';
import { CLUSTER_STATUS, CLUSTER_STATUS_EXAMPLE } from './cluster-rows.ts';
import { CHANNEL } from './notices-rows.ts';

const COUNT_OR_NULL = orNull(count);
const MS_OR_NULL = { ...COUNT_OR_NULL, wanted: 'milliseconds, or null' } as const;
const BYTES_OR_NULL = { ...COUNT_OR_NULL, wanted: 'bytes, or null' } as const;
/** By name. */
const COUNTS = { type: 'object', additionalProperties: count } as const;

const ACTOR = object({
  app: text,
  automation: { ...textOrNull, says: "Null for the thread of the app's tools" },
  versionId: text,
  state: text,
  uptimeMs: MS_OR_NULL,
  restarts: count,
  mailbox: { ...count, says: 'Calls that wait' },
  inFlight: count,
  memory: BYTES_OR_NULL,
  calls: count,
  lastExit: textOrNull,
  place: {
    ...oneOf('commons', 'own'),
    says: 'Where its queries run: in the [commons](operations.md#quiet-apps), or in a thread of its own',
  },
  placeReason: { ...textOrNull, says: 'Why it has a thread of its own' },
});
const PROCESS = object(
  {
    role: oneOf('supervisor', 'writer', 'host', 'jobs', 'agents', 'sql'),
    name: text,
    pid: COUNT_OR_NULL,
    state: text,
    uptimeMs: MS_OR_NULL,
    restarts: count,
    rss: { ...BYTES_OR_NULL, says: 'Its memory' },
    cpuMs: MS_OR_NULL,
    lastExit: textOrNull,
  },
  {
    counters: COUNTS,
    actors: {
      ...listOf(ACTOR),
      says: `The apps and automations of a host, sorted: at most ${LIMITS.statusActors}. Those that are out of service or have no thread for calls that wait come before those with a thread, then come those in the commons, then those at rest`,
    },
    unlistedActors: { ...count, says: 'How many further ones the host has' },
  },
);
const TOOL_SERVER = object({
  name: text,
  kind: oneOf('stdio', 'http'),
  state: oneOf(...TOOL_SERVER_STATES),
  lastError: textOrNull,
});

const STATUS = object({
  version: text,
  node: text,
  pid: count,
  uptimeMs: count,
  edge: { enum: ['uws', 'node', null], wanted: 'one of uws, node; null in the server of a host' },
  edgeNotice: { ...textOrNull, says: 'Why `auto` chose `node`' },
  url: textOrNull,
  dataDir: text,
  eventLoop: {
    ...object({ p50: number, p99: number, max: number, forMs: count }),
    says: `The delay of the supervisor's event loop in milliseconds, sampled every ${LIMITS.eventLoopSampleMs} ms, since the last such request`,
  },
  processes: { ...listOf(PROCESS), says: 'Those that were started, the supervisor first' },
  disk: { ...orNull(object({ freeBytes: count, sizeBytes: count })), says: 'That of the data directory' },
  toolServers: { ...listOf(TOOL_SERVER), says: 'The configured MCP servers' },
  automations: {
    ...object({ registered: count, enabled: count, running: count, waiting: count }),
    says: 'The last two count runs',
  },
  timeZone: { ...text, says: 'Of schedules without a `tz`' },
  backups: elsewhere(BACKUP_STATUS, 'The [schedule of backups](http-backups.md#show-the-schedule)'),
  notices: elsewhere(listOf(CHANNEL), 'The [channels of notices](http-notices.md#list-the-channels)'),
  cluster: elsewhere(CLUSTER_STATUS, 'The [cluster](http-cluster.md#show-the-cluster)'),
  counters: object({
    subscribers: count,
    changeRingBytes: count,
    droppedLogLines: { ...count, says: "Of the apps' logs" },
    droppedGatewayLogLines: { ...count, says: "Of the [gateway's own log](configuration.md#the-log)" },
    retired: { ...COUNTS, says: 'Threads that ended, by reason' },
    leftCommons: { ...COUNTS, says: 'Apps that left the commons, by reason' },
  }),
});

export type ActorStatus = Of<typeof ACTOR>;
export type ProcessStatus = Of<typeof PROCESS>;
export type SystemStatus = Of<typeof STATUS>;

const STATUS_EXAMPLE = {
  version: '0.2.0',
  node: 'v20.20.2',
  pid: 4711,
  uptimeMs: 8_040_000,
  edge: 'uws',
  edgeNotice: null,
  url: 'http://127.0.0.1:8787',
  dataDir: '/srv/svc',
  eventLoop: { p50: 0.1, p99: 1.5, max: 12, forMs: 5000 },
  processes: [
    {
      role: 'host',
      name: 'host-1',
      pid: 4720,
      state: 'running',
      uptimeMs: 8_039_000,
      restarts: 0,
      rss: 92_000_000,
      cpuMs: 5120,
      lastExit: null,
      actors: [
        {
          app: 'todos',
          automation: null,
          versionId: 'todos/v3',
          state: 'live',
          uptimeMs: 60_000,
          restarts: 0,
          mailbox: 0,
          inFlight: 1,
          memory: 9_400_000,
          calls: 1204,
          lastExit: null,
          place: 'own',
          placeReason: 'action',
        },
      ],
      unlistedActors: 0,
    },
  ],
  disk: { freeBytes: 84_000_000_000, sizeBytes: 120_000_000_000 },
  toolServers: [{ name: 'git', kind: 'stdio', state: 'connected', lastError: null }],
  automations: { registered: 4, enabled: 3, running: 1, waiting: 0 },
  timeZone: 'Europe/Berlin',
  backups: BACKUP_STATUS_EXAMPLE,
  notices: [],
  cluster: CLUSTER_STATUS_EXAMPLE,
  counters: {
    subscribers: 3,
    changeRingBytes: 2048,
    droppedLogLines: 0,
    droppedGatewayLogLines: 0,
    retired: { idle: 1, crash: 2 },
    leftCommons: { action: 1 },
  },
};

const DOCUMENT = { ...object({ openapi: text }), additionalProperties: {} } as const;
const DOCUMENT_EXAMPLE = { openapi: '3.1.0', info: { title: 'Todos', version: '1.0.0' }, paths: {} };

/** An entry of a log, with further members of its own. */
const LOG_ENTRY = { ...object({ ts: TIME }, { level: text, msg: text }), additionalProperties: {} } as const;

export const checkHealth = row({
  method: 'GET',
  path: '/svc/_health',
  needs: 'anyone',
  title: 'Check the health',
  does: 'Says that the gateway answers.',
  answer: { json: object({ ok: { const: true }, version: text }) },
  example: { ok: true, version: '0.2.0' },
});

export const showSystem = row({
  method: 'GET',
  path: '/svc/_system',
  needs: 'admin',
  title: 'Show the status',
  does: 'Answers how the gateway is: every process and thread, with state, memory, restarts and last exit.',
  answer: { json: STATUS },
  example: STATUS_EXAMPLE,
});

export const readMetrics = row({
  method: 'GET',
  path: '/svc/_metrics',
  needs: 'admin',
  title: 'Read the metrics',
  does: 'Answers the [metrics](monitoring.md) in the text format of Prometheus. The `metricsToken` of the configuration may read them too, and has no other rights.',
  answer: { media: 'text/plain; version=0.0.4; charset=utf-8' },
});

export const readLogs = row({
  method: 'GET',
  path: '/svc/_logs',
  needs: { right: 'manage', of: 'app', without: 'admin' },
  title: 'Read a log',
  does: 'Answers the last entries of the log of an app, the oldest first, or follows those to come.',
  query: object(
    {},
    {
      app: { ...text, says: 'The id of the app; may be missing with `follow` only, which then follows all apps' },
      limit: limitOf(),
      before: {
        ...text,
        wanted: 'a time in milliseconds, or the "log-cursor" of an answer',
        says: 'Answers the entries before it',
      },
      follow: switched('Sends an event stream instead, with an `event: log` for each new entry'),
    },
  ),
  answer: {
    json: listOf(LOG_ENTRY),
    events: { log: LOG_ENTRY },
    says: 'Entries have further members.',
    headers: {
      'log-cursor':
        'the cursor of the first entry: as `before` it asks for the previous page, without missing one of many entries of the same time. Without it there is no previous page',
    },
  },
  errors: { ...OF_APP, BAD_REQUEST: 'the entry of a cursor is no longer kept; begin again without it' },
  example: [{ ts: 1_767_225_600_000, level: 'info', app: 'todos', msg: 'Reminder sent.' }],
  drafts: '`app` is needed.',
});

export const describeGateway = row({
  method: 'GET',
  path: '/svc/_openapi.json',
  needs: 'anyone',
  title: 'Describe the gateway',
  does: 'Answers all routes as an [OpenAPI](http-api.md#openapi) document.',
  answer: { json: DOCUMENT },
  example: { ...DOCUMENT_EXAMPLE, info: { title: 'svc gateway', version: '0.2.0' } },
});

export const describeTools = row({
  method: 'GET',
  path: '/svc/:id/_openapi.json',
  needs: 'read',
  title: 'Describe the tools of an app',
  does: 'Answers the tools of the app as an [OpenAPI](http-api.md#openapi) document, with one operation for each.',
  answer: { json: DOCUMENT },
  errors: { ...OF_APP, NO_ACTIVE_VERSION: '', INVALID_MANIFEST: '' },
  example: DOCUMENT_EXAMPLE,
});

export const SYSTEM = resource({
  name: 'System',
  page: 'system',
  about: '',
  rows: [checkHealth, showSystem, readMetrics, readLogs, describeGateway, describeTools],
});
