/** Waivers: `// governance: allow-<rule> <reason>` on the line of a finding, or alone on the line above it. */
import type { Comment } from 'acorn';
import type { Lines } from './lines.ts';
import { type Finding, WAIVABLE_RULES } from './rules.ts';

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
