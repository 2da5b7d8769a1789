/** Draws the process tree of a gateway. Pure: a status in, lines out. */
import { automationRef } from '../protocol/automation.ts';
import type { ActorStatus, ProcessStatus, SystemStatus } from '../supervisor/operations/status.ts';
import { shortVersion } from './gateway/activation.ts';
import type { Format, Style } from './terminal/style.ts';
import { type Cell, type Column, drawTable } from './terminal/table.ts';
import { formatBytes, formatCount, formatDuration } from './terminal/units.ts';

const WELL = new Set(['active', 'running', 'ready', 'up', 'live', 'connected']);
const WRONG = new Set(['quarantined', 'failed', 'failed_to_start', 'stopped', 'dead', 'crashed', 'unresponsive']);

const COLUMNS: Column[] = [
  { title: 'PROCESS' },
  { title: 'PID', align: 'right' },
  { title: 'STATE' },
  { title: 'UP', align: 'right' },
  { title: 'MEMORY', align: 'right' },
  { title: 'CPU', align: 'right' },
  { title: 'WAITING', align: 'right' },
  { title: 'RUNNING', align: 'right' },
  { title: 'CALLS', align: 'right' },
  { title: 'RESTARTS', align: 'right' },
  { title: 'LAST EXIT', squeeze: true },
];

export function drawStatus(status: SystemStatus, width: number, style: Style): string[] {
  const below = [...toolServerLines(status, style), ...counterLines(status, style)];
  const facts = [
    `edge ${status.edge ?? 'of the host'}`,
    `Node ${status.node.replace(/^v/, '')}`,
    `data ${status.dataDir}`,
  ];
  return [
    [
      `${style('bold', 'svc-gateway')} ${status.version}`,
      ...(status.url === null ? [] : [style('cyan', status.url)]),
      style('green', `up ${formatDuration(status.uptimeMs)}`),
    ].join('  '),
    style('dim', facts.join('   ')),
    '',
    ...drawTable(COLUMNS, treeRows(status.processes), width, style),
    ...(below.length === 0 ? [] : ['', ...below]),
  ];
}

/** The supervisor is the root, the other processes its branches, and a host's actors theirs. */
export function treeRows(processes: ProcessStatus[]): Cell[][] {
  const [root, ...children] = processes;
  if (root === undefined) return [];
  return [
    processRow(root, ''),
    ...children.flatMap((child, i) => {
      const last = i === children.length - 1;
      const actors = child.actors ?? [];
      const trunk = last ? '   ' : '│  ';
      return [
        processRow(child, last ? '└─ ' : '├─ '),
        ...actors.map((actor, j) => actorRow(actor, trunk + (j === actors.length - 1 ? '└─ ' : '├─ '))),
      ];
    }),
  ];
}

function processRow(process: ProcessStatus, branch: string): Cell[] {
  return [
    branch + process.name,
    process.pid === null ? '' : String(process.pid),
    drawState(process.state),
    known(process.uptimeMs, formatDuration),
    known(process.rss, formatBytes),
    known(process.cpuMs, formatDuration),
    '',
    '',
    '',
    notable(process.restarts),
    lastExit(process.lastExit),
  ];
}

function actorRow(actor: ActorStatus, branch: string): Cell[] {
  return [
    `${branch}${nameOf(actor)} ${shortVersion(actor.versionId)}`,
    '',
    drawState(actor.state),
    known(actor.uptimeMs, formatDuration),
    known(actor.memory, formatBytes),
    '',
    notable(actor.mailbox),
    formatCount(actor.inFlight),
    formatCount(actor.calls),
    notable(actor.restarts),
    lastExit(actor.lastExit),
  ];
}

/** An automation's thread goes by its ref. */
function nameOf({ app, automation }: ActorStatus): string {
  return automation === null ? app : automationRef(app, automation);
}

function known(value: number | null, format: (value: number) => string): string {
  return value === null ? '' : format(value);
}

/** A count that is better 0. */
function notable(count: number): Cell {
  return count > 0 ? { text: formatCount(count), format: 'yellow' } : '0';
}

function lastExit(reason: string | null): Cell {
  return reason === null ? '' : { text: reason, format: 'dim' };
}

/** The MCP servers of the configuration: which answer, and why one does not. */
function toolServerLines({ toolServers }: SystemStatus, style: Style): string[] {
  return toolServers.map(({ name, kind, state, lastError }) => {
    const drawn = drawState(state);
    const error = state === 'failed' && lastError !== null ? `  ${style('dim', lastError)}` : '';
    return `${style('dim', 'mcp server'.padEnd(11))}  ${name} (${kind})  ${style(drawn.format, drawn.text)}${error}`;
  });
}

/** One line for each who counts something; what is 0 is left out. */
function counterLines(status: SystemStatus, style: Style): string[] {
  const { retired, ...gateway } = status.counters;
  const sources: [name: string, counters: Record<string, number>][] = [
    ['gateway', gateway],
    ['automations', status.automations],
    ['retired', retired],
    ...status.processes.map(({ name, counters }): [string, Record<string, number>] => [name, counters ?? {}]),
  ];
  return sources.flatMap(([name, counters]) => {
    const counted = Object.entries(counters).filter(([, count]) => count > 0);
    if (counted.length === 0) return [];
    return `${style('dim', name.padEnd(11))}  ${counted.map(([what, count]) => `${words(what)} ${formatCount(count)}`).join('   ')}`;
  });
}

/** `droppedLogLines` → `dropped log lines`. */
function words(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

/** The colour of a state: what is well, what is on its way, what is wrong. */
export function stateFormat(state: string): Format {
  if (WELL.has(state)) return 'green';
  return WRONG.has(state) ? 'red' : 'yellow';
}

/** `● running`, `● no active version`. */
export function drawState(state: string): { text: string; format: Format } {
  return { text: `● ${state.replaceAll('_', ' ')}`, format: stateFormat(state) };
}
