/** What is taken of the bodies of requests, and what is refused before it is parsed. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { flag, object, text } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import type { Exchange } from '../edge/edge.ts';
import { bodyOf, parseBody, parseCall, readBody } from './requests.ts';

const { callParsedBytes, jsonDepth, jsonValues, requestBodyBytes } = LIMITS;
const PADDING = ' '.repeat(callParsedBytes);
const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
const refused = (message: RegExp) => ({ code: 'BAD_REQUEST', message });

for (const [name, parse] of [
  ['parseBody', parseBody],
  ['parseCall', parseCall],
] as const) {
  describe(name, () => {
    const parsed = (text: string) => parse(Buffer.from(text));
    for (const padding of ['', PADDING]) {
      const size = padding === '' ? 'small' : 'large';

      test(`${size}: takes an object`, () => {
        const { app, query } = parsed(`{"app":"todos","query":"li\\u0073t"${padding}}`);
        assert.deepEqual([app, query], ['todos', 'list']);
      });

      test(`${size}: refuses JSON that nests too deeply, before it is parsed`, (t) => {
        const parse = t.mock.method(JSON, 'parse');
        const deep = refused(/^The body nests deeper than 1000 levels\.$/);
        assert.throws(() => parsed(`{"input":${nested(jsonDepth)}${padding}}`), deep);
        assert.throws(() => parsed(`${'['.repeat(requestBodyBytes - padding.length)}${padding}`), deep);
        // Of a large call the names of its members are.
        assert.ok(parse.mock.calls.every(({ arguments: [text] }) => String(text).length < 20));
        parsed(`{"input":${nested(jsonDepth - 1)}${padding}}`);
      });

      test(`${size}: refuses anything but a JSON object`, () => {
        for (const text of ['[]', 'null', '"a"', '7'])
          assert.throws(() => parsed(text + padding), refused(/must be a JSON object/));
        for (const text of ['{"app":"a" "b"}', '{"app":"a"', '{app:"a"}', 'x'])
          assert.throws(() => parsed(text + padding), refused(/^The body (is not JSON: |must be a JSON object)/), text);
        assert.throws(() => parse(Buffer.from(`{"app":"\xff"}${padding}`, 'latin1')), refused(/not UTF-8/));
      });
    }
  });
}

test('a body is read as its shape says, and a refusal names the member', async () => {
  const CHANGE = shape(object({ name: text }, { isOpen: flag, icon: { type: ['string', 'null'] } }));
  const read = (body: object) => {
    const exchange: Pick<Exchange, 'readBody'> = {
      readBody: (_limit, resolve) => resolve(Buffer.from(JSON.stringify(body))),
    };
    return readBody(exchange as Exchange, CHANGE);
  };
  assert.deepEqual(await read({ name: 'a', isOpen: null, icon: null, origin: 'x' }), { name: 'a', icon: null });
  await assert.rejects(read({ name: null }), { code: 'BAD_REQUEST', path: 'name', message: '"name" must be a text.' });
  await assert.rejects(read({ name: 'a', isOpen: 1 }), { path: 'isOpen', message: '"isOpen" must be true or false.' });
});

test('a body keeps what its shape allows beside its members', () => {
  const given = { name: 'a', theme: 'dark', size: null };
  assert.deepEqual(bodyOf(given, shape({ type: 'object', additionalProperties: {} })), given);
  const texts = shape({ type: 'object', additionalProperties: text });
  assert.throws(() => bodyOf(given, texts), { path: 'size', message: '"size" must be a text.' });
});

test('a body holds so many values and no more', () => {
  const values = (count: number) => Buffer.from(`{"a":[${Array(count).fill(0).join()}]}`);
  assert.equal((parseBody(values(jsonValues - 1)).a as unknown[]).length, jsonValues - 1);
  assert.throws(() => parseBody(values(jsonValues)), refused(/more than 50000 values/));
});

test('a large call is not parsed here: its input stays text, and an app must be a string', (t) => {
  const input = `[${Array(300_000).fill('{}').join()}]`;
  const parse = t.mock.method(JSON, 'parse');
  const call = parseCall(Buffer.from(`{"app":["x"],"input":${input},"action":"add","other":{"app":"y"}}`));
  assert.ok(parse.mock.calls.every(({ arguments: [text] }) => String(text).length < 100));
  assert.deepEqual([call.app, call.action, call.other], [null, 'add', undefined]);
  assert.equal((call.input as Buffer).toString(), input);
});
