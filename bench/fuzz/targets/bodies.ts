/** JSON bodies of calls: what is JSON comes back as it was sent, what is not is refused; never a fault, never a trace. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { appOf } from '../../../testing/apps.ts';
import { jsonValue, mutated } from '../arbitraries.ts';
import { FuzzedGateway } from '../gateway.ts';
import type { Target } from '../target.ts';
import words from '../words.json' with { type: 'json' };

const MARKS = `() => [Object, Array, Function, String].map((type) => Reflect.ownKeys(type.prototype).map(String).join())`;
const TREE = { properties: { a: { $ref: '#' } }, items: { $ref: '#' }, additionalProperties: { $ref: '#' } };
const ECHO = appOf('echo', {
  queries: {
    echo: { run: '({ input }) => input', input: true },
    tree: { run: '() => "seen"', input: TREE },
    unique: { run: '() => "seen"', input: { uniqueItems: true, items: true } },
    marks: MARKS,
  },
  actions: { echo: { run: '({ input }) => ({ body: input })', input: true } },
});

type Tool = { tool: 'svc_read' | 'svc_write'; name: string; key: boolean };
const tool: fc.Arbitrary<Tool> = fc.constantFrom(
  { tool: 'svc_read', name: 'echo', key: false },
  { tool: 'svc_write', name: 'echo', key: false },
  { tool: 'svc_write', name: 'echo', key: true },
  { tool: 'svc_read', name: 'tree', key: false },
  { tool: 'svc_read', name: 'unique', key: false },
);

/** Those whose schema does not compare each item with each other, which takes a large input to its deadline. */
const linear = tool.filter(({ name }) => name !== 'unique');

/** JSON text for `input` in ways that JSON.stringify does not write. */
const odd = fc.constantFrom(...words.jsonTexts);
const deep = fc
  .record({ open: fc.constantFrom('[', '{"a":', '{"__proto__":'), levels: fc.integer({ min: 1, max: 100_000 }) })
  .map(({ open, levels }) => {
    const room = Math.min(levels, Math.floor(900_000 / (open.length + 1)));
    return `${open.repeat(room)}1${(open === '[' ? ']' : '}').repeat(room)}`;
  });
const wide = fc
  .record({ item: fc.constantFrom('1', '"a"', '{}', '[]', 'null'), times: fc.nat(200_000) })
  .map(({ item, times }) => {
    const room = Math.min(times, Math.floor(900_000 / (item.length + 1)));
    return `[${new Array(room).fill(item).join(',')}]`;
  });
const manyNames = fc.nat(60_000).map((count) => `{${Array.from({ length: count }, (_, i) => `"k${i}":1`).join(',')}}`);

const value = fc.oneof(
  { weight: 10, arbitrary: jsonValue.map((input) => JSON.stringify(input)) },
  { weight: 4, arbitrary: odd },
);
const large = fc.oneof(deep, wide, manyNames);

function bodyOf({ tool: name, name: called }: Tool, input: string): string {
  return `{"app":"echo","${name === 'svc_read' ? 'query' : 'action'}":"${called}","input":${input}}`;
}

/** Bytes that are not what they were, or were never JSON. */
const broken = mutated(fc.tuple(tool, value).map(([called, input]) => Buffer.from(bodyOf(called, input))));
const wrapped = fc
  .tuple(
    fc.constantFrom('', '\ufeff', ' ', '\u0000', '[', '{}', '//x\n'),
    value,
    fc.constantFrom('', ' ', '\n', '\u0000', '{}', ',', ']', '\ufeff'),
  )
  .map(([before, input, after]) =>
    Buffer.from(before + bodyOf({ tool: 'svc_read', name: 'echo', key: false }, input) + after),
  );
const members = jsonValue.map((body) => Buffer.from(JSON.stringify(body)));

let keys = 0;

class Caller {
  readonly #fuzzed: FuzzedGateway;
  readonly #marks: string;

  private constructor(fuzzed: FuzzedGateway, marks: string) {
    this.#fuzzed = fuzzed;
    this.#marks = marks;
  }

  static async of(fuzzed: FuzzedGateway): Promise<Caller> {
    return new Caller(fuzzed, (await fuzzed.gateway.read('echo', 'marks')).text);
  }

  #post(name: string, body: Buffer, key = false): Promise<{ status: number; text: string }> {
    const headers: Record<string, string> = { 'content-type': 'application/json' };
    if (key) headers['idempotency-key'] = String(++keys);
    return this.#fuzzed.post(`/svc/_tool/${name}`, body, headers);
  }

  /** Nothing that was sent is left in the thread of the app. */
  async #assertUntouched(): Promise<void> {
    await this.#fuzzed.assertSound();
    const { text } = await this.#fuzzed.gateway.read('echo', 'marks');
    assert.equal(text, this.#marks, 'a prototype in the thread of the app was changed');
  }

  /** JSON, small enough to be answered. */
  async sound(called: Tool, input: string): Promise<void> {
    const { status, text } = await this.#post(called.tool, Buffer.from(bodyOf(called, input)), called.key);
    await this.#assertUntouched();
    if (called.name === 'unique' && status === 400) return;
    assert.equal(status, 200, text);
    if (called.name !== 'echo') return;
    const sent: unknown = JSON.parse(input) ?? {};
    const { data } = JSON.parse(text) as { data: unknown };
    const got = called.tool === 'svc_read' ? data : (data as { body: unknown }).body;
    assert.equal(JSON.stringify(got), JSON.stringify(sent));
  }

  /** JSON that may be more than can be taken: the caller's fault, or the handler's that sends it back. */
  async large(called: Tool, input: string): Promise<void> {
    const { status, text } = await this.#post(called.tool, Buffer.from(bodyOf(called, input)), called.key);
    await this.#assertUntouched();
    if (called.name === 'echo' && /cannot be sent as JSON: Maximum call stack/.test(text)) return;
    assert.ok(status < 500, `${status} ${text.slice(0, 300)}`);
  }

  async broken(name: string, body: Buffer): Promise<void> {
    const { status, text } = await this.#post(name, body);
    await this.#assertUntouched();
    assert.ok(status < 500, `${status} ${text.slice(0, 300)}`);
  }
}

export const bodies: Target = {
  name: 'bodies',
  claim: 'JSON comes back as it was sent, anything else is refused, and neither leaves a trace in the app.',
  open: async () => {
    const fuzzed = await FuzzedGateway.start('uws', { echo: ECHO });
    const caller = await Caller.of(fuzzed);
    const anyTool = fc.constantFrom('svc_read', 'svc_write', 'svc_describe', 'x');
    return {
      checks: [
        {
          name: 'JSON',
          runs: { full: 20_000, smoke: 80 },
          property: fc.asyncProperty(tool, value, (called, input) => caller.sound(called, input)),
        },
        {
          name: 'deep and wide',
          runs: { full: 2000, smoke: 8 },
          property: fc.asyncProperty(linear, large, (called, input) => caller.large(called, input)),
        },
        {
          name: 'no JSON, or not what it was',
          runs: { full: 20_000, smoke: 80 },
          property: fc.asyncProperty(anyTool, fc.oneof(broken, wrapped, members), (name, body) =>
            caller.broken(name, body),
          ),
        },
      ],
      close: () => fuzzed.close(),
    };
  },
};
