/** Makes text of an app, an archive or a log safe to look at in a terminal. */

// C0 but for the tab, DEL, C1, the marks that turn the direction of writing, and Unicode's own line ends.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for.
const CONTROL = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/**
 * The text on one line, with everything made visible that could move the cursor, recolour or retitle a terminal, start a new
 * line or reverse the order of what follows: a line end becomes ` ⏎ `, the rest `\\uXXXX`. JSON on one line says the same after
 * it.
 */
export function printable(text: string): string {
  return text
    .replace(/\r?\n[ \t]*/g, ' ⏎ ')
    .replace(CONTROL, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
