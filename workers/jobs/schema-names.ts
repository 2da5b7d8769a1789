/**
 * Checks the names in a schema, by which it and its parts are found: `$id`, `$ref` and the like, at any depth. Refuses names
 * that are not legal, so that no other text gets where a name belongs.
 */
import { fullFormats } from 'ajv-formats/dist/formats.js';
import { LIMITS } from '../../protocol/limits.ts';

/** The fault of one member: its place in the schema, as in `.properties.a.$id`. */
type NameFault = { field: string; message: string };

/** Their values are data, without keywords. */
const DATA = new Set(['const', 'enum', 'default', 'examples']);
/** Their members are named by the author, and each is a schema. */
const NAMED = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies']);

const URI_REFERENCE = fullFormats['uri-reference'] as RegExp;
/** Legal in a URI but rare, and needed to inject code. In the fragment of a reference they may be part of a name. */
const ENCODED = /['()*]/;

type NameRule = { isLegal(text: string): boolean; message: string };

const uri: NameRule = {
  isLegal: (text) => URI_REFERENCE.test(text) && !ENCODED.test(text),
  message: "must be a URI reference (RFC 3986), with ' ( ) and * written as %27 %28 %29 and %2A",
};
const reference: NameRule = {
  isLegal: (text) => URI_REFERENCE.test(text) && !ENCODED.test(text.split('#', 1)[0] ?? ''),
  message: 'must be a URI reference (RFC 3986), with what it does not take percent-encoded',
};
const anchor: NameRule = {
  isLegal: (text) => /^[A-Za-z_][-A-Za-z0-9._]*$/.test(text),
  message: 'must begin with a letter or "_", and go on with letters, digits, "-", "." and "_"',
};
const NAME_RULES = new Map<string, NameRule>(
  Object.entries({
    $id: uri,
    $schema: uri,
    $ref: reference,
    $dynamicRef: reference,
    $anchor: anchor,
    $dynamicAnchor: anchor,
  }),
);

/** The first member that is not a legal name, under any keyword; null when all are. */
export function nameFault(schema: unknown): NameFault | null {
  for (const fault of faultsIn(schema, '')) return fault;
  return null;
}

/** `isNamed`: the names of its members are the author's. */
function* faultsIn(value: unknown, field: string, isNamed = false): Generator<NameFault> {
  if (typeof value !== 'object' || value === null) return;
  for (const [key, member] of Object.entries(value)) {
    if (Array.isArray(value)) yield* faultsIn(member, `${field}[${key}]`);
    else if (isNamed) yield* faultsIn(member, `${field}.${key}`);
    else yield* memberFaults(key, member, `${field}.${key}`);
  }
}

function* memberFaults(key: string, value: unknown, field: string): Generator<NameFault> {
  const rule = NAME_RULES.get(key);
  if (rule === undefined) {
    if (!DATA.has(key)) yield* faultsIn(value, field, NAMED.has(key));
    return;
  }
  const isLegal = typeof value === 'string' && value.length <= LIMITS.schemaNameChars && rule.isLegal(value);
  if (!isLegal) yield { field, message: rule.message };
}
