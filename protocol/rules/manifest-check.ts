/**
 * Checks a manifest (specification, "Members of the manifest"): its shape by the JSON Schema published in `schemas/`, then what
 * a schema cannot say. Paths look like `queries[0].name`; the manifest itself is the empty path.
 */
import type { ErrorObject } from 'ajv/dist/2020.js';
import MANIFEST_SCHEMA from '../../schemas/app.schema.json' with { type: 'json' };
import { type InputIssue, SvcError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import type { Manifest } from '../manifest.ts';
import { isHostPattern, PATTERN_FORM } from './egress.ts';
import { validate } from './manifest-schema.ts';

const ROLE_ID = /^[a-z][a-z0-9-]{0,31}$/;
const ROLE_FORM = 'a small letter, then small letters, digits and -, at most 32';
/** The roles of each app and of the gateway, which would be taken for one another. */
const OWN_ROLES = ['viewer', 'editor', 'manager', 'owner', 'author', 'member'];

/** Message for a text that must not be empty. */
const NOT_EMPTY = MANIFEST_SCHEMA.properties.name.pattern;

/** `INVALID_MANIFEST`; `path` names the first field that is wrong, `issues` all of them up to `LIMITS.inputIssues`. */
function invalidManifest(issues: InputIssue[]): SvcError {
  const shown = issues.slice(0, LIMITS.inputIssues);
  const [first] = shown;
  const message = first === undefined ? 'is not valid' : `${first.path === '' ? '' : `${first.path} `}${first.message}`;
  return new SvcError('INVALID_MANIFEST', `app.json: ${message}.`, { path: first?.path ?? '', issues: shown });
}

/** One wrong field. `keyword` is JSON Schema's where there is one. */
export function manifestIssue(path: string, message: string, keyword: string): SvcError {
  return invalidManifest([{ path, message, keyword }]);
}

/** The manifest in the text of an `app.json` that was uploaded for the app `id`. Throws `INVALID_MANIFEST`. */
export function checkManifest(text: string, id: string): Manifest {
  if (Buffer.byteLength(text) > LIMITS.manifestBytes) {
    throw manifestIssue('', `is larger than ${LIMITS.manifestBytes} bytes`, 'maxLength');
  }
  const value = parse(text);
  const tooDeep = tooDeepPath(value);
  if (tooDeep !== null) throw manifestIssue(tooDeep, `nests deeper than ${LIMITS.manifestDepth} levels`, 'depth');
  if (!validate(value)) throw invalidManifest((validate.errors ?? []).map(toIssue));
  const manifest = { queries: [], actions: [], ...(value as object) } as unknown as Manifest;
  const issues = [
    ...(manifest.id === id
      ? []
      : [{ path: 'id', message: `is "${manifest.id}", but the app is "${id}"`, keyword: 'const' }]),
    ...duplicates('queries', manifest.queries, 'name'),
    ...duplicates('actions', manifest.actions, 'name'),
    ...duplicates('knobs', manifest.knobs ?? [], 'key'),
    ...unreadableHosts(manifest.network ?? []),
    ...wrongRoles(manifest),
  ];
  if (issues.length > 0) throw invalidManifest(issues);
  return manifest;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw manifestIssue('', `is not JSON: ${(error as Error).message}`, 'json');
  }
}

function toIssue({ instancePath, keyword, message = 'is not valid', params }: ErrorObject): InputIssue {
  const parent = fieldPath(instancePath);
  if (keyword === 'required') {
    const path = joined(parent, String(params.missingProperty));
    return { path, message: 'is required', keyword };
  }
  if (keyword === 'pattern' && params.pattern === NOT_EMPTY)
    return { path: parent, message: 'must not be empty', keyword };
  if (keyword === 'enum')
    return { path: parent, message: `must be one of ${params.allowedValues.join(', ')}`, keyword };
  if (keyword === 'const') return { path: parent, message: `must be ${JSON.stringify(params.allowedValue)}`, keyword };
  return { path: parent, message, keyword };
}

/** `/queries/0/name` → `queries[0].name`. */
function fieldPath(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((path, part) => (/^\d+$/.test(part) ? `${path}[${part}]` : joined(path, part)), '');
}

function joined(path: string, member: string): string {
  return path === '' ? member : `${path}.${member}`;
}

/** Path of the tool or field that nests too deep; it need not go deeper. */
function tooDeepPath(value: unknown): string | null {
  const depthOver = (node: unknown, left: number): boolean => {
    if (typeof node !== 'object' || node === null) return false;
    if (left === 0) return true;
    return Object.values(node).some((member) => depthOver(member, left - 1));
  };
  if (!depthOver(value, LIMITS.manifestDepth)) return null;
  return Object.entries(value as object).find(([, member]) => depthOver(member, LIMITS.manifestDepth - 1))?.[0] ?? '';
}

function unreadableHosts(network: string[]): InputIssue[] {
  return network.flatMap((host, i) =>
    isHostPattern(host) ? [] : [{ path: `network[${i}]`, message: `must be ${PATTERN_FORM}`, keyword: 'host' }],
  );
}

/** Ids that are none or that the gateway has for roles of its own, and tools that the app does not have. */
function wrongRoles({ roles = {}, queries, actions }: Manifest): InputIssue[] {
  const tools = { queries, actions };
  return Object.entries(roles).flatMap(([id, role]) => {
    const path = `roles.${id}`;
    if (!ROLE_ID.test(id)) return [{ path, message: `must be named by ${ROLE_FORM}`, keyword: 'pattern' }];
    if (OWN_ROLES.includes(id)) return [{ path, message: 'is a role that each gateway has', keyword: 'not' }];
    return (['queries', 'actions'] as const).flatMap((kind) => {
      const names = role[kind] === '*' ? [] : (role[kind] as string[]);
      return names.flatMap((name, i) =>
        tools[kind].some((tool) => tool.name === name)
          ? []
          : [{ path: `${path}.${kind}[${i}]`, message: `"${name}" is none of its ${kind}`, keyword: 'enum' }],
      );
    });
  });
}

function duplicates(list: string, items: object[], member: string): InputIssue[] {
  const seen = new Set<unknown>();
  const issues: InputIssue[] = [];
  for (const [i, item] of items.entries()) {
    const name: unknown = (item as Record<string, unknown>)[member];
    if (seen.has(name))
      issues.push({ path: `${list}[${i}].${member}`, message: `"${String(name)}" is there twice`, keyword: 'unique' });
    seen.add(name);
  }
  return issues;
}
