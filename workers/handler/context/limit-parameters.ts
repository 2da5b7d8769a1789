/** Rewrites the `LIMIT ?` of statements so that runs need no new plan, and finds its value. */

import { type Token, tokenizedStatements } from '../../../protocol/rules/sql.ts';
import type { SqlParams } from '../../../protocol/wire/frames.ts';

const PARAMETER = /^(?:\?\d*|[:@$]\w+)$/;

/**
 * The statement with `LIMIT (SELECT ?)` in place of `LIMIT ?`. SQLite plans a statement for the value of its limit, so it
 * parses and plans it again whenever that is set, which takes as long as reading fifty rows.
 */
export function withoutPlannedLimits(sql: string): string {
  let written = '';
  let done = 0;
  for (const { tokens, keywordAt } of tokenizedStatements(sql)) {
    // `EXPLAIN` must show the plan of the original statement.
    if (keywordAt > 0) continue;
    for (const [i, { kind, name }] of tokens.entries()) {
      const limit = tokens[i + 1];
      if (kind !== 'word' || name !== 'LIMIT' || limit === undefined || !isParameter(limit)) continue;
      // In `LIMIT a, b` the first one is the offset.
      if (tokens[i + 2]?.name === ',') continue;
      written += `${sql.slice(done, limit.start)}(SELECT ${limit.name})`;
      done = limit.end;
    }
  }
  return written + sql.slice(done);
}

/** Gives the value of the limit at the end of a statement that was written so; undefined where there is none. */
export function limitOf(tokens: Token[]): (params: SqlParams) => unknown {
  const [word, open, select, limit, close] = tokens.slice(-5);
  const isLimit = [word, open, select, close].map((token) => token?.name).join(' ') === 'LIMIT ( SELECT )';
  if (!isLimit || limit === undefined || !isParameter(limit)) return () => undefined;
  // The last one of the text, so the last one of the values; those with a number may come in any order.
  if (limit.name === '?') return (params) => (Array.isArray(params) ? params[params.length - 1] : undefined);
  const name = limit.name.slice(1);
  return (params) => (Array.isArray(params) ? undefined : params[name]);
}

function isParameter({ kind, name }: Token): boolean {
  return kind === 'other' && PARAMETER.test(name);
}
