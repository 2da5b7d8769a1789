/** Log entries, each on one line and those of its stack: those of apps, and those of the gateway's own log. */

import type { RowIn } from '../../protocol/routes/api.ts';
import { isRecord } from '../../protocol/shapes/shape.ts';
import type { Format, Style } from './style.ts';
import { formatMoment } from './units.ts';

/** An entry as the gateway sends it. */
export type LogEntry = RowIn<'GET /svc/_logs'>;

const LEVELS: Record<string, Format> = { debug: 'dim', info: 'blue', warn: 'yellow', error: 'red', fatal: 'red' };
/** Names of the numbers that pino writes for levels. */
const PINO_LEVELS: Record<number, string> = {
  10: 'trace',
  20: 'debug',
  30: 'info',
  40: 'warn',
  50: 'error',
  60: 'fatal',
};
const DRAWN = new Set(['ts', 'level', 'app', 'msg', 'tool', 'versionId', 'traceId', 'page']);

/**
 * The entry on one line, other members as `name=value`, then its stack. A bar precedes the lines of the stack, so that an
 * app's text never begins a line. `withApp` shows the app, for entries of several apps.
 */
export function drawLogEntry(entry: LogEntry, style: Style, withApp: boolean): string[] {
  // Apps write these lines: a member may have any type.
  const level = String(entry.level ?? 'info');
  const { stack, ...members } = withStack(entry);
  const more = Object.entries(members)
    .filter(([name]) => !DRAWN.has(name))
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  const line = [
    style('dim', formatMoment(entry.ts)),
    style(LEVELS[level] ?? 'yellow', level.padEnd(5)),
    ...(withApp && entry.app !== undefined ? [style('bold', String(entry.app))] : []),
    ...(entry.tool ? [style('cyan', String(entry.tool))] : []),
    ...(isRecord(entry.page) ? [style('cyan', 'page'), ...placeInPage(entry.page)] : []),
    String(entry.msg ?? ''),
    ...(more.length === 0 ? [] : [style('dim', more.join(' '))]),
  ].join('  ');
  return [line, ...stack.map((place) => style('dim', `    │ ${place}`))];
}

/** The lines of the stack of the entry or of its error. A stack of an error replaces the error. */
function withStack(entry: LogEntry): Record<string, unknown> & { stack: string[] } {
  const { err, stack, ...members } = entry as unknown as Record<string, unknown>;
  const text = isRecord(err) && typeof err.stack === 'string' ? err.stack : stack;
  if (typeof text !== 'string') return { ...entry, stack: [] };
  const lines = text.split('\n').map((line) => line.trim());
  const code = isRecord(err) && err.code !== undefined ? { code: err.code } : {};
  return { ...members, ...code, stack: lines.filter((line) => line !== '') };
}

/** File, line and column of an error that an open page of a draft reported, as far as the browser told. */
function placeInPage({ file, line, column }: Readonly<Record<string, unknown>>): string[] {
  const place = [file, line, column].filter((part) => part !== undefined).join(':');
  return place === '' ? [] : [place];
}

/** A JSON line of the gateway's log. */
export function drawPinoLine(line: string, style: Style): string[] {
  const { time, level, ...rest } = JSON.parse(line) as { time: number; level: number; msg?: string };
  return drawLogEntry({ ...rest, ts: time, level: PINO_LEVELS[level] ?? String(level) }, style, true);
}
