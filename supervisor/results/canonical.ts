/** Makes the canonical JSON of an input, the same for equal inputs: no spaces, sorted members. */

/** Deeper inputs have none. */
const MOST_DEPTH = 32;

/** Null for an input that has none: bytes, too deep, over `mostChars`, or with a number that JSON text cannot hold again. */
export function canonicalInput(input: unknown, mostChars: number): string | null {
  if (input instanceof Uint8Array) return null;
  const text = textOf(input ?? {}, MOST_DEPTH);
  return text === null || text.length > mostChars ? null : text;
}

function textOf(value: unknown, depth: number): string | null {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'number':
      // `1e999` is infinite, and -0 would become 0.
      return Number.isFinite(value) && !Object.is(value, -0) ? String(value) : null;
    case 'boolean':
      return value ? 'true' : 'false';
    case 'object':
      break;
    default:
      return null;
  }
  if (value === null) return 'null';
  if (depth === 0) return null;
  if (Array.isArray(value)) {
    const items: string[] = [];
    for (const item of value) {
      const text = textOf(item, depth - 1);
      if (text === null) return null;
      items.push(text);
    }
    return `[${items.join(',')}]`;
  }
  const members: string[] = [];
  const names = Object.keys(value);
  for (const name of names.length > 1 ? names.sort() : names) {
    const text = textOf((value as Record<string, unknown>)[name], depth - 1);
    if (text === null) return null;
    members.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${members.join(',')}}`;
}
