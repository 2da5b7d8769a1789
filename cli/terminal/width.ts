/** How many columns text takes on a terminal, and how to cut it to fit. Text without colours. */

const ZERO = /^(?:\p{Mn}|\p{Me}|\p{Cf})$/u;
const WIDE =
  /^[\u1100-\u115f\u2329\u232a\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16fe0}-\u{18cff}\u{1aff0}-\u{1b2ff}\u{20000}-\u{3fffd}]$/u;
const EMOJI = /^\p{Emoji_Presentation}$/u;
const ASCII = /^[\x20-\x7e]*$/;

let segmenter: Intl.Segmenter | undefined;

function characters(text: string): Iterable<string> {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  return Array.from(segmenter.segment(text), ({ segment }) => segment);
}

/** Columns of one grapheme: a letter with its accents, or an emoji with its modifiers. */
function characterWidth(character: string): number {
  const first = String.fromCodePoint(character.codePointAt(0) ?? 0);
  if (ZERO.test(first)) return 0;
  return WIDE.test(first) || EMOJI.test(first) || character.includes('\ufe0f') ? 2 : 1;
}

export function displayWidth(text: string): number {
  if (ASCII.test(text)) return text.length;
  let width = 0;
  for (const character of characters(text)) width += characterWidth(character);
  return width;
}

/** Cuts to `width` columns; what was cut shows as `…`. */
export function truncate(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let kept = '';
  let used = 0;
  for (const character of characters(text)) {
    used += characterWidth(character);
    if (used > width - 1) break;
    kept += character;
  }
  return `${kept}…`;
}

export function pad(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  const space = ' '.repeat(Math.max(0, width - displayWidth(text)));
  return align === 'left' ? text + space : space + text;
}
