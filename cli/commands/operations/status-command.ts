/** `svc status`: the gateway and its tree of processes and threads. */
import { setTimeout as sleep } from 'node:timers/promises';
import { automationRef } from '../../../protocol/automations/automation.ts';
import { BUCKETS } from '../../../protocol/buckets.ts';
import type { ActorStatus, ProcessStatus, SystemStatus } from '../../../protocol/routes/operations/system-rows.ts';
import { formatBytes, formatCount, plural } from '../../../protocol/text/units.ts';
import type { CommandContext } from '../../command.ts';
import { failureOf, nameOfChannel } from '../../resources.ts';
import { drawState } from '../../terminal/states.ts';
import type { Format, Style } from '../../terminal/style.ts';
import { type Cell, type Column, drawTable, right } from '../../terminal/table.ts';
import { formatAge, formatDuration, formatWait } from '../../terminal/units.ts';
import { joined, wrap } from '../../terminal/wrap.ts';
import { shortVersion } from '../apps/versions-command.ts';
import { drawDatabase } from './cluster-command.ts';

const REFRESH_MS = 1000;

const number = (title: string, drop: number): Column => ({ title, align: 'right', drop });
/** On a narrow terminal columns are left out, `PID` first. */
const COLUMNS: Column[] = [
  'PROCESS',
  number('PID', 9),
  'STATE',
  number('UP', 4),
  right('MEMORY'),
  number('CPU', 5),
  number('WAITING', 8),
  number('RUNNING', 7),
  number('CALLS', 2),
  number('RESTARTS', 3),
  { title: 'LAST EXIT', squeeze: true, drop: 6 },
];
const COUNTERS_INDENT = 13;

export async function status({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const draw = (now: SystemStatus) => drawStatus(now, terminal.columns, terminal.style);
  const isWatched = args.has('watch') && !terminal.json;
  do {
    const now = await client.call('GET /svc/_system');
    if (isWatched) {
      terminal.screen(draw(now));
      await sleep(REFRESH_MS);
    } else terminal.answer(now, () => terminal.lines(draw(now)));
  } while (isWatched);
}

export function drawStatus(now: SystemStatus, width: number, style: Style): string[] {
  const below = [
    ...clusterLines(now, width, style),
    ...backupLines(now, width, style),
    ...noticeLines(now, width, style),
    ...toolServerLines(now, width, style),
    ...counterLines(now, width, style),
  ];
  const facts = [`edge ${now.edge ?? 'of the host'}`, `Node ${now.node.replace(/^v/, '')}`, `data ${now.dataDir}`];
  return [
    ...joined(
      [
        `${style('bold', 'svc-gateway')} ${now.version}`,
        ...(now.url === null ? [] : [style('cyan', now.url)]),
        style('green', `up ${formatDuration(now.uptimeMs)}`),
      ],
      '  ',
      width,
    ),
    ...joined(facts, '   ', width).map((line) => style('dim', line)),
    ...(now.edgeNotice ? wrap(now.edgeNotice, width) : []).map((line) => style('dim', line)),
    '',
    ...drawTable(COLUMNS, treeRows(now.processes), width, style),
    ...(below.length === 0 ? [] : ['', ...below]),
  ];
}

/** The supervisor is the root, the other processes its branches, and a host's threads theirs. */
function treeRows([root, ...children]: ProcessStatus[]): Cell[][] {
  if (root === undefined) return [];
  return [
    processRow(root, ''),
    ...children.flatMap((child, i) => {
      const isLast = i === children.length - 1;
      const { actors = [], unlistedActors = 0 } = child;
      const trunk = isLast ? '   ' : '│  ';
      const more = unlistedActors === 0 ? [] : [[`${trunk}└─ ${formatCount(unlistedActors)} more`]];
      const last = more.length === 0 ? actors.length - 1 : null;
      return [
        processRow(child, isLast ? '└─ ' : '├─ '),
        ...actors.map((actor, j) => actorRow(actor, trunk + (j === last ? '└─ ' : '├─ '))),
        ...more,
      ];
    }),
  ];
}

function processRow(process: ProcessStatus, branch: string): Cell[] {
  const { name, pid, cpuMs, rss } = process;
  return [
    branch + name,
    known(pid, String),
    ...life(process, rss),
    known(cpuMs, formatDuration),
    '',
    '',
    '',
    ...ends(process),
  ];
}

function actorRow(actor: ActorStatus, branch: string): Cell[] {
  const { app, automation, versionId, memory, mailbox, inFlight, calls } = actor;
  const name = automation === null ? app : automationRef(app, automation);
  const load = [notable(mailbox), formatCount(inFlight), formatCount(calls)];
  return [
    `${branch}${name} ${shortVersion(versionId)}`,
    { text: drawPlace(actor), format: 'dim' },
    ...life(actor, memory),
    '',
    ...load,
    ...ends(actor),
  ];
}

/** `commons`, or why the app has a thread of its own: `own: action`. An older gateway does not report it. */
function drawPlace({ automation, place, placeReason }: ActorStatus): string {
  if (automation !== null || place === undefined) return '';
  return placeReason === null ? place : `${place}: ${placeReason}`;
}

function life({ state, uptimeMs }: ProcessStatus | ActorStatus, memory: number | null): Cell[] {
  return [drawState(state), known(uptimeMs, formatDuration), known(memory, formatBytes)];
}

function ends({ restarts, lastExit }: ProcessStatus | ActorStatus): Cell[] {
  return [notable(restarts), { text: lastExit ?? '', format: 'dim' }];
}

function known(value: number | null, format: (value: number) => string): string {
  return value === null ? '' : format(value);
}

/** A count that should be 0. */
function notable(count: number): Cell {
  return count > 0 ? { text: formatCount(count), format: 'yellow' } : '0';
}

/** The node of a cluster: what it owns, and whether the database answers. */
function clusterLines({ cluster }: SystemStatus, width: number, style: Style): string[] {
  const own = cluster?.nodes.find(({ self }) => self);
  // An older gateway does not report it.
  if (own === undefined) return [];
  const state = drawState(own.state);
  const facts = [
    `${own.name} ${style(state.format, state.text)}`,
    `${formatCount(own.buckets)} of ${formatCount(BUCKETS)} buckets`,
    plural(cluster.nodes.length, 'node'),
    ...(cluster.database?.answers === false ? [`database ${drawDatabase(cluster.database, style)}`] : []),
  ];
  return listed('cluster', joined(facts, '   ', width - COUNTERS_INDENT), style);
}

/** Backups on schedule: the result of the last one, and the time of the next. */
function backupLines({ backups }: SystemStatus, width: number, style: Style): string[] {
  // An older gateway does not report them.
  if (!backups?.schedule) return [];
  const { state, running, schedule, nextAt, lastSuccess, lastFailure } = backups;
  const now = Date.now();
  const parts = [style(...backupState(state))];
  if (state === 'failed' && lastFailure !== null)
    parts.push(...`${formatAge(lastFailure.at, now)}: ${lastFailure.message}`.split(' '));
  const good = lastSuccess === null ? 'no good one yet' : `last good one ${formatAge(lastSuccess.at, now)}`;
  const facts = [
    ...(lastSuccess === null ? [] : [formatBytes(lastSuccess.bytes)]),
    ...(running ? ['one is being made'] : []),
    ...(nextAt === null ? [] : [`next ${formatWait(nextAt, now)}`]),
    `in ${schedule.dir}`,
  ];
  const text = [
    ...joined(parts, ' ', width - COUNTERS_INDENT),
    ...joined([good, ...facts], '   ', width - COUNTERS_INDENT),
  ];
  return listed('backups', text, style);
}

function backupState(state: string): [Format, string] {
  const format = state === 'failed' ? 'red' : state === 'ok' ? 'green' : 'yellow';
  return [format, `● ${state}`];
}

/** The channels of notices that fail, and why. */
function noticeLines({ notices }: SystemStatus, width: number, style: Style): string[] {
  // An older gateway does not report them.
  const failing = (notices ?? []).filter(({ state }) => state === 'failing');
  return failing.flatMap((status) => {
    const parts = [style('red', '● failing'), nameOfChannel(status), ...failureOf(status, Date.now()).split(' ')];
    return listed('notices', joined(parts, ' ', width - COUNTERS_INDENT), style);
  });
}

/** The MCP servers of the configuration: which answer, and why one does not. */
function toolServerLines({ toolServers }: SystemStatus, width: number, style: Style): string[] {
  return toolServers.flatMap(({ name, kind, state, lastError }) => {
    const drawn = drawState(state);
    const error = state === 'failed' && lastError !== null ? lastError.split(' ') : [];
    const parts = [
      `${name} (${kind})`,
      ` ${style(drawn.format, drawn.text)}`,
      ...error.map((word) => style('dim', word)),
    ];
    if (error.length > 0) parts[2] = ` ${parts[2]}`;
    return listed('mcp server', joined(parts, ' ', width - COUNTERS_INDENT), style);
  });
}

/** Lines with their name beside the first. */
function listed(name: string, lines: string[], style: Style): string[] {
  const width = COUNTERS_INDENT - 2;
  return lines.map((line, i) => `${i === 0 ? style('dim', name.padEnd(width)) : ' '.repeat(width)}  ${line}`);
}

/** One line for each source of counters; those that are 0 are left out. */
function counterLines(now: SystemStatus, width: number, style: Style): string[] {
  const { retired, leftCommons = {}, ...gateway } = now.counters;
  const sources: [name: string, counters: Record<string, number>][] = [
    ['gateway', gateway],
    ['automations', now.automations],
    ['retired', retired],
    ['own threads', leftCommons],
    ...now.processes.map(({ name, counters }): [string, Record<string, number>] => [name, counters ?? {}]),
  ];
  return sources.flatMap(([name, counters]) => {
    const counted = Object.entries(counters).filter(([, count]) => count > 0);
    if (counted.length === 0) return [];
    const texts = counted.map(([what, count]) => drawCounter(what, count));
    return listed(name, joined(texts, '   ', width - COUNTERS_INDENT), style);
  });
}

/** `dropped log lines 3`; of bytes in their unit, `change ring 218 B`. */
function drawCounter(name: string, count: number): string {
  if (name.endsWith('Bytes')) return `${words(name.slice(0, -'Bytes'.length))} ${formatBytes(count)}`;
  return `${words(name)} ${formatCount(count)}`;
}

/** `droppedLogLines` → `dropped log lines`. */
function words(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
