/**
 * Finds what an author probably mistyped in valid files: unknown members of `app.json` and `automation.json` that are nearly
 * known ones, and files of handlers that nothing names (specification, "Probable mistakes"). They are warnings, and refuse
 * nothing. Pure.
 */
import APP_SCHEMA from '../../schemas/app.schema.json' with { type: 'json' };
import AUTOMATION_SCHEMA from '../../schemas/automation.schema.json' with { type: 'json' };
import type { InputIssue } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { editDistance } from '../text/edit-distance.ts';
import { isTestFile } from './static-files.ts';

/** Keywords of these warnings. */
const UNKNOWN_MEMBER = 'unknown-member';
const UNUSED_HANDLER = 'unused-handler';

/** The keywords of JSON Schema by which our schemas name members. */
type Schema = {
  $ref?: string;
  $defs?: Record<string, Schema>;
  properties?: Record<string, Schema>;
  items?: Schema;
  allOf?: Schema[];
  anyOf?: Schema[];
  then?: Schema;
};

const MOST_EDITS = 2;
/** In schemas of authors any keyword may stand. */
const FOREIGN = new Set(['input', 'output', 'outputSchema']);
const AUTOMATION_FILE = /^automations\/([^/]+)\/automation\.json$/;
/** A handler of a tool, with its list and name; or one of an automation, with its id. */
const HANDLER = /^(?:(queries|actions)\/([A-Za-z][A-Za-z0-9_-]{0,63})|automations\/([^/]+)\/handler)\.(?:js|ts)$/;

/** Unknown members of `file`, an `app.json` or `automation.json`, by its text; none where that is not JSON. */
export function nearMisses(file: string, text: string): InputIssue[] {
  const schema = (file === 'app.json' ? APP_SCHEMA : AUTOMATION_SCHEMA) as Schema;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return [];
  }
  const unknown = unknownIn(value, schema, schema, '').slice(0, LIMITS.inputIssues);
  return unknown.map(({ member, meant, within }) => {
    const where = within === '' ? '' : ` of ${within}`;
    const message = `"${member}"${where} is no known member and does nothing. Did you mean "${meant}"?`;
    return { path: file, keyword: UNKNOWN_MEMBER, message, ...placeOf(text, member) };
  });
}

type Unknown = { member: string; meant: string; within: string };

function unknownIn(value: unknown, schema: Schema, root: Schema, within: string): Unknown[] {
  if (Array.isArray(value)) {
    const { items } = partsOf(schema, root).find((part) => part.items !== undefined) ?? {};
    return items === undefined ? [] : value.flatMap((item, at) => unknownIn(item, items, root, `${within}[${at}]`));
  }
  if (typeof value !== 'object' || value === null) return [];
  const known = new Map<string, Schema>();
  for (const { properties = {} } of partsOf(schema, root))
    for (const [name, one] of Object.entries(properties)) if (!known.has(name)) known.set(name, one);
  return Object.entries(value).flatMap(([member, inside]): Unknown[] => {
    const own = known.get(member);
    if (own !== undefined) {
      return FOREIGN.has(member) ? [] : unknownIn(inside, own, root, within === '' ? member : `${within}.${member}`);
    }
    const meant = nearMiss(member, known.keys());
    return meant === undefined ? [] : [{ member, meant, within }];
  });
}

/** The schema and those that it is made of. */
function partsOf(schema: Schema, root: Schema): Schema[] {
  const { $ref, allOf = [], anyOf = [], then } = schema;
  const referred = $ref === undefined ? [] : [root.$defs?.[$ref.slice('#/$defs/'.length)] ?? {}];
  const more = [...referred, ...allOf, ...anyOf, ...(then === undefined ? [] : [then])];
  return [schema, ...more.flatMap((part) => partsOf(part, root))];
}

/** The nearest of the known names within two edits; another word of two letters is no misspelling. */
function nearMiss(member: string, known: Iterable<string>): string | undefined {
  let best: { name: string; edits: number } | undefined;
  for (const name of known) {
    if (Math.abs(name.length - member.length) > MOST_EDITS) continue;
    const edits = editDistance(member.toLowerCase(), name.toLowerCase());
    const isNear = edits <= MOST_EDITS && edits < Math.min(member.length, name.length);
    if (isNear && (best === undefined || edits < best.edits)) best = { name, edits };
  }
  return best?.name;
}

/** Where the member stands, if the text has its name only once; both count from 1. */
function placeOf(text: string, member: string): { line?: number; column?: number } {
  const name = JSON.stringify(member);
  const at = text.indexOf(name);
  if (at < 0 || text.includes(name, at + 1)) return {};
  const before = text.slice(0, at).split('\n');
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
}

/** Tools by their lists, as a manifest declares them. */
type Declared = { queries: { name: string }[]; actions: { name: string }[] };

/**
 * Files of handlers among the app's `paths` that no tool or automation names. `read` has the files that the check of the handlers
 * read: what a handler imports is used.
 */
export function unusedHandlers(paths: string[], declared: Declared, read: ReadonlySet<string>): InputIssue[] {
  const automations = new Set(paths.flatMap((path) => AUTOMATION_FILE.exec(path)?.[1] ?? []));
  return paths.flatMap((path) => {
    const [, list, tool, automation] = HANDLER.exec(path) ?? [];
    if ((tool ?? automation) === undefined || read.has(path) || path.endsWith('.d.ts') || isTestFile(path)) return [];
    if (automation !== undefined) {
      if (automations.has(automation)) return [];
      return [unused(path, `automations/${automation}/automation.json is missing`)];
    }
    if (declared[list as keyof Declared].some(({ name }) => name === tool)) return [];
    return [unused(path, `"${list}" in app.json has no "${tool}"`)];
  });
}

function unused(path: string, why: string): InputIssue {
  return { path, keyword: UNUSED_HANDLER, message: `Nothing uses this handler: ${why}.` };
}
