/** Parses a module: its syntax tree, positions in it, and the meaning of its names. */
import {
  type AnyNode,
  type Comment,
  type Expression,
  type Identifier,
  type ImportAttribute,
  Parser,
  type Pattern,
  type Program,
  type Token,
  type TokenType,
  tokTypes,
} from 'acorn';
import { ancestor } from 'acorn-walk';
import { analyze, type Definition, type Reference } from 'eslint-scope';

const LINE_BREAK = /\r\n?|[\n\u2028\u2029]/g;
const LINE_END = /[\r\n\u2028\u2029]/;
/** Steps between two readings of the clock, which would cost too much at each step. */
const STEPS = 256;

/** Undeclared members of acorn's parser that plugins use. */
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

type Parsed = { program: Program; comments: Comment[] };

/** Why a text has no syntax tree, and the offset of the place. */
export type SyntaxFault = { at: number; message: string };

/** `step` is called with every token. */
export function parseModule(text: string, step: (token: Token) => void): Parsed | SyntaxFault {
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

/** The parser and the walks over its tree are recursive, and run out of stack on deeply nested text. */
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

  /** Offset of the first character of a line, that of the last one for a number behind it. */
  start(line: number): number {
    return this.#starts[Math.min(line, this.#starts.length) - 1] as number;
  }

  /** Whether nothing else stands on the lines from `start` to `end`, both offsets. */
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

/** Called with every step of parsers and walks, the only way to stop them; throws `TookTooLong` after `ms`. */
export function stepsWithin(ms: number): () => void {
  const until = performance.now() + ms;
  let steps = 0;
  return () => {
    if (++steps % STEPS === 0 && performance.now() > until) throw new TookTooLong();
  };
}

const GLOBAL_OBJECTS = new Set(['globalThis', 'global']);
/** The most steps from an expression to the global that it means; those that matter need fewer. */
const HOPS = 8;
/** eslint-scope lists a name in each scope that it is not declared in: for one that is deep, in all of them. */
const LISTED_NAMES = 15_000_000;

/** Resolves names with eslint-scope: what a name was declared with, and which global an expression reaches. */
export class Names {
  readonly #references = new Map<AnyNode, Reference>();
  readonly #step: () => void;

  /** `step` is called with every name. Throws a RangeError for a text that nests too deeply. */
  constructor(program: Program, step: () => void) {
    this.#step = step;
    let listed = 0;
    ancestor(program, {
      Identifier: (_node, _state, ancestors) => {
        step();
        listed += ancestors.length;
        if (listed > LISTED_NAMES) throw new RangeError('too deep');
      },
    });
    const { scopes } = analyze(program as Parameters<typeof analyze>[0], { ecmaVersion: 2022, sourceType: 'module' });
    for (const { references } of scopes) {
      for (const reference of references) this.#references.set(reference.identifier as AnyNode, reference);
    }
  }

  isGlobal(name: Identifier): boolean {
    return this.#references.get(name)?.resolved === null;
  }

  /** What declares a name of the file; null for a global. */
  definition(name: Identifier): Definition | null {
    return this.#references.get(name)?.resolved?.defs[0] ?? null;
  }

  /** `Date.now` and `globalThis['Date'].now` → `['Date', 'now']`, `globalThis` → `[]`; null for anything else. */
  globalPath(node: AnyNode, hops = HOPS): string[] | null {
    this.#step();
    if (hops === 0) return null;
    switch (node.type) {
      case 'Identifier': {
        if (this.isGlobal(node)) return globalMember([], node.name);
        const declared = this.#declaredWith(node);
        const path = declared === null ? null : this.globalPath(declared.value, hops - 1);
        return declared === null || path === null ? null : declared.keys.reduce(globalMember, path);
      }
      case 'MemberExpression': {
        const key = staticKey(node.property, node.computed);
        const path = key === null ? null : this.globalPath(node.object, hops - 1);
        return path === null ? null : globalMember(path, key as string);
      }
      case 'ChainExpression':
        return this.globalPath(node.expression, hops);
      case 'SequenceExpression':
        return this.globalPath(node.expressions.at(-1) as Expression, hops - 1);
      default:
        return null;
    }
  }

  /** The part `keys` of `value`: of a variable what it is declared with, of a parameter its default. */
  #declaredWith(name: Identifier): { value: AnyNode; keys: string[] } | null {
    const variable = this.#references.get(name)?.resolved;
    const definition = variable?.defs[0];
    if (definition?.type === 'Variable' && definition.node.init) {
      const keys = this.#keysTo(definition.name as AnyNode, definition.node.id as Pattern);
      return keys === null ? null : { value: definition.node.init as AnyNode, keys };
    }
    const byDefault = variable?.references.find(({ init, partial }) => init && !partial)?.writeExpr;
    return byDefault ? { value: byDefault as AnyNode, keys: [] } : null;
  }

  /** From outside in, the members of a pattern that lead to a name in it; null where they are unknown. */
  #keysTo(name: AnyNode, pattern: Pattern): string[] | null {
    this.#step();
    if (pattern === name) return [];
    if (pattern.type === 'AssignmentPattern') return this.#keysTo(name, pattern.left);
    if (pattern.type !== 'ObjectPattern') return null;
    for (const property of pattern.properties) {
      if (property.type === 'RestElement') continue;
      const keys = this.#keysTo(name, property.value);
      const key = keys === null ? null : staticKey(property.key, property.computed);
      if (keys !== null && key !== null) return [key, ...keys];
    }
    return null;
  }
}

export function globalMember(path: string[], key: string): string[] {
  return path.length === 0 && GLOBAL_OBJECTS.has(key) ? [] : [...path, key];
}

/** The name of a member where the text says it, or null. */
export function staticKey(key: AnyNode, computed: boolean): string | null {
  if (key.type === 'Identifier' && !computed) return key.name;
  return staticText(key);
}

/** What a string literal, or a template without expressions, says. */
export function staticText(node: AnyNode): string | null {
  if (node.type === 'Literal') return typeof node.value === 'string' ? node.value : null;
  if (node.type === 'TemplateLiteral' && node.expressions.length === 0) return node.quasis[0]?.value.cooked ?? null;
  return null;
}
