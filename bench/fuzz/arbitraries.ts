/** Inputs that several targets start from: JSON with awkward names and numbers, and sound bytes with something broken. */
import fc from 'fast-check';
import words from './words.json' with { type: 'json' };

const NUMBERS = [0, -0, 1e308, -1e-308, 2 ** 53, 2 ** 53 + 2, -(2 ** 63), 1e21, 0.1, Number.MIN_VALUE];

export const awkwardText: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.string({ maxLength: 12 }),
  fc.constantFrom(...words.names, '\ud800', 'x\udfff', '\ufeff', '\u0000', 'é', 'e\u0301', '😀'),
);

const key = fc.oneof(fc.constantFrom(...words.names), awkwardText);

/** Any value that JSON can say. Members named `__proto__` are own properties. */
export const jsonValue: fc.Arbitrary<unknown> = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, depthSize: 'small', withCrossShrink: true },
    fc.oneof(
      fc.constantFrom(null, true, false),
      fc.constantFrom(...NUMBERS),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      awkwardText,
    ),
    fc.array(tie('value'), { maxLength: 5 }),
    jsonObject(tie('value')),
  ),
})).value;

export function jsonObject(value: fc.Arbitrary<unknown>, names: fc.Arbitrary<string> = key): fc.Arbitrary<object> {
  return fc.array(fc.tuple(names, value), { maxLength: 5 }).map(objectOf);
}

/** Each member is the object's own, `__proto__` too. */
function objectOf(members: [string, unknown][]): object {
  const object = {};
  for (const [name, value] of members)
    Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
  return object;
}

type Keywords = [names: readonly string[] | fc.Arbitrary<string>, holds: fc.Arbitrary<unknown>];

/** Schemas whose keywords come from the rows, each row as often: its names, and what they hold. `one` is a schema inside another. */
export function schemasOf(rows: (one: fc.Arbitrary<unknown>) => Keywords[]): fc.Arbitrary<unknown> {
  return fc.letrec<{ schema: unknown }>((tie) => {
    const keywords = rows(tie('schema')).map(([names, holds]) =>
      fc.tuple(names instanceof fc.Arbitrary ? names : fc.constantFrom(...names), holds),
    );
    const object = (minLength: number) => fc.array(fc.oneof(...keywords), { minLength, maxLength: 5 }).map(objectOf);
    return {
      schema: fc.oneof({ maxDepth: 4, depthSize: 'medium', withCrossShrink: true }, fc.boolean(), object(0), object(1)),
    };
  }).schema;
}

/** Mostly the one, so many times as often as the other. */
export function usually<T, U>(usual: fc.Arbitrary<T>, seldom: fc.Arbitrary<U>, weight = 6): fc.Arbitrary<T | U> {
  return fc.oneof({ weight, arbitrary: usual }, { weight: 1, arbitrary: seldom });
}

export function anyBytes(maxLength: number): fc.Arbitrary<Buffer> {
  return fc.uint8Array({ maxLength }).map((bytes) => Buffer.from(bytes));
}

/** JSON text that nests as deep, and is as long, as is said. */
export function deepJson(mostLevels: number, mostBytes = Number.POSITIVE_INFINITY): fc.Arbitrary<string> {
  return fc
    .tuple(fc.constantFrom('[', '{"a":', '{"__proto__":'), fc.integer({ min: 1, max: mostLevels }))
    .map(([open, levels]) => {
      const room = Math.min(levels, Math.floor(mostBytes / (open.length + 1)));
      return `${open.repeat(room)}1${(open === '[' ? ']' : '}').repeat(room)}`;
    });
}

/** A list of up to 200,000 times the same. */
export function wideJson(items: string[], mostBytes = Number.POSITIVE_INFINITY): fc.Arbitrary<string> {
  return fc.tuple(fc.constantFrom(...items), fc.nat(200_000)).map(([item, times]) => {
    const room = Math.min(times, Math.floor(mostBytes / (item.length + 1)));
    return `[${new Array(room).fill(item).join(',')}]`;
  });
}

type Mutation = { at: number; kind: 'set' | 'cut' | 'insert' | 'repeat'; byte: number; length: number };

const mutation: fc.Arbitrary<Mutation> = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  kind: fc.constantFrom('set', 'cut', 'insert', 'repeat'),
  byte: fc.oneof(fc.nat(255), fc.constantFrom(0, 0xff, 0x80, 0x7f, 0x0a, 0x0d)),
  length: fc.nat(40),
});

/** The same bytes with some of them changed, cut out, added or repeated. */
export function mutated(bytes: fc.Arbitrary<Buffer>, most = 4): fc.Arbitrary<Buffer> {
  return fc
    .tuple(bytes, fc.array(mutation, { minLength: 1, maxLength: most }))
    .map(([sound, mutations]) => mutations.reduce(mutate, sound));
}

function mutate(bytes: Buffer, { at, kind, byte, length }: Mutation): Buffer {
  const start = Math.min(bytes.length, Math.floor(at * (bytes.length + 1)));
  const [before, after] = [bytes.subarray(0, start), bytes.subarray(start)];
  switch (kind) {
    case 'set':
      return Buffer.concat([before, Buffer.from([byte]), after.subarray(1)]);
    case 'cut':
      return Buffer.concat([before, after.subarray(length)]);
    case 'insert':
      return Buffer.concat([before, Buffer.alloc(length, byte), after]);
    case 'repeat':
      return Buffer.concat([before, after.subarray(0, length), after]);
  }
}

/** The bytes in pieces, as a socket might deliver them. */
export function pieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [0, ...cuts.map((cut) => Math.floor(cut * bytes.length)), bytes.length].sort((a, b) => a - b);
  return at.slice(1).map((end, i) => bytes.subarray(at[i], end));
}

export const cuts: fc.Arbitrary<number[]> = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 8 });
