/** A progress bar on one line of a terminal, redrawn in place and removed when done. */
import { type Style, visible } from './style.ts';
import { formatBytes } from './units.ts';

const BAR_WIDTH = 28;
const PARTS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const CLEAR_LINE = '\r\u001b[2K';

export type Progress = { update(done: number, total: number): void; end(): void };

/** Draws on `stream` only when it is a terminal; redraws only when the picture changes. */
export function startProgress(stream: NodeJS.WriteStream, style: Style, label: string): Progress {
  if (!stream.isTTY) return { update: () => {}, end: () => {} };
  let shown = '';
  return {
    update(done, total) {
      const line = progressLine(label, done, total, style);
      if (line === shown) return;
      shown = line;
      stream.write(CLEAR_LINE + visible(line));
    },
    end() {
      if (shown !== '') stream.write(CLEAR_LINE);
    },
  };
}

export function progressLine(label: string, done: number, total: number, style: Style): string {
  const share = total === 0 ? 1 : Math.min(1, done / total);
  const eighths = Math.floor(share * BAR_WIDTH * 8);
  const filled = '█'.repeat(Math.floor(eighths / 8)) + (PARTS[eighths % 8] as string);
  const percent = `${Math.floor(share * 100)} %`.padStart(5);
  const bar = style('cyan', filled) + style('dim', '░'.repeat(BAR_WIDTH - filled.length));
  return `${label} ${bar} ${percent}  ${style('dim', `${formatBytes(done)} of ${formatBytes(total)}`)}`;
}
