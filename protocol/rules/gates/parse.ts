/** Parses a module for the gates. What Node loads must pass; so its older spelling of import attributes does too. */
import { type Comment, type ImportAttribute, Parser, type Program, type TokenType, tokTypes } from 'acorn';
import type { Finding } from './rules.ts';

/** What a plugin of acorn finds in its parser besides the declared members. */
type ParserState = {
  type: TokenType;
  input: string;
  start: number;
  lastTokEnd: number;
  isContextual(name: string): boolean;
  parseWithClause(): ImportAttribute[];
};

/** Node 20 takes `import data from './data.json' assert { type: 'json' }` as if it said `with`. */
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

/** `step` is called with every token. */
export function parseModule(text: string, step: () => void): Parsed | Finding {
  const comments: Comment[] = [];
  try {
    const program = ModuleParser.parse(text, {
      ecmaVersion: 'latest',
      sourceType: 'module',
      allowHashBang: true,
      allowAwaitOutsideFunction: true,
      onComment: comments,
      onToken: step,
    });
    return { program, comments };
  } catch (error) {
    if (error instanceof RangeError) return tooDeep();
    if (!(error instanceof SyntaxError)) throw error;
    const { message, pos = 0 } = error as SyntaxError & { pos?: number };
    if (message.startsWith('Not enough stack space')) return tooDeep(pos);
    return { rule: 'syntax', at: pos, message: `It does not parse: ${message.replace(/ \(\d+:\d+\)$/, '')}.` };
  }
}

/** The parser and the walks over its tree are recursive: a text that nests further than their stack has nothing to run. */
export function tooDeep(at = 0): Finding {
  return { rule: 'syntax', at, message: 'It is nested too deeply; break it into smaller functions or statements.' };
}
