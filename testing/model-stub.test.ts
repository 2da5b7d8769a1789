import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { root } from './gateway.ts';
import { type ModelStub, startModelStub } from './model-stub.ts';
import { inTime } from './waiting.ts';

// biome-ignore lint/suspicious/noExplicitAny: answers of three protocols
type Json = any;
type Part = { text: string } | { call: string; args: string } | { think: string };

/** The requests of each protocol, and the common content of their answers. */
const PROTOCOLS = {
  responses: {
    path: '/v1/responses',
    ask: (texts: string[], stream: boolean, results: string[] = []): Json => ({
      model: 'stub-model',
      stream,
      instructions: 'Be brief.',
      tools: [
        { type: 'namespace', name: 'mcp__svc', tools: [{ type: 'function', name: 'add', parameters: {} }] },
        { type: 'custom', name: 'apply_patch', format: { type: 'grammar' } },
        { type: 'web_search' },
      ],
      input: [
        ...texts.map((text) => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })),
        ...results.flatMap((output, n) => [
          { type: 'function_call', call_id: `c${n}`, name: 'add', arguments: '{}' },
          { type: 'function_call_output', call_id: `c${n}`, output },
        ]),
      ],
    }),
    parts: (body: Json): Part[] =>
      body.output.map((item: Json) => {
        if (item.type === 'message') return { text: item.content[0].text };
        if (item.type === 'reasoning') return { think: item.summary[0].text };
        return { call: item.name, args: item.arguments ?? item.input };
      }),
    usage: ({ usage }: Json) => [usage.input_tokens, usage.output_tokens, usage.input_tokens_details.cached_tokens],
    deltas: (events: Json[]) =>
      events.flatMap(({ type, delta }) => (/^response\..*(text|arguments|input)\.delta$/.test(type) ? [delta] : [])),
    end: (events: Json[]) => events.at(-1).type,
    ends: 'response.completed',
  },
  messages: {
    path: '/v1/messages?beta=true',
    ask: (texts: string[], stream: boolean, results: string[] = []): Json => ({
      model: 'stub-model',
      stream,
      system: [{ type: 'text', text: 'Be brief.' }],
      tools: [{ name: 'mcp__svc__add', input_schema: {} }, { name: 'apply_patch' }],
      messages: [
        { role: 'user', content: texts.map((text) => ({ type: 'text', text })) },
        ...results.flatMap((content, n) => [
          { role: 'assistant', content: [{ type: 'tool_use', id: `c${n}`, name: 'add', input: {} }] },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: `c${n}`, content: [{ type: 'text', text: content }] },
              { type: 'text', text: '<system-reminder>say: no</system-reminder>' },
            ],
          },
        ]),
      ],
    }),
    parts: (body: Json): Part[] =>
      body.content.map((block: Json) => {
        if (block.type === 'text') return { text: block.text };
        return block.type === 'thinking'
          ? { think: block.thinking }
          : { call: block.name, args: JSON.stringify(block.input) };
      }),
    usage: ({ usage }: Json) => [
      usage.input_tokens + usage.cache_read_input_tokens,
      usage.output_tokens,
      usage.cache_read_input_tokens,
    ],
    deltas: (events: Json[]) =>
      events.flatMap(({ delta }) => delta?.text ?? delta?.thinking ?? delta?.partial_json ?? []),
    end: (events: Json[]) => events.at(-1).type,
    ends: 'message_stop',
  },
  chat: {
    path: '/v1/chat/completions',
    ask: (texts: string[], stream: boolean, results: string[] = []): Json => ({
      model: 'stub-model',
      stream,
      tools: ['add', 'apply_patch'].map((name) => ({ type: 'function', function: { name } })),
      messages: [
        { role: 'system', content: 'Be brief.' },
        ...texts.map((content) => ({ role: 'user', content })),
        ...results.flatMap((content, n) => [
          { role: 'assistant', tool_calls: [{ id: `c${n}`, type: 'function', function: { name: 'add' } }] },
          { role: 'tool', tool_call_id: `c${n}`, content },
        ]),
      ],
    }),
    parts: ({ choices: [{ message }] }: Json): Part[] => [
      ...(message.reasoning_content ? [{ think: message.reasoning_content }] : []),
      ...(message.content ? [{ text: message.content }] : []),
      ...(message.tool_calls ?? []).map((call: Json) => ({ call: call.function.name, args: call.function.arguments })),
    ],
    usage: ({ usage }: Json) => [
      usage.prompt_tokens,
      usage.completion_tokens,
      usage.prompt_tokens_details.cached_tokens,
    ],
    deltas: (events: Json[]) =>
      events.flatMap(({ choices }) => {
        const { content, reasoning_content, tool_calls } = choices?.[0]?.delta ?? {};
        return [content, reasoning_content, tool_calls?.[0].function.arguments].filter(Boolean);
      }),
    end: (events: Json[]) => events.at(-1),
    ends: '[DONE]',
  },
};

async function start(t: { after(cleanup: () => Promise<void>): void }, key?: string): Promise<ModelStub> {
  const stub = await startModelStub(key ? { key } : {});
  t.after(() => stub.close());
  return stub;
}

async function post(stub: ModelStub, path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return fetch(stub.url + path, { method: 'POST', body: JSON.stringify(body), headers, ...(signal ? { signal } : {}) });
}

function eventsOf(text: string): Json[] {
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) =>
    data === '[DONE]' ? data : JSON.parse(data as string),
  );
}

for (const [name, protocol] of Object.entries(PROTOCOLS)) {
  const { path, ask, parts, usage, deltas } = protocol;

  test(`${name}: text, reasoning and usage, in deltas and whole`, async (t) => {
    const stub = await start(t);
    const script = 'think: let me see\nsay: one two\\nthree\nusage: 100 20 5';
    const body = await (await post(stub, path, ask([script], false))).json();
    assert.deepEqual(parts(body), [{ think: 'let me see' }, { text: 'one two\nthree' }]);
    assert.deepEqual(usage(body), [100, 20, 5]);
    const events = eventsOf(await (await post(stub, path, ask([script], true))).text());
    assert.deepEqual(deltas(events), ['let', ' me', ' see', 'one', ' two', '\nthree']);
    assert.equal(protocol.end(events), protocol.ends);
  });

  test(`${name}: calls in one answer, then in the next, then a report`, async (t) => {
    const stub = await start(t);
    const add = name === 'messages' ? 'mcp__svc__add' : 'add';
    const script = 'say: first\ncall: add {"n":1}\ncall: add {"n":2}\nthen\ncall: add {"n":3}';
    const answers = [[], ['one', 'two'], ['one', 'two', 'three']].map(async (results) =>
      parts(await (await post(stub, path, ask(['say: old', script], false, results))).json()),
    );
    assert.deepEqual(await Promise.all(answers), [
      [{ text: 'first' }, { call: add, args: '{"n":1}' }, { call: add, args: '{"n":2}' }],
      [{ call: add, args: '{"n":3}' }],
      [{ text: 'add: three' }],
    ]);
    const events = eventsOf(await (await post(stub, path, ask([script], true))).text());
    assert.deepEqual(deltas(events), ['first', '{"n', '":1}', '{"n', '":2}']);
  });

  test(`${name}: its requests are recorded`, async (t) => {
    const stub = await start(t);
    await post(stub, path, ask(['hello', '<context>say: no</context>'], false));
    const [request] = stub.requests;
    assert.equal(request?.text, 'hello');
    assert.equal(request?.system, 'Be brief.');
    assert.equal(request?.model, 'stub-model');
    assert.ok(request?.tools.some((tool) => tool.name.endsWith('add')));
    const kept = (await (await fetch(`${stub.url}/requests`)).json()) as Json[];
    assert.deepEqual(kept[0].body, request?.body);
  });

  test(`${name}: it fails as scripted`, async (t) => {
    const stub = await start(t);
    const twice = ask(['status: 429 2\nsay: at last'], false);
    const answers = [await post(stub, path, twice), await post(stub, path, twice), await post(stub, path, twice)];
    assert.deepEqual(
      answers.map(({ status }) => status),
      [429, 429, 200],
    );
    assert.match(((await (await post(stub, path, ask(['status: 401'], true))).json()) as Json).error.message, /401/);
    await assert.rejects((await post(stub, path, ask(['say: half\ncut'], true))).text());
    assert.match(await (await post(stub, path, ask(['garbage'], true))).text(), /not JSON/);

    const abort = new AbortController();
    const hanging = post(stub, path, ask(['hang'], true), abort.signal);
    await inTime(stub.reached('hang'), 'the hanging');
    abort.abort();
    await assert.rejects(hanging);
  });

  test(`${name}: the test decides when it continues`, async (t) => {
    const stub = await start(t);
    const answer = post(stub, path, ask(['say: one\nwait: here\nsay: two'], false));
    await inTime(stub.reached('here'), 'the waiting');
    stub.release('here');
    assert.deepEqual(parts(await (await answer).json()), [{ text: 'one two' }]);
  });
}

test('a tool that takes text gets text', async (t) => {
  const stub = await start(t);
  const { path, ask, parts } = PROTOCOLS.responses;
  const body = await (await post(stub, path, ask(['call: apply_patch "a\\nb"'], false))).json();
  assert.deepEqual(parts(body), [{ call: 'apply_patch', args: 'a\nb' }]);
});

test('models, a key, and an unknown address', async (t) => {
  const stub = await start(t, 'secret');
  assert.equal((await fetch(`${stub.url}/v1/models`)).status, 401);
  const models = await fetch(`${stub.url}/v1/models`, { headers: { authorization: 'Bearer secret' } });
  assert.equal(((await models.json()) as Json).data[0].id, 'stub-model');
  const other = await fetch(`${stub.url}/v1/nothing`, {
    method: 'POST',
    body: '{}',
    headers: { 'x-api-key': 'secret' },
  });
  assert.equal(other.status, 404);
});

test('as a program it prints its address', async (t) => {
  const program = spawn(process.execPath, ['--import', 'tsx', 'testing/model-stub.ts', '--port', '0'], { cwd: root });
  t.after(() => program.kill());
  const [line] = await inTime(once(program.stdout, 'data'), 'its address');
  const { path, ask, parts } = PROTOCOLS.chat;
  const answer = await fetch(String(line).trim() + path, { method: 'POST', body: JSON.stringify(ask(['hi'], false)) });
  assert.deepEqual(parts(await answer.json()), [{ text: 'You said: hi' }]);
});
