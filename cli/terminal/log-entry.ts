/** One log entry on one line. */
import type { LogEntry } from '../gateway/api.ts';
import type { Format, Style } from './style.ts';
import { formatClock } from './units.ts';

const LEVELS: Record<string, Format> = { debug: 'dim', info: 'blue', warn: 'yellow', error: 'red', fatal: 'red' };
const DRAWN = new Set(['ts', 'level', 'app', 'msg', 'tool', 'versionId', 'traceId']);

/** `withApp` where entries of several apps come together. What has no place of its own follows as `name=value`. */
export function drawLogEntry(entry: LogEntry, style: Style, withApp: boolean): string {
  // Lines are the apps' own: a member may be anything.
  const level = String(entry.level ?? 'info');
  const more = Object.entries(entry)
    .filter(([name]) => !DRAWN.has(name))
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  return [
    style('dim', formatClock(entry.ts)),
    style(LEVELS[level] ?? 'yellow', level.padEnd(5)),
    ...(withApp && entry.app !== undefined ? [style('bold', String(entry.app))] : []),
    ...(entry.tool ? [style('cyan', String(entry.tool))] : []),
    String(entry.msg ?? ''),
    ...(more.length === 0 ? [] : [style('dim', more.join(' '))]),
  ].join('  ');
}
