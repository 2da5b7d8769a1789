/** The rules that handlers are held to when they are published (decisions, section 7; docs/handler-rules.md). */

/** Rules of files that cannot be loaded otherwise, and of waivers themselves: no comment waives them. */
export const FIXED_RULES = ['syntax', 'default-export', 'import', 'waiver'] as const;

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
export type WaivableRule = DeterminismRule | typeof QUERY_RULE;
export type Rule = (typeof FIXED_RULES)[number] | WaivableRule;

export const WAIVABLE_RULES: readonly WaivableRule[] = [...DETERMINISM_RULES, QUERY_RULE];

/** Which handlers lead to a file: it is one of them, or they import it. */
export type Reach = { query: boolean; action: boolean; automation: boolean };

/** One finding in a file; `at` is an offset in its text. It counts where `applies` says so. */
export type Finding = { rule: Rule; at: number; message: string; applies?: (reach: Reach) => boolean };
