/** Colours, and text made safe to print. Decides once per stream whether colours are wanted. */
import { styleText } from 'node:util';

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

export function createStyle(colours: boolean): Style {
  return (format, text) => (colours && text !== '' ? styleText(format, text, { validateStream: false }) : text);
}

// Everything that can move the cursor, recolour or retitle a terminal; tab and newline are the caller's business.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** Text of an app or a log with its control characters made visible, so that it cannot drive the terminal. */
export function printable(text: string): string {
  return text.replace(CONTROL, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`);
}

/** The same on one line, for a cell of a table. */
export function oneLine(text: string): string {
  return printable(text.replace(/\s*\n\s*/g, ' ⏎ ').replaceAll('\t', ' '));
}
