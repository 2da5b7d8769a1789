import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  CLUSTER_STATUS_EXAMPLE,
  NO_CLUSTER,
  type NodeStatus,
} from '../../../protocol/routes/operations/cluster-rows.ts';
import type { ActorStatus, ProcessStatus, SystemStatus } from '../../../protocol/routes/operations/system-rows.ts';
import { createStyle, visible } from '../../terminal/style.ts';
import { drawStatus } from './status-command.ts';

const process = (name: string, more: Partial<ProcessStatus> = {}): ProcessStatus => ({
  role: 'host',
  name,
  pid: 10,
  state: 'running',
  uptimeMs: 60_000,
  restarts: 0,
  rss: 1024 * 1024,
  cpuMs: 500,
  lastExit: null,
  ...more,
});
const actor = (app: string, more: Partial<ActorStatus> = {}): ActorStatus => ({
  app,
  automation: null,
  versionId: 'v_20260101T000000000Z_aaaaaa',
  state: 'ready',
  uptimeMs: 1000,
  restarts: 0,
  mailbox: 0,
  inFlight: 1,
  memory: 2048,
  calls: 1204,
  lastExit: null,
  place: 'own',
  placeReason: 'action',
  ...more,
});

const STATUS: SystemStatus = {
  version: '0.1.0',
  node: 'v20.20.2',
  pid: 10,
  uptimeMs: 8_040_000,
  edge: 'uws',
  edgeNotice: null,
  url: 'http://127.0.0.1:8787',
  dataDir: '/srv/svc',
  eventLoop: { p50: 0, p99: 1.5, max: 12, forMs: 1000 },
  processes: [
    process('supervisor', { role: 'supervisor' }),
    process('writer', { role: 'writer', restarts: 2, lastExit: 'signal SIGKILL', counters: { groupCommits: 7 } }),
    process('host 1', {
      actors: [
        actor('notes'),
        actor('todos', {
          place: 'commons',
          placeReason: null,
          state: 'quarantined',
          uptimeMs: null,
          memory: null,
          lastExit: 'crash',
        }),
      ],
    }),
    process('host 2', {
      pid: null,
      uptimeMs: null,
      rss: null,
      cpuMs: null,
      state: 'starting',
      actors: [actor('tasks', { versionId: 'tasks/v12' }), actor('tasks', { automation: 'digest', inFlight: 0 })],
      unlistedActors: 4800,
    }),
  ],
  disk: null,
  toolServers: [
    { name: 'git', kind: 'stdio', state: 'failed', lastError: 'it ended\nwith 1' },
    { name: 'web', kind: 'http', state: 'connected', lastError: 'an earlier failure' },
  ],
  notices: [],
  cluster: NO_CLUSTER,
  backups: {
    state: 'off',
    running: false,
    schedule: null,
    nextAt: null,
    lastSuccess: null,
    lastFailure: null,
    failures: 0,
  },
  automations: { registered: 4, enabled: 3, running: 1, waiting: 0 },
  timeZone: 'Europe/Berlin',
  counters: {
    subscribers: 3,
    changeRingBytes: 2048,
    droppedLogLines: 0,
    droppedGatewayLogLines: 12,
    retired: { idle: 1, evicted: 0, superseded: 0, deadline: 0, memory: 0, crash: 2, unresponsive: 0, shutdown: 0 },
    leftCommons: { action: 3, busy: 0 },
  } as unknown as SystemStatus['counters'],
};

test('the process tree', () => {
  const lines = drawStatus(STATUS, Number.POSITIVE_INFINITY, createStyle(false)).map(visible);
  assert.equal(lines[0], 'svc-gateway 0.1.0  http://127.0.0.1:8787  up 2 h 14 min');
  assert.equal(lines[1], 'edge uws   Node 20.20.2   data /srv/svc');
  const edgeNotice = 'uWebSockets.js is not installed. Serving with node:http.';
  const slower = drawStatus({ ...STATUS, edge: 'node', edgeNotice }, 40, createStyle(false));
  assert.deepEqual(slower.slice(3, 6), ['uWebSockets.js is not installed. Serving', 'with node:http.', '']);
  assert.deepEqual(
    lines.slice(4, 13).map((line) => line.replace(/ {2,}/g, ' | ')),
    [
      'supervisor | 10 | ● running | 1 min | 1 MiB | 500 ms | 0',
      '├─ writer | 10 | ● running | 1 min | 1 MiB | 500 ms | 2 | signal SIGKILL',
      '├─ host 1 | 10 | ● running | 1 min | 1 MiB | 500 ms | 0',
      '│ | ├─ notes aaaaaa | own: action | ● ready | 1 s | 2 KiB | 0 | 1 | 1,204 | 0',
      '│ | └─ todos aaaaaa | commons | ● quarantined | 0 | 1 | 1,204 | 0 | crash',
      '└─ host 2 | ● starting | 0',
      ' | ├─ tasks v12 | own: action | ● ready | 1 s | 2 KiB | 0 | 1 | 1,204 | 0',
      ' | ├─ tasks/digest aaaaaa | ● ready | 1 s | 2 KiB | 0 | 0 | 1,204 | 0',
      ' | └─ 4,800 more',
    ],
  );
  assert.deepEqual(lines.slice(14), [
    'mcp server   git (stdio)  ● failed  it ended ⏎ with 1',
    'mcp server   web (http)  ● connected',
    'gateway      subscribers 3   change ring 2 KiB   dropped gateway log lines 12',
    'automations  registered 4   enabled 3   running 1',
    'retired      idle 1   crash 2',
    'own threads  action 3',
    'writer       group commits 7',
  ]);
});

test('a node of a cluster: what it owns, and whether the database answers', () => {
  const [node, other] = CLUSTER_STATUS_EXAMPLE.nodes as NodeStatus[];
  const cluster: SystemStatus['cluster'] = {
    ...NO_CLUSTER,
    node: 'node-1',
    nodes: [node!, { ...other!, state: 'draining' }],
    database: { addresses: [], answers: true, error: null },
  };
  const linesOf = (now: SystemStatus['cluster']) =>
    drawStatus({ ...STATUS, cluster: now }, Number.POSITIVE_INFINITY, createStyle(false))
      .map(visible)
      .filter((line) => line.startsWith('cluster'));
  assert.deepEqual(linesOf(cluster), ['cluster      node-1 ● live   2,048 of 4,096 buckets   2 nodes']);
  const away = { ...cluster, database: { addresses: [], answers: false, error: 'away' } };
  assert.match(linesOf(away)[0] ?? '', /2 nodes {3}database ● does not answer$/);
  assert.deepEqual(linesOf(NO_CLUSTER), []);
});

test('channels of notices: those that fail, and why', () => {
  const times = { waiting: 2, dropped: 0, lastSentAt: null };
  const notices: SystemStatus['notices'] = [
    { channel: 'ntfy', kind: 'ntfy', state: 'ok', ...times, lastFailure: null },
    {
      channel: 'mail',
      kind: 'mail',
      state: 'failing',
      ...times,
      lastFailure: { at: Date.now() - 61_000, message: 'No.' },
    },
  ];
  const lines = drawStatus({ ...STATUS, notices }, 80, createStyle(false)).map(visible);
  assert.deepEqual(
    lines.filter((line) => line.startsWith('notices')),
    ['notices      ● failing mail 1 min ago: No.'],
  );
});

test('backups on schedule: the result of the last one, and the next', () => {
  const now = Date.now();
  const backups: SystemStatus['backups'] = {
    state: 'failed',
    running: false,
    schedule: { cron: '0 3 * * *', keep: 7, dir: '/mnt/backups', setBy: 'command' },
    nextAt: now + 7_200_000 + 1000,
    lastSuccess: { at: now - 90_000_000, file: '/mnt/backups/a', bytes: 2048, ms: 10 },
    lastFailure: { at: now - 3_600_000, message: 'There is no room. Free some.' },
    failures: 1,
  };
  const lines = (of: SystemStatus['backups'], width = 80) =>
    drawStatus({ ...STATUS, toolServers: [], backups: of }, width, createStyle(false)).map(visible);
  const shown = lines(backups);
  const at = shown.findIndex((line) => line.startsWith('backups'));
  assert.deepEqual(shown.slice(at, at + 2), [
    'backups      ● failed 1 h ago: There is no room. Free some.',
    '             last good one 1 d ago   2 KiB   next in 2 h   in /mnt/backups',
  ]);
  const first = lines({ ...backups, state: 'waiting', lastSuccess: null, lastFailure: null, running: true });
  assert.ok(
    first.includes('             no good one yet   one is being made   next in 2 h   in /mnt/backups'),
    first.join('\n'),
  );
  for (const line of lines(backups, 40)) assert.ok(line.length <= 40, line);
});

test('a narrow terminal has whole cells of fewer columns', () => {
  const lines = (width: number) => drawStatus(STATUS, width, createStyle(false)).map(visible);
  for (const width of [80, 40]) for (const line of lines(width)) assert.ok(line.length <= width, line);
  const [head = '', ...rows] = lines(80).slice(3, 12);
  assert.doesNotMatch(rows.join(), /…/);
  assert.match(head, /^PROCESS .*STATE .*UP .*MEMORY .*CALLS .*RESTARTS/);
  const narrow = lines(40);
  const titles = narrow.findIndex((line) => line.startsWith('PROCESS'));
  assert.match(narrow[titles] ?? '', /^PROCESS +STATE +MEMORY/);
});
