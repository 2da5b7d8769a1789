/** JSON bodies of calls: what is JSON comes back as it was sent, what is not is refused; never a fault, never a trace. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { appOf } from '../../../testing/apps.ts';
import { deepJson, jsonValue, mutated, wideJson } from '../arbitraries.ts';
import { type FuzzedGateway, startFuzzed } from '../gateway.ts';
import { check, type Target } from '../target.ts';
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
const manyNames = fc.nat(60_000).map((count) => `{${Array.from({ length: count }, (_, i) => `"k${i}":1`).join(',')}}`);

const value = fc.oneof(
  { weight: 10, arbitrary: jsonValue.map((input) => JSON.stringify(input)) },
  { weight: 4, arbitrary: odd },
);
/** With the call around it, within the limit of a body. */
const LARGE_BYTES = 900_000;
const large = fc.oneof(
  deepJson(100_000, LARGE_BYTES),
  wideJson(['1', '"a"', '{}', '[]', 'null'], LARGE_BYTES),
  manyNames,
);

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

type Answer = { status: number; text: string };
let keys = 0;

/** Posts to one gateway; whatever was sent, nothing of it is left in the thread of the app. */
async function poster(fuzzed: FuzzedGateway): Promise<(name: string, body: Buffer, key?: boolean) => Promise<Answer>> {
  const marks = (await fuzzed.gateway.read('echo', 'marks')).text;
  return async (name, body, key = false) => {
    const headers: Record<string, string> = { 'content-type': 'application/json' };
    if (key) headers['idempotency-key'] = String(++keys);
    const answer = await fuzzed.post(`/svc/_tool/${name}`, body, headers);
    await fuzzed.assertSound();
    const { text } = await fuzzed.gateway.read('echo', 'marks');
    assert.equal(text, marks, 'a prototype in the thread of the app was changed');
    return answer;
  };
}

/** JSON, small enough to be answered. */
function assertEchoed(called: Tool, input: string, { status, text }: Answer): void {
  if (called.name === 'unique' && status === 400) return;
  assert.equal(status, 200, text);
  if (called.name !== 'echo') return;
  const sent: unknown = JSON.parse(input) ?? {};
  const { data } = JSON.parse(text) as { data: unknown };
  const got = called.tool === 'svc_read' ? data : (data as { body: unknown }).body;
  assert.equal(JSON.stringify(got), JSON.stringify(sent));
}

function assertNoFault({ status, text }: Answer): void {
  assert.ok(status < 500, `${status} ${text.slice(0, 300)}`);
}

export const bodies: Target = {
  name: 'bodies',
  claim: 'JSON comes back as it was sent, anything else is refused, and neither leaves a trace in the app.',
  open: async (stage) => {
    const fuzzed = await startFuzzed(stage, { echo: ECHO });
    const post = await poster(fuzzed);
    const call = (called: Tool, input: string) => post(called.tool, Buffer.from(bodyOf(called, input)), called.key);
    const anyTool = fc.constantFrom('svc_read', 'svc_write', 'svc_describe', 'x');
    const noJson = fc.oneof(broken, wrapped, members);
    return [
      check('JSON', 20_000, fc.tuple(tool, value), async ([called, input]) => {
        assertEchoed(called, input, await call(called, input));
      }),
      check('deep and wide', 2000, fc.tuple(linear, large), async ([called, input]) => {
        const answer = await call(called, input);
        // It may be more than can be taken: that is the caller's fault, or that of the handler that sends it back.
        if (called.name === 'echo' && /cannot be sent as JSON: Maximum call stack/.test(answer.text)) return;
        assertNoFault(answer);
      }),
      check('no JSON, or not what it was', 20_000, fc.tuple(anyTool, noJson), async ([name, body]) => {
        assertNoFault(await post(name, body));
      }),
    ];
  },
};
