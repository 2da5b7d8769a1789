/**
 * Reads the descriptions of routes from `docs/http-api.md` for the OpenAPI document; tests keep that table and the routes
 * equal.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ERROR_CODES, type ErrorCode } from '../../protocol/errors.ts';
import { packageRoot } from '../tree/entry-points.ts';

/** A row of the reference. `section` is the heading above it, `answers` and `errors` are Markdown. */
export type ReferenceRow = { section: string; answers: string; codes: ErrorCode[] };

/** Members of a JSON body, in their order. */
export type BodyMembers = { name: string; optional: boolean }[];

const ROW = /^\| `(GET|POST|PUT|PATCH|DELETE)` \| `([^`]+)` \| (.*) \|$/;

/** By method and path, such as `GET /svc/_apps/:id`; empty where the document is missing. */
export function readReference(file: string = join(packageRoot, 'docs/http-api.md')): Map<string, ReferenceRow> {
  const rows = new Map<string, ReferenceRow>();
  let section = '';
  for (const line of textOf(file).split('\n')) {
    section = /^### (.+)/.exec(line)?.[1] ?? section;
    const [, method, path, rest] = ROW.exec(line) ?? [];
    if (rest === undefined) continue;
    const [answers = '', errors = ''] = rest.split(/ (?<!\\)\| ?/).map((cell) => cell.replaceAll('\\|', '|'));
    const named = [...`${answers} ${errors}`.matchAll(/`([A-Z_]+)`/g)].map(([, code = '']) => code);
    const codes = [...new Set(named)].filter((code): code is ErrorCode => Object.hasOwn(ERROR_CODES, code));
    rows.set(`${method} ${path}`, { section, answers: answers.replace(/^○ /, ''), codes });
  }
  return rows;
}

/** The members of the JSON body that a row begins with: `{ app, input? }` before the arrow; null where it names none. */
export function bodyOf(answers: string): BodyMembers | null {
  const [, inner] = /^(?:git store: )?`\{ ([^`]*) \}`.*?→/.exec(answers) ?? [];
  if (inner === undefined) return null;
  // Nested members are described by the text only.
  const flat = inner.replace(/\[.*?\](?=[,?]|$)|\{.*?\}/g, '');
  return flat.split(/[,|]/).flatMap((part) => {
    const [, name, mark] = /^\s*(\w+)(\??)/.exec(part) ?? [];
    return name === undefined ? [] : [{ name, optional: mark === '?' }];
  });
}

/** Names of the query parameters that a row mentions as `?name=`. */
export function queryOf(answers: string): string[] {
  return [...new Set([...answers.matchAll(/\?([a-zA-Z]+)=/g)].map(([, name = '']) => name))];
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
