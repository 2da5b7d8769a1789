/**
 * Puts what a style sheet loads into it: other sheets, pictures, fonts. Heights of the window become those of `--svc-vh`, where that is set:
 * a frame that is as high as its page has no height of its own.
 */
import { type CSSToken, stringify, TokenType, tokenize } from '@csstools/css-tokenizer';
import type { PageFiles } from './page-files.ts';

/** Functions whose texts are addresses, beside `url()`. */
const ADDRESSES = new Set(['url', 'src', 'image-set', '-webkit-image-set']);
/** Rules that stand before all others. */
const FIRST_RULES = /^@(?:import|charset)$/i;
const HEIGHT = /^(?:[dsl]?vh)$/i;
const OPENING: ReadonlySet<TokenType> = new Set([
  TokenType.Function,
  TokenType.OpenParen,
  TokenType.OpenCurly,
  TokenType.OpenSquare,
]);
const CLOSING: ReadonlySet<TokenType> = new Set([TokenType.CloseParen, TokenType.CloseCurly, TokenType.CloseSquare]);

/** `from` is the file in which the text stands; `within` are the sheets that import it. */
export function inlineStyles(css: string, files: PageFiles, from: string, within: readonly string[] = []): string {
  return new StyleWriter(files, from, within).sheet(css);
}

class StyleWriter {
  readonly #files: PageFiles;
  readonly #from: string;
  readonly #within: readonly string[];
  /** The names of the functions that are open, and of other parentheses nothing. */
  readonly #open: string[] = [];
  /** Between the name of an at-rule and what it holds, where nothing may be computed. */
  #isCondition = false;

  constructor(files: PageFiles, from: string, within: readonly string[]) {
    this.#files = files;
    this.#from = from;
    this.#within = within;
  }

  sheet(css: string): string {
    const tokens = tokenize({ css });
    const written: string[] = [];
    for (let at = 0; at < tokens.length; at++) {
      const [type, text] = tokens[at] as CSSToken;
      if (type === TokenType.AtKeyword && this.#open.length === 0 && FIRST_RULES.test(text)) {
        const rule: CSSToken[] = [];
        for (at++; at < tokens.length && tokens[at]?.[0] !== TokenType.Semicolon; at++)
          rule.push(tokens[at] as CSSToken);
        if (text.toLowerCase() === '@import') written.push(this.#import(rule));
      } else written.push(this.#token(tokens[at] as CSSToken));
    }
    return written.join('');
  }

  #token(token: CSSToken): string {
    const [type, text] = token;
    if (type === TokenType.AtKeyword) this.#isCondition = true;
    if (type === TokenType.OpenCurly || type === TokenType.Semicolon) this.#isCondition = false;
    if (OPENING.has(type)) this.#open.push(type === TokenType.Function ? text.slice(0, -1).toLowerCase() : '');
    if (CLOSING.has(type)) this.#open.pop();
    if (type === TokenType.Dimension && HEIGHT.test(token[4].unit) && !this.#isCondition)
      return `calc(${token[4].value} * var(--svc-vh, 1${token[4].unit}))`;
    if (type === TokenType.URL) return this.#address(token[4].value, (url) => `url("${url}")`) ?? text;
    if (type !== TokenType.String || !ADDRESSES.has(this.#open.at(-1) ?? '')) return text;
    return this.#address(token[4].value, (url) => `"${url}"`) ?? text;
  }

  #address(address: string, written: (url: string) => string): string | null {
    const url = this.#files.inlined(address, this.#from);
    return url && written(url);
  }

  /** `rule` is what stands between `@import` and its semicolon. */
  #import(rule: CSSToken[]): string {
    const at = rule.findIndex(([type]) => type === TokenType.String || type === TokenType.URL);
    const named = rule[at];
    if (named === undefined) return '';
    const isFunction = named[0] === TokenType.String && rule.slice(0, at).some(([type]) => type === TokenType.Function);
    const close = isFunction ? rule.findIndex(([type], place) => place > at && type === TokenType.CloseParen) : at;
    const found = this.#files.find((named[4] as { value: string }).value, this.#from);
    const within = [...this.#within, this.#from];
    if (found === null || within.includes(found.path)) return '';
    const css = inlineStyles(this.#files.text(found.path), this.#files, found.path, within);
    return wrapped(`${css}\n`, stringify(...rule.slice(close + 1)).trim());
  }
}

/** The sheet under the conditions of its import: `layer(a) supports(display: grid) print`. */
function wrapped(css: string, conditions: string): string {
  const [, layer, name, , supports, media = ''] =
    /^(layer(?:\(([^()]*)\))?(?![\w-]))?\s*(supports\(((?:[^()]|\([^()]*\))*)\))?\s*(.*)$/is.exec(conditions) ?? [];
  let written = css;
  if (layer !== undefined) written = `@layer ${name ?? ''} {${written}}`;
  if (supports !== undefined)
    written = `@supports ${/^\s*(?:\(|not\b)/.test(supports) ? supports : `(${supports})`} {${written}}`;
  return media === '' ? written : `@media ${media} {${written}}`;
}
