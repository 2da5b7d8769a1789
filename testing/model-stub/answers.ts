/** The answers of the three protocols of model servers: one after the other as events of a stream, or all in one body. */
import { randomUUID } from 'node:crypto';
import type { ModelRequest, ModelTool } from './requests.ts';

export type Output =
  | { type: 'text'; delta: string }
  | { type: 'reasoning'; delta: string }
  | { type: 'call'; tool: ModelTool; args: unknown };

export type Usage = { input: number; output: number; cached: number };

/**
 * One answer. `start`, `add` and `end` return the text of a stream; `whole` is the body with everything that was added.
 */
export interface ModelAnswer {
  start(): string;
  add(output: Output): string;
  end(usage: Usage): string;
  whole(usage: Usage): object;
}

export function answerTo({ api, model }: ModelRequest): ModelAnswer {
  if (api === 'responses') return new ResponsesAnswer(model);
  return api === 'messages' ? new MessagesAnswer(model) : new ChatAnswer(model);
}

type Block =
  | { type: 'text'; id: string; text: string }
  | { type: 'reasoning'; id: string; text: string }
  | { type: 'call'; id: string; tool: ModelTool; args: unknown };

const newId = (kind: string): string => `${kind}_${randomUUID().replaceAll('-', '')}`;
const event = (type: string, data: object): string => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
const half = (text: string): [string, string] => [text.slice(0, text.length / 2), text.slice(text.length / 2)];

/** Groups the parts of an answer into blocks: the deltas of a text, each call. */
abstract class BlockAnswer implements ModelAnswer {
  protected readonly blocks: Block[] = [];
  protected readonly model: string;
  #isOpen = false;

  constructor(model: string) {
    this.model = model;
  }

  abstract start(): string;
  abstract end(usage: Usage): string;
  abstract whole(usage: Usage): object;
  protected abstract open(block: Block, index: number): string;
  protected abstract delta(block: Block, index: number, delta: string): string;
  protected abstract close(block: Block, index: number): string;

  add(output: Output): string {
    const last = this.blocks.at(-1);
    if (output.type !== 'call' && this.#isOpen && last?.type === output.type) {
      last.text += output.delta;
      return this.delta(last, this.blocks.length - 1, output.delta);
    }
    const before = this.closeLast();
    const block: Block =
      output.type === 'call'
        ? { ...output, id: newId('call') }
        : { type: output.type, id: newId(output.type), text: output.delta };
    const index = this.blocks.push(block) - 1;
    this.#isOpen = true;
    const deltas = block.type === 'call' ? half(argumentsOf(block)) : [block.text];
    return before + this.open(block, index) + deltas.map((delta) => this.delta(block, index, delta)).join('');
  }

  protected closeLast(): string {
    const last = this.blocks.at(-1);
    if (!last || !this.#isOpen) return '';
    this.#isOpen = false;
    return this.close(last, this.blocks.length - 1);
  }

  protected get calls(): boolean {
    return this.blocks.some(({ type }) => type === 'call');
  }
}

function argumentsOf({ tool, args }: { tool: ModelTool; args: unknown }): string {
  return tool.takes === 'text' ? String(args) : JSON.stringify(args);
}

class ResponsesAnswer extends BlockAnswer {
  readonly #id = newId('resp');
  #sequence = 0;

  start(): string {
    return this.#event('response.created', { response: this.#response('in_progress', []) });
  }

  protected open(block: Block, output_index: number): string {
    const item = this.#item(block, 'in_progress');
    const added = this.#event('response.output_item.added', { output_index, item });
    if (block.type === 'call') return added;
    return (
      added +
      (block.type === 'text'
        ? this.#event('response.content_part.added', {
            ...{ item_id: block.id, output_index, content_index: 0 },
            part: { type: 'output_text', text: '', annotations: [] },
          })
        : this.#event('response.reasoning_summary_part.added', {
            ...{ item_id: block.id, output_index, summary_index: 0 },
            part: { type: 'summary_text', text: '' },
          }))
    );
  }

  protected delta(block: Block, output_index: number, delta: string): string {
    const place = { item_id: block.id, output_index, delta };
    if (block.type === 'text') return this.#event('response.output_text.delta', { ...place, content_index: 0 });
    if (block.type === 'reasoning') {
      return this.#event('response.reasoning_summary_text.delta', { ...place, summary_index: 0 });
    }
    const kind = block.tool.takes === 'text' ? 'custom_tool_call_input' : 'function_call_arguments';
    return this.#event(`response.${kind}.delta`, place);
  }

  protected close(block: Block, output_index: number): string {
    const place = { item_id: block.id, output_index };
    const done = this.#event('response.output_item.done', { output_index, item: this.#item(block, 'completed') });
    if (block.type === 'call') {
      return block.tool.takes === 'text'
        ? this.#event('response.custom_tool_call_input.done', { ...place, input: argumentsOf(block) }) + done
        : this.#event('response.function_call_arguments.done', { ...place, arguments: argumentsOf(block) }) + done;
    }
    const { text } = block;
    return (
      (block.type === 'text'
        ? this.#event('response.output_text.done', { ...place, content_index: 0, text }) +
          this.#event('response.content_part.done', {
            ...{ ...place, content_index: 0 },
            part: { type: 'output_text', text, annotations: [] },
          })
        : this.#event('response.reasoning_summary_text.done', { ...place, summary_index: 0, text }) +
          this.#event('response.reasoning_summary_part.done', {
            ...{ ...place, summary_index: 0 },
            part: { type: 'summary_text', text },
          })) + done
    );
  }

  end(usage: Usage): string {
    return this.closeLast() + this.#event('response.completed', { response: this.whole(usage) });
  }

  whole({ input, output, cached }: Usage): object {
    return {
      ...this.#response(
        'completed',
        this.blocks.map((block) => this.#item(block, 'completed')),
      ),
      usage: {
        input_tokens: input,
        input_tokens_details: { cached_tokens: cached },
        output_tokens: output,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: input + output,
      },
    };
  }

  #event(type: string, data: object): string {
    return event(type, { sequence_number: this.#sequence++, ...data });
  }

  #response(status: string, output: object[]): object {
    return { id: this.#id, object: 'response', created_at: 0, status, model: this.model, output, error: null };
  }

  #item(block: Block, status: 'in_progress' | 'completed'): object {
    const isDone = status === 'completed';
    if (block.type === 'reasoning') {
      return { type: 'reasoning', id: block.id, summary: isDone ? [{ type: 'summary_text', text: block.text }] : [] };
    }
    if (block.type === 'text') {
      const content = isDone ? [{ type: 'output_text', text: block.text, annotations: [] }] : [];
      return { type: 'message', id: block.id, status, role: 'assistant', content };
    }
    const { name, namespace, takes } = block.tool;
    const call = { id: `item_${block.id}`, call_id: block.id, status, name, ...(namespace ? { namespace } : {}) };
    const said = isDone ? argumentsOf(block) : '';
    return takes === 'text'
      ? { type: 'custom_tool_call', ...call, input: said }
      : { type: 'function_call', ...call, arguments: said };
  }
}

class MessagesAnswer extends BlockAnswer {
  readonly #id = newId('msg');

  start(): string {
    return event('message_start', { message: this.#message([], null, { input: 0, output: 1, cached: 0 }) });
  }

  protected open(block: Block, index: number): string {
    return event('content_block_start', { index, content_block: this.#block(block, false) });
  }

  protected delta(block: Block, index: number, delta: string): string {
    if (block.type === 'text')
      return event('content_block_delta', { index, delta: { type: 'text_delta', text: delta } });
    if (block.type === 'reasoning') {
      return event('content_block_delta', { index, delta: { type: 'thinking_delta', thinking: delta } });
    }
    return event('content_block_delta', { index, delta: { type: 'input_json_delta', partial_json: delta } });
  }

  protected close(block: Block, index: number): string {
    const signature = event('content_block_delta', { index, delta: { type: 'signature_delta', signature: 'stub' } });
    return (block.type === 'reasoning' ? signature : '') + event('content_block_stop', { index });
  }

  end(usage: Usage): string {
    const delta = { stop_reason: this.calls ? 'tool_use' : 'end_turn', stop_sequence: null };
    return (
      this.closeLast() + event('message_delta', { delta, usage: messagesUsage(usage) }) + event('message_stop', {})
    );
  }

  whole(usage: Usage): object {
    const blocks = this.blocks.map((block) => this.#block(block, true));
    return this.#message(blocks, this.calls ? 'tool_use' : 'end_turn', usage);
  }

  #message(content: object[], stop_reason: string | null, usage: Usage): object {
    return {
      id: this.#id,
      type: 'message',
      role: 'assistant',
      model: this.model,
      content,
      stop_reason,
      stop_sequence: null,
      usage: messagesUsage(usage),
    };
  }

  #block(block: Block, isDone: boolean): object {
    if (block.type === 'text') return { type: 'text', text: isDone ? block.text : '' };
    if (block.type === 'reasoning') {
      return { type: 'thinking', thinking: isDone ? block.text : '', signature: isDone ? 'stub' : '' };
    }
    return { type: 'tool_use', id: block.id, name: block.tool.name, input: isDone ? block.args : {} };
  }
}

function messagesUsage({ input, output, cached }: Usage): object {
  return {
    input_tokens: input - cached,
    cache_read_input_tokens: cached,
    cache_creation_input_tokens: 0,
    output_tokens: output,
  };
}

class ChatAnswer implements ModelAnswer {
  readonly #id = newId('chatcmpl');
  readonly #model: string;
  readonly #calls: object[] = [];
  #text = '';
  #reasoning = '';

  constructor(model: string) {
    this.#model = model;
  }

  start(): string {
    return this.#chunk({ role: 'assistant', content: '' });
  }

  add(output: Output): string {
    if (output.type === 'text') {
      this.#text += output.delta;
      return this.#chunk({ content: output.delta });
    }
    if (output.type === 'reasoning') {
      this.#reasoning += output.delta;
      return this.#chunk({ reasoning_content: output.delta });
    }
    const said = argumentsOf(output);
    const id = newId('call');
    const index = this.#calls.push({ id, type: 'function', function: { name: output.tool.name, arguments: said } }) - 1;
    const [first, second] = half(said);
    return (
      this.#chunk({
        tool_calls: [{ index, id, type: 'function', function: { name: output.tool.name, arguments: first } }],
      }) + this.#chunk({ tool_calls: [{ index, function: { arguments: second } }] })
    );
  }

  end(usage: Usage): string {
    return `${this.#chunk({}, this.#reason)}${this.#data({ choices: [], usage: chatUsage(usage) })}data: [DONE]\n\n`;
  }

  whole(usage: Usage): object {
    const message = {
      role: 'assistant',
      content: this.#text,
      ...(this.#reasoning ? { reasoning_content: this.#reasoning } : {}),
      ...(this.#calls.length > 0 ? { tool_calls: this.#calls } : {}),
    };
    return {
      ...{ id: this.#id, object: 'chat.completion', created: 0, model: this.#model },
      choices: [{ index: 0, message, finish_reason: this.#reason }],
      usage: chatUsage(usage),
    };
  }

  get #reason(): string {
    return this.#calls.length > 0 ? 'tool_calls' : 'stop';
  }

  #chunk(delta: object, finish_reason: string | null = null): string {
    return this.#data({ choices: [{ index: 0, delta, finish_reason }] });
  }

  #data(data: object): string {
    const head = { id: this.#id, object: 'chat.completion.chunk', created: 0, model: this.#model };
    return `data: ${JSON.stringify({ ...head, ...data })}\n\n`;
  }
}

function chatUsage({ input, output, cached }: Usage): object {
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached },
  };
}
