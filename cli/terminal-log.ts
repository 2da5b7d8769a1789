/** The gateway's own log on a terminal: pino's lines drawn for a reader. */
import { type Logger, pino } from 'pino';
import { createLog } from '../supervisor/operations/log-stream.ts';
import { drawLogEntry } from './terminal/log-entry.ts';
import { type Style, visible } from './terminal/style.ts';

export function createTerminalLog(level: string, style: Style): Logger {
  return createLog(level, (line) => `${visible(drawPinoLine(line, style))}\n`);
}

export function drawPinoLine(line: string, style: Style): string {
  const { time, level, ...rest } = JSON.parse(line) as { time: number; level: number; msg?: string };
  return drawLogEntry({ ...rest, ts: time, level: pino.levels.labels[level] ?? String(level) }, style, true);
}
