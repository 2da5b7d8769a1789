/** Asks a model server (Chat Completions) for one turn of the stub agent: again and again until it calls no more tools. */

/** A tool of the agent, for which it asks permission. */
const EDIT = {
  name: 'edit',
  description: 'Writes a file.',
  inputSchema: { type: 'object', properties: { path: { type: 'string' }, text: { type: 'string' } } },
};

/** The blocks of a prompt as a message of the user. */
export function userMessage(blocks) {
  const content = blocks.map(({ type, text, resource, data, mimeType }) => {
    if (type === 'image') return { type: 'image_url', image_url: { url: `data:${mimeType};base64,${data}` } };
    return { type: 'text', text: resource ? `<file name="${resource.uri}">${resource.text}</file>` : text };
  });
  return { role: 'user', content };
}

/**
 * Resolves with the usage, in the terms of the Agent Client Protocol; rejects with an error, which has a `status` if
 * the server answered with one. Adds the new messages to `messages`. `say(kind, text)` takes the deltas, `call(name,
 * args)` the tools.
 */
export async function askModel({ url, model, effort, messages, tools, signal, say, call }) {
  const usage = { inputTokens: 0, outputTokens: 0, cachedReadTokens: 0, totalTokens: 0 };
  const offered = [...tools, EDIT].map(({ name, description, inputSchema }) => ({
    type: 'function',
    function: { name, description, parameters: inputSchema },
  }));
  for (;;) {
    const calls = [];
    let said = '';
    for await (const chunk of chunksOf(url, { model, reasoning_effort: effort, messages, tools: offered }, signal)) {
      const { content, reasoning_content: thought, tool_calls: parts = [] } = chunk.choices[0]?.delta ?? {};
      if (thought) await say('agent_thought_chunk', thought);
      if (content) await say('agent_message_chunk', content);
      said += content ?? '';
      for (const { index, id, function: part } of parts) {
        calls[index] ??= { id, type: 'function', function: { name: part.name, arguments: '' } };
        calls[index].function.arguments += part.arguments;
      }
      count(usage, chunk.usage);
    }
    messages.push({ role: 'assistant', content: said, ...(calls.length > 0 ? { tool_calls: calls } : {}) });
    if (calls.length === 0) return usage;
    for (const { id, function: called } of calls) {
      const content = await call(called.name, JSON.parse(called.arguments));
      messages.push({ role: 'tool', tool_call_id: id, content });
    }
  }
}

async function* chunksOf(url, request, signal) {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  if (!answer.ok) {
    throw Object.assign(new Error(`The model server answered ${answer.status}.`), { status: answer.status });
  }
  let rest = '';
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    const lines = `${rest}${piece}`.split('\n');
    rest = lines.pop();
    for (const line of lines.filter((each) => each.startsWith('data:'))) {
      if (line === 'data: [DONE]') return;
      yield JSON.parse(line.slice('data:'.length));
    }
  }
  throw new Error('The model server broke off its answer.');
}

function count(usage, used) {
  usage.inputTokens += used?.prompt_tokens ?? 0;
  usage.outputTokens += used?.completion_tokens ?? 0;
  usage.cachedReadTokens += used?.prompt_tokens_details?.cached_tokens ?? 0;
  usage.totalTokens += used?.total_tokens ?? 0;
}
