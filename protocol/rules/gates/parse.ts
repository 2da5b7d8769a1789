/** Parses a module for the gates, within a time, and finds places in its text. */
import { type Comment, type ImportAttribute, Parser, type Program, type TokenType, tokTypes } from 'acorn';

const LINE_BREAK = /\r\n?|[\n\u2028\u2029]/g;
const LINE_END = /[\r\n\u2028\u2029]/;
/** Asked far more often than a clock should be read. */
const STEPS = 256;

/** What a plugin of acorn finds in its parser besides the declared members. */
type ParserState = {
  type: TokenType;
  input: string;
  start: number;
  lastTokEnd: number;
  isContextual(name: string): boolean;
  parseWithClause(): ImportAttribute[];
};

/** What Node loads must pass. Node 20 takes `import data from './data.json' assert { type: 'json' }` as if it said `with`. */
function withAssertions(Base: typeof Parser): typeof Parser {
  const parseWithClause = (Base.prototype as unknown as ParserState).parseWithClause;
  return class extends Base {
    protected parseWithClause(): ImportAttribute[] {
      const state = this as unknown as ParserState;
      const sameLine = !/[\n\r\u2028\u2029]/.test(state.input.slice(state.lastTokEnd, state.start));
      if (sameLine && state.isContextual('assert')) state.type = tokTypes._with as TokenType;
      return parseWithClause.call(state);
    }
  };
}

const ModuleParser = Parser.extend(withAssertions);

export type Parsed = { program: Program; comments: Comment[] };

/** Why a text has no syntax tree, and the offset of the place. */
export type SyntaxFault = { at: number; message: string };

/** `step` is called with every token. */
export function parseModule(text: string, step: () => void): Parsed | SyntaxFault {
  const comments: Comment[] = [];
  try {
    const program = ModuleParser.parse(text, {
      ecmaVersion: 'latest',
      sourceType: 'module',
      allowHashBang: true,
      allowAwaitOutsideFunction: true,
      ranges: true,
      onComment: comments,
      onToken: step,
    });
    return { program, comments };
  } catch (error) {
    if (error instanceof RangeError) return tooDeep();
    if (!(error instanceof SyntaxError)) throw error;
    const { message, pos = 0 } = error as SyntaxError & { pos?: number };
    if (message.startsWith('Not enough stack space')) return tooDeep(pos);
    return { at: pos, message: `It does not parse: ${message.replace(/ \(\d+:\d+\)$/, '')}.` };
  }
}

/** The parser and the walks over its tree are recursive: a text that nests further than their stack has nothing to run. */
export function tooDeep(at = 0): SyntaxFault {
  return { at, message: 'It is nested too deeply; break it into smaller functions or statements.' };
}

/** Lines of a text, as JavaScript counts them, from 1. Columns count from 1 in UTF-16 units. */
export class Lines {
  readonly #text: string;
  readonly #starts: number[] = [0];

  constructor(text: string) {
    this.#text = text;
    for (const { index, 0: mark } of text.matchAll(LINE_BREAK)) this.#starts.push(index + mark.length);
  }

  position(offset: number): { line: number; column: number } {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] as number) <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offset - (this.#starts[low] as number) + 1 };
  }

  /** Whether what stands from `start` to `end`, both offsets, has its lines for itself. */
  isAlone(start: number, end: number): boolean {
    let before = start;
    while (before > 0 && isBlank(this.#text[before - 1])) before--;
    let behind = end;
    while (behind < this.#text.length && isBlank(this.#text[behind])) behind++;
    return (
      this.position(before).column === 1 && (behind === this.#text.length || LINE_END.test(this.#text.charAt(behind)))
    );
  }
}

function isBlank(char: string | undefined): boolean {
  return char === ' ' || char === '\t' || char === '\uFEFF';
}

export class TookTooLong extends Error {}

/** The time that checking all handlers of an app may take: parser and walks ask for it as they go, for nothing else can stop them. */
export class TimeBudget {
  readonly #until: number;
  readonly #now: () => number;
  #steps = 0;

  constructor(ms: number, now: () => number = () => performance.now()) {
    this.#now = now;
    this.#until = now() + ms;
  }

  /** @throws {TookTooLong} */
  readonly step = (): void => {
    if (++this.#steps % STEPS === 0 && this.#now() > this.#until) throw new TookTooLong();
  };
}
