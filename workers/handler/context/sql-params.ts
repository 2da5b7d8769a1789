/** Checks the SQL text and parameters of handlers: refuses, by name, values that SQLite cannot bind. */

import { LIMITS } from '../../../protocol/limits.ts';
import type { SqlParams, SqlStatement, SqlValue } from '../../../protocol/wire/frames.ts';
import { isPlain } from '../result.ts';

/** Throws a `TypeError` unless it is a string. */
export function toText(sql: unknown): string {
  if (typeof sql !== 'string') throw new TypeError(`SQL must be a string, not ${sql === null ? 'null' : typeof sql}.`);
  return sql;
}

/**
 * The arguments that followed the SQL text: values by position, one array of them, or one plain object of named ones. Throws a
 * `TypeError` that names the parameter.
 */
export function toParams(args: readonly unknown[]): SqlParams {
  if (args.length === 0) return [];
  if (args.length === 1) {
    const only = args[0];
    if (Array.isArray(only)) return positional(only);
    if (typeof only === 'object' && only !== null && isPlain(only)) return named(only as Record<string, unknown>);
  }
  return positional(args);
}

/** The statements of a batch: `[[sql, ...params], …]`. */
export function toStatements(statements: unknown): SqlStatement[] {
  if (!Array.isArray(statements)) throw new TypeError('db.batch takes an array of [sql, ...params].');
  if (statements.length > LIMITS.batchStatements) {
    throw new RangeError(`A batch takes at most ${LIMITS.batchStatements} statements.`);
  }
  return statements.map((statement: unknown, index) => {
    if (!Array.isArray(statement) || typeof statement[0] !== 'string') {
      throw new TypeError(`Statement ${index + 1} of the batch must be an array [sql, ...params].`);
    }
    return [statement[0], toParams(statement.slice(1))];
  });
}

function positional(values: readonly unknown[]): SqlValue[] {
  const bound = new Array<SqlValue>(values.length);
  for (let i = 0; i < values.length; i++) bound[i] = toSql(values[i], i + 1);
  return bound;
}

function named(values: Record<string, unknown>): Record<string, SqlValue> {
  const bound: Record<string, SqlValue> = {};
  for (const name of Object.keys(values)) bound[name] = toSql(values[name], name);
  return bound;
}

function toSql(value: unknown, which: number | string): SqlValue {
  switch (typeof value) {
    case 'string':
    case 'number':
      return value;
    case 'boolean':
      return value ? 1 : 0;
    case 'undefined':
      return null;
    case 'bigint':
      if (BigInt.asIntN(64, value) !== value) throw unbindable(which, 'an integer of more than 64 bits');
      return value;
    case 'object':
      if (value === null) return null;
      // A copy: a statement may be sent again, when the handler has other bytes there.
      if (value instanceof Uint8Array) return new Uint8Array(value);
      if (value instanceof Date) {
        if (Number.isNaN(value.getTime())) throw unbindable(which, 'an invalid date');
        return value.toISOString();
      }
      throw unbindable(
        which,
        Array.isArray(value) ? 'an array' : 'an object',
        ' Bind JSON.stringify(value) to store it as text.',
      );
    default:
      throw unbindable(which, `a ${typeof value}`);
  }
}

function unbindable(which: number | string, what: string, hint = ''): TypeError {
  return new TypeError(`SQL parameter ${typeof which === 'number' ? which : `"${which}"`} is ${what}.${hint}`);
}
