/** Colours, and how a text with colours is written. Decides once per stream whether to use colours. */
import { randomUUID } from 'node:crypto';
import { styleText } from 'node:util';
import { printable } from '../../protocol/text/printable.ts';

export type Format = Parameters<typeof styleText>[0];
export type Style = (format: Format, text: string) => string;

/** `FORCE_COLOR` (not `0`) beats `NO_COLOR` (not empty), which beats what the stream is. */
export function wantsColour(stream: { isTTY?: boolean }, env: NodeJS.ProcessEnv): boolean {
  if (env.FORCE_COLOR !== undefined) return env.FORCE_COLOR !== '0';
  if (env.NO_COLOR) return false;
  return stream.isTTY === true && env.TERM !== 'dumb';
}

/** Starts a colour in a text that is not written yet. Foreign text cannot contain it: each process draws its own. */
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
 * The text as it is written: on one line, with our own colours, and with every other control character made visible. All
 * output passes here (`terminal.ts`), so a command need not ask where a text comes from.
 */
export function visible(text: string): string {
  return text.split(MARK).map(printable).join('\u001b[');
}

/** The same without the colours, to measure its width. */
export function withoutColours(text: string): string {
  const [first = '', ...coloured] = text.split(MARK);
  return [first, ...coloured.map((part) => part.slice(part.indexOf('m') + 1))].map(printable).join('');
}
