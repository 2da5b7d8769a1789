/** The gateway's own log on a terminal: pino's lines drawn for a reader. */
import { type Logger, pino } from 'pino';
import { drawLogEntry } from './terminal/log-entry.ts';
import type { Style } from './terminal/style.ts';

export function createTerminalLog(level: string, stream: NodeJS.WritableStream, style: Style): Logger {
  const destination = { write: (line: string) => stream.write(`${drawPinoLine(line, style)}\n`) };
  return pino({ level, base: null }, destination);
}

export function drawPinoLine(line: string, style: Style): string {
  const { time, level, ...rest } = JSON.parse(line) as { time: number; level: number; msg?: string };
  return drawLogEntry({ ...rest, ts: time, level: pino.levels.labels[level] ?? String(level) }, style, true);
}
