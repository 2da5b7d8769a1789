/** Finds the few members of a JSON body that say what a request is about, without parsing the rest. */
import { membersOf } from '../../../protocol/rules/json-text.ts';

/** The JSON texts of members, by name. */
export type Members = ReadonlyMap<string, Uint8Array>;

/** Null for what is no object, which the route answers. */
export function membersIn(json: Uint8Array | undefined, names: readonly string[]): Members | null {
  try {
    return json === undefined ? null : membersOf(json, names);
  } catch {
    return null;
  }
}

/** A member that is a text; null for any other. */
export function textIn(members: Members | null, name: string): string | null {
  const json = members?.get(name);
  if (json === undefined) return null;
  try {
    const value: unknown = JSON.parse(Buffer.from(json.buffer, json.byteOffset, json.length).toString());
    return typeof value === 'string' ? value : null;
  } catch {
    return null;
  }
}
