/**
 * Checks the names in a schema, by which it and its parts are found: `$id`, `$ref` and the like, at any depth. Whatever is no
 * legal name is refused, so that no text that is more than a name gets where a name belongs.
 */
import { fullFormats } from 'ajv-formats/dist/formats.js';
import { LIMITS } from '../../protocol/limits.ts';

/** What is wrong with one member: its place in the schema, as in `.properties.a.$id`. */
export type NameFault = { field: string; message: string };

/** What these hold is data: no keyword is looked for in it. */
const DATA = new Set(['const', 'enum', 'default', 'examples']);
/** Their members are named by the author, and each is a schema. */
const NAMED = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies']);

const URI_REFERENCE = fullFormats['uri-reference'] as RegExp;
const ANCHOR = /^[A-Za-z_][-A-Za-z0-9._]*$/;
/** Legal in a URI, rare, and what text needs that wants to be code. In the fragment of a reference they may be part of a name. */
const ENCODED = /['()*]/;

const URI = "must be a URI reference (RFC 3986), with ' ( ) and * written as %27 %28 %29 and %2A";
const REFERENCE = 'must be a URI reference (RFC 3986), with what it does not take percent-encoded';
const NAME = 'must begin with a letter or "_", and go on with letters, digits, "-", "." and "_"';

type Judge = { isLegal(text: string): boolean; message: string };

const uri: Judge = { isLegal: (text) => URI_REFERENCE.test(text) && !ENCODED.test(text), message: URI };
const reference: Judge = {
  isLegal: (text) => URI_REFERENCE.test(text) && !ENCODED.test(text.split('#', 1)[0] ?? ''),
  message: REFERENCE,
};
const anchor: Judge = { isLegal: (text) => ANCHOR.test(text), message: NAME };

const JUDGES = new Map<string, Judge>([
  ['$id', uri],
  ['$schema', uri],
  ['$ref', reference],
  ['$dynamicRef', reference],
  ['$anchor', anchor],
  ['$dynamicAnchor', anchor],
]);

/** The first member that is no legal name, whatever keyword it stands under; null when all are. */
export function nameFault(schema: unknown): NameFault | null {
  return inSchema(schema, '');
}

function inSchema(value: unknown, field: string): NameFault | null {
  if (Array.isArray(value)) return firstFault(value.entries(), (item, i) => inSchema(item, `${field}[${i}]`));
  if (typeof value !== 'object' || value === null) return null;
  return firstFault(membersOf(value), (member, key) => inMember(member, key, `${field}.${key}`));
}

function inMember(value: unknown, key: string, field: string): NameFault | null {
  const judge = JUDGES.get(key);
  if (judge !== undefined) return isLegal(judge, value) ? null : { field, message: judge.message };
  if (DATA.has(key)) return null;
  if (!NAMED.has(key) || typeof value !== 'object' || value === null) return inSchema(value, field);
  return firstFault(membersOf(value), (member, name) => inSchema(member, `${field}.${name}`));
}

function isLegal(judge: Judge, value: unknown): boolean {
  return typeof value === 'string' && value.length <= LIMITS.schemaNameChars && judge.isLegal(value);
}

function membersOf(value: object): Iterable<[string, unknown]> {
  return Object.entries(value);
}

function firstFault<K>(
  members: Iterable<[K, unknown]>,
  judge: (member: unknown, key: K) => NameFault | null,
): NameFault | null {
  for (const [key, member] of members) {
    const fault = judge(member, key);
    if (fault !== null) return fault;
  }
  return null;
}
