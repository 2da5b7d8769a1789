/** Parses the requests of the three protocols of model servers into one form. */
import type { IncomingHttpHeaders } from 'node:http';

export type ModelTool = {
  name: string;
  namespace?: string;
  takes: 'json' | 'text';
  description: string;
  schema?: unknown;
};

/** One request to a stub model. `body` is the whole request; the other members are the same for every protocol. */
export type ModelRequest = {
  api: 'responses' | 'messages' | 'chat';
  path: string;
  headers: IncomingHttpHeaders;
  body: Json;
  model: string;
  isStreamed: boolean;
  /** All system and developer texts. */
  system: string;
  tools: ModelTool[];
  /** All texts of all messages of the user, in order. */
  said: string[];
  /** The last of them that the user wrote: programs add texts in `<tags>`, and for images. */
  text: string;
  /** The images in the conversation: data addresses. */
  images: string[];
  /** The results of tools since `text`. */
  results: { tool: string; text: string }[];
};

// biome-ignore lint/suspicious/noExplicitAny: requests of three protocols, which tests look into
export type Json = any;

type Message = { role: string; texts: string[]; images: string[]; results: { id: string; text: string }[] };

export function readRequest(path: string, headers: IncomingHttpHeaders, body: Json): ModelRequest | null {
  const read = Object.entries(READERS).find(([ending]) => path.endsWith(ending))?.[1];
  if (!read) return null;
  const { api, system, tools, messages, callNames } = read(body);
  const isOwn = (text: string): boolean => text.trim() !== '' && !/^\s*(?:<|\[Image: source: )/.test(text);
  const last = messages.findLastIndex(({ role, texts }) => role === 'user' && texts.some(isOwn));
  const users = messages.filter(({ role }) => role === 'user');
  return {
    api,
    path,
    headers,
    body,
    model: String(body.model),
    isStreamed: body.stream === true,
    system,
    tools,
    said: users.flatMap(({ texts }) => texts),
    text: messages[last]?.texts.findLast(isOwn)?.trim() ?? '',
    images: messages.flatMap(({ images }) => images),
    results: messages
      .slice(last + 1)
      .flatMap(({ results }) => results.map(({ id, text }) => ({ tool: callNames.get(id) ?? '', text }))),
  };
}

type Read = {
  api: ModelRequest['api'];
  system: string;
  tools: ModelTool[];
  messages: Message[];
  callNames: Map<string, string>;
};

const READERS: Record<string, (body: Json) => Read> = {
  '/responses': (body) => {
    const input: Json[] = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : (body.input ?? []);
    const isSystem = ({ role }: Json): boolean => role === 'developer' || role === 'system';
    return {
      api: 'responses',
      system: [body.instructions ?? '', ...input.filter(isSystem).flatMap(({ content }) => textsOf(content))].join(
        '\n',
      ),
      tools: (body.tools ?? []).flatMap((tool: Json) =>
        tool.type === 'namespace'
          ? tool.tools.map((each: Json) => ({ ...functionOf(each), namespace: tool.name }))
          : tool.name
            ? [functionOf(tool)]
            : [],
      ),
      messages: input.map((item) => ({
        role: item.role ?? '',
        texts: textsOf(item.content),
        images: imagesOf(item.content),
        results: /_call_output$/.test(item.type) ? [{ id: item.call_id, text: textsOf(item.output).join('\n') }] : [],
      })),
      callNames: new Map(input.flatMap((item) => (/_call$/.test(item.type) ? [[item.call_id, item.name]] : []))),
    };
  },

  '/messages': (body) => {
    const blocks: Json[] = body.messages.flatMap(({ content }: Json) => (Array.isArray(content) ? content : []));
    return {
      api: 'messages',
      system: textsOf(body.system).join('\n'),
      tools: (body.tools ?? []).map((tool: Json) => functionOf({ ...tool, parameters: tool.input_schema })),
      messages: body.messages.map(({ role, content }: Json) => ({
        role,
        texts: textsOf(content),
        images: imagesOf(content),
        results: (Array.isArray(content) ? content : [])
          .filter(({ type }) => type === 'tool_result')
          .map((block) => ({ id: block.tool_use_id, text: textsOf(block.content).join('\n') })),
      })),
      callNames: new Map(blocks.filter(({ type }) => type === 'tool_use').map(({ id, name }) => [id, name])),
    };
  },

  '/chat/completions': (body) => ({
    api: 'chat',
    system: body.messages
      .filter(({ role }: Json) => role === 'system' || role === 'developer')
      .flatMap(({ content }: Json) => textsOf(content))
      .join('\n'),
    tools: (body.tools ?? []).map((tool: Json) => functionOf(tool.function)),
    messages: body.messages.map((message: Json) => ({
      role: message.role,
      texts: textsOf(message.content),
      images: imagesOf(message.content),
      results: message.role === 'tool' ? [{ id: message.tool_call_id, text: textsOf(message.content).join('\n') }] : [],
    })),
    callNames: new Map(
      body.messages.flatMap(({ tool_calls = [] }: Json) =>
        tool_calls.map((call: Json) => [call.id, call.function.name]),
      ),
    ),
  }),
};

function functionOf(tool: Json): ModelTool {
  return {
    name: tool.name,
    takes: tool.type === 'custom' && tool.format ? 'text' : 'json',
    description: tool.description ?? '',
    schema: tool.parameters,
  };
}

/** The text of a string, or of a list of parts in any of the protocols. */
function textsOf(content: Json): string[] {
  if (typeof content === 'string') return [content];
  if (!Array.isArray(content)) return [];
  return content.flatMap((part) => (typeof part.text === 'string' ? [part.text] : []));
}

function imagesOf(content: Json): string[] {
  if (!Array.isArray(content)) return [];
  return content.flatMap((part: Json) => {
    if (part.type === 'input_image') return [part.image_url];
    if (part.type === 'image_url') return [part.image_url.url];
    if (part.type === 'image') return [`data:${part.source.media_type};base64,${part.source.data}`];
    return [];
  });
}
