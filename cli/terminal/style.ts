/** Colours, and how a text with colours is written. Decides once per stream whether colours are wanted. */
import { randomUUID } from 'node:crypto';
import { styleText } from 'node:util';
import { printable } from '../../protocol/printable.ts';

export type Format = Parameters<typeof styleText>[0];
export type Style = (format: Format, text: string) => string;

/** What `wantsColour` needs to know of a stream. */
export type ColourStream = { isTTY?: boolean };

/** `FORCE_COLOR` (not `0`) beats `NO_COLOR` (not empty), which beats what the stream is. */
export function wantsColour(stream: ColourStream, env: NodeJS.ProcessEnv): boolean {
  if (env.FORCE_COLOR !== undefined) return env.FORCE_COLOR !== '0';
  if (env.NO_COLOR) return false;
  return stream.isTTY === true && env.TERM !== 'dumb';
}

/**
 * Begins a colour in a text that is not written yet. Only a text of ours can hold it: the number is made by each process, and
 * nothing that is written shows it.
 */
const MARK = `\u001b${randomUUID()}[`;

export function createStyle(colours: boolean): Style {
  if (!colours) return (_, text) => text;
  return (format, text) => {
    if (text === '') return '';
    const [on = '', off = ''] = styleText(format, '\0', { validateStream: false })
      .replaceAll('\u001b[', MARK)
      .split('\0');
    return on + text + off;
  };
}

/**
 * What is written of a text: our own colours, and on one line everything else, with what could drive the terminal made visible.
 * Every text that is written passes here (`terminal.ts`), so whoever prints need not think of where it comes from.
 */
export function visible(text: string): string {
  return text.split(MARK).map(printable).join('\u001b[');
}
