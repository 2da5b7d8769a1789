/** Writes texts so that they can stand inside of a page: in attributes, scripts and styles. Pure. */
import { type Token, tokenizer, tokTypes } from 'acorn';

/** What begins or ends something in a script element, as the parser of pages sees it. */
const MARK = /<(?=\/script|script|!--)/gi;
/** Tokens in which `\x3C` means `<`. */
const TEXTS: unknown[] = [tokTypes.string, tokTypes.template, tokTypes.regexp];

export function attributeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('"', '&quot;');
}

/** JSON that may stand in a script. */
export function scriptJson(value: unknown): string {
  return JSON.stringify(value)
    .replaceAll('<', '\\u003c')
    .replaceAll('\u2028', '\\u2028')
    .replaceAll('\u2029', '\\u2029');
}

/** JavaScript that means the same, and ends no script element. */
export function scriptText(code: string): string {
  if (code.search(MARK) === -1) return code;
  const texts = textsIn(code);
  let next = 0;
  return code.replace(MARK, (mark, at: number) => {
    while (next < texts.length && (texts[next] as Token).end <= at) next++;
    const isInText = next < texts.length && (texts[next] as Token).start <= at;
    // Elsewhere it is an operator, or part of a comment.
    return isInText ? '\\x3C' : `${mark} `;
  });
}

function textsIn(code: string): Token[] {
  const found: Token[] = [];
  try {
    for (const token of tokenizer(code, { ecmaVersion: 'latest', allowHashBang: true }))
      if (TEXTS.includes(token.type)) found.push(token);
  } catch {
    // What does not parse does not run; up to there it is known.
  }
  return found;
}

/** CSS that means the same, and ends no style element. */
export function styleText(css: string): string {
  return css.replace(/<(?=\/style)/gi, '\\3c ');
}
