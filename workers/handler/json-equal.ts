/**
 * Whether two values that came out of JSON are equal, as JSON Schema means it (`const`, `enum`, `uniqueItems`). Ajv's own
 * comparison asks the values for their `constructor`, `valueOf` and `toString`, which in an input are whatever its sender says.
 */

// App code could put its own in their place.
const { hasOwn, keys } = Object;
const { isArray } = Array;

type Members = Record<string, unknown>;

export function jsonEqual(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false;
  if (isArray(one) || isArray(other)) {
    if (!isArray(one) || !isArray(other) || one.length !== other.length) return false;
    for (let i = 0; i < one.length; i++) if (!jsonEqual(one[i], other[i])) return false;
    return true;
  }
  const names = keys(one);
  if (names.length !== keys(other).length) return false;
  for (const name of names) {
    if (!hasOwn(other, name) || !jsonEqual((one as Members)[name], (other as Members)[name])) return false;
  }
  return true;
}
