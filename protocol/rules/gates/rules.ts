/**
 * Names the rules that published handlers must follow (specification, "Handler rules"; docs/handler-rules.md), and reads their
 * waivers: `// governance: allow-<rule> <reason>` on the line of a finding, or alone on the line above it.
 */
import type { Comment } from 'acorn';
import type { Lines } from './syntax.ts';

/** Rules that a file must meet to be loaded: every version must follow them. */
export const LOADING_RULES = ['syntax', 'default-export', 'import'] as const;

/** Rules that no comment can waive: those above, and the one about waivers. */
export const FIXED_RULES = [...LOADING_RULES, 'waiver'] as const;

/** Rules of automations: a run is decided by its input and `ctx`, so that running it again does the same. */
export const DETERMINISM_RULES = [
  'date-now',
  'new-date',
  'performance-now',
  'math-random',
  'random-id',
  'raw-fetch',
  'node-builtin',
  'process',
] as const;

export const QUERY_RULE = 'query-handlers-read-only';

export type DeterminismRule = (typeof DETERMINISM_RULES)[number];
type WaivableRule = DeterminismRule | typeof QUERY_RULE;
export type Rule = (typeof FIXED_RULES)[number] | WaivableRule;

export const WAIVABLE_RULES: readonly WaivableRule[] = [...DETERMINISM_RULES, QUERY_RULE];

/** Keywords of findings for which a publication is refused. */
export const RULES: ReadonlySet<string> = new Set([...FIXED_RULES, ...WAIVABLE_RULES]);

/** Which handlers lead to a file: it is one of them, or they import it. */
export type Reach = { query: boolean; action: boolean; automation: boolean };

/** One finding in a file; `at` is an offset in its text. It counts where `applies` says so. */
export type Finding = { rule: Rule; at: number; message: string; applies?: (reach: Reach) => boolean };

const WAIVER = /^[\s*]*governance:\s*allow-(\S*)([\s\S]*)$/;
const REASON = /[\p{L}\p{N}]/u;

/** The waivers among the comments of one file, and what is wrong with some of them. */
export class Waivers {
  readonly findings: Finding[] = [];
  readonly #lines: Lines;
  /** `<rule> <line>` */
  readonly #waived = new Set<string>();

  constructor(comments: Comment[], lines: Lines) {
    this.#lines = lines;
    /** For lines that hold nothing but a waiver, the line below: several of them waive together what follows. */
    const below = new Map<number, number>();
    for (const { value, start, end } of comments.toReversed()) {
      const match = WAIVER.exec(value);
      if (match === null) continue;
      const [, rule = '', reason = ''] = match;
      const { line: first } = lines.position(start);
      const { line: last } = lines.position(end);
      if (lines.isAlone(start, end)) below.set(first, below.get(last + 1) ?? last + 1);
      const message = faultOf(rule, reason);
      if (message !== null) this.findings.push({ rule: 'waiver', at: start, message });
      else for (const line of [first, last, below.get(first)]) this.#waived.add(`${rule} ${line}`);
    }
  }

  waives({ rule, at }: Finding): boolean {
    return this.#waived.has(`${rule} ${this.#lines.position(at).line}`);
  }
}

function faultOf(rule: string, reason: string): string | null {
  if (!WAIVABLE_RULES.some((known) => known === rule)) {
    return `There is no rule "${rule}" that can be waived. These can: ${WAIVABLE_RULES.join(', ')}.`;
  }
  if (!REASON.test(reason)) return `The waiver needs its reason: // governance: allow-${rule} <reason>.`;
  return null;
}
