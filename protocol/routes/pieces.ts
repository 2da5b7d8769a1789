/** Pieces of rows that several resources use: pages of lists, deletions, answers and what a publication may refuse. */
import { LIMITS } from '../limits.ts';
import { flag, integer, object, orNull, type Schema, text } from '../shapes/schema.ts';
import type { RowErrors } from './row.ts';

/** At most so many rows. */
export function limitOf(usual: number = LIMITS.listRows, max: number = LIMITS.listRowsMax) {
  return { ...integer(1, max), says: `Rows to answer; ${usual} by default` } as const;
}

/** The parameters of a list that has the newest first: how many rows, and those that follow the row `before`. */
export function newestFirst(key: string) {
  return object({}, { limit: limitOf(), before: { ...text, says: `Answers those that follow this one: ${key}` } });
}

/** The parameters of a list that is sorted by a key. */
export function sortedBy(key: string) {
  return object(
    {},
    {
      limit: limitOf(LIMITS.listRowsMax),
      after: { ...text, says: `Answers those after this ${key}` },
      before: { ...text, says: `Answers the last ones before this ${key}` },
    },
  );
}

/** The answer to a deletion: what names the thing, and that it is gone. */
export function deleted<const S extends Readonly<Record<string, Schema>>>(named: S) {
  return object({ ...named, deleted: flag });
}

/** A shape that another page explains: `says` leads there, and its members are not explained again. */
export function elsewhere<const S extends Schema>(schema: S, says: string): S {
  return { ...unexplained(schema), says } as unknown as S;
}

function unexplained({ says: _says, wanted: _wanted, properties, items, anyOf, ...rest }: Schema): Schema {
  const inner = Object.entries(properties ?? {}).map(([name, one]) => [name, unexplained(one)]);
  return {
    ...rest,
    ...(properties && { properties: Object.fromEntries(inner) }),
    ...(items && { items: unexplained(items) }),
    ...(anyOf && { anyOf: anyOf.map(unexplained) }),
  };
}

/** `1` or absent. */
export function switched(says: string) {
  return { ...text, wanted: '1', says } as const;
}

/** `1,000`. `toLocaleString` would load the tables of all languages at each start. */
export function thousands(count: number): string {
  return String(count).replace(/\B(?=(?:\d{3})+$)/g, ',');
}

/** In milliseconds since the epoch. */
export const TIME = { type: 'integer', wanted: 'a time in milliseconds since the epoch' } as const;
export const TIME_OR_NULL = orNull(TIME);

/** Who caused something, with the name that they had then. Absent where nobody with an account did. */
export const NAMED_PERSON = object({ id: text, name: text });

/** Of routes of one app. */
export const OF_APP: RowErrors = { INVALID_ID: '', RESERVED_ID: '', UNKNOWN_APP: '' };

/** What names in paths mean, unless a row says it. */
export const PARAMETERS: Readonly<Record<string, string>> = {
  id: 'The id of the app',
  app: 'The id of the app',
  sid: 'The id of the workspace',
  '*': 'The rest of the path; it may have slashes',
};
