#!/usr/bin/env node
/**
 * An agent that speaks the Agent Client Protocol in lines of JSON, scripted by the last text of each prompt (`stub-agent/steps.mjs`).
 *
 * Arguments: `--version`; `--keep DIR` keeps sessions there, so that they can be loaded; `--without
 * http,image,embedded` lacks these capabilities; `--start MS | crash | hang | signed-out` is how it starts; `--models`
 * has two models to choose from; `--levels low,high` offers these levels of thinking, which `level` then has as its
 * result.
 *
 * With `--model URL` it is an agent with a model: it asks the model server there, which gets the tools of the MCP servers and
 * `edit {"path","text"}`, for which the agent asks for permission.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { askModel, userMessage } from './stub-agent/model.mjs';
import { send, serve } from './stub-agent/rpc.mjs';
import { pause, step, toolsOfAll } from './stub-agent/steps.mjs';

const VERSION = '1.2.3';
const argument = (name) => {
  const at = process.argv.indexOf(name);
  return at === -1 ? undefined : (process.argv[at + 1] ?? '');
};
if (process.argv.includes('--version')) {
  console.log(`stub-agent ${VERSION}`);
  process.exit(0);
}
const start = argument('--start') ?? '0';
if (start === 'crash') {
  console.error('stub-agent: cannot start');
  process.exit(3);
}
const without = (argument('--without') ?? '').split(',');
const keep = argument('--keep');
const modelUrl = argument('--model');
const levels = argument('--levels');
const MODELS = [
  ...(modelUrl ? [{ modelId: 'stub-model', name: 'Model' }] : []),
  { modelId: 'stub-small', name: 'Small' },
  { modelId: 'stub-large', name: 'Large' },
];

/** Session id → its folder, MCP servers, number of prompts and the prompt under way. */
const sessions = new Map();

/** Lets the model run a prompt; resolves with the members of its answer. */
async function promptModel(session, blocks, signal) {
  const steps = { signal, text: '' };
  const { messages, model } = session;
  messages.push(userMessage(blocks));
  try {
    const usage = await askModel({
      ...{ url: modelUrl, model, messages, signal, tools: await toolsOfAll(session) },
      ...(session.level === 'usual' ? {} : { effort: session.level }),
      say: (sessionUpdate, text) =>
        send({
          method: 'session/update',
          params: { sessionId: session.id, update: { sessionUpdate, content: { type: 'text', text } } },
        }),
      call: async (name, args) => {
        if (name !== 'edit') {
          return await step(session, 'call', `${name} ${JSON.stringify(args)}`, steps).catch(({ message }) => message);
        }
        const answer = await step(session, 'ask-edit', args.path, steps);
        return answer === 'allowed' ? await step(session, 'edit', `${args.path} ${args.text}`, steps) : answer;
      },
    });
    return { result: { stopReason: 'end_turn', usage } };
  } catch (error) {
    if (error.status === 401) return { error: { code: -32000, message: 'Authentication required' } };
    return { error: { code: -32603, message: `${error.message} ${error.cause ?? ''}`.trim() } };
  } finally {
    saveSession(session);
  }
}

/** Runs the script of a prompt; resolves with the members of its answer. */
async function prompt({ sessionId, prompt: blocks }) {
  const session = sessions.get(sessionId);
  if (!session) return { error: { code: -32602, message: `There is no session ${sessionId}.` } };
  session.prompts++;
  session.streamed = '';
  saveSession(session);
  session.abort = new AbortController();
  const { signal } = session.abort;
  const cancelled = new Promise((done) => signal.addEventListener('abort', () => done(undefined), { once: true }));
  if (modelUrl) {
    const stopped = cancelled.then(() => ({ result: { stopReason: 'cancelled' } }));
    return await Promise.race([promptModel(session, blocks, signal), stopped]);
  }
  const texts = blocks.filter(({ type }) => type === 'text').map((block) => block.text);
  const text = blocks.map((block) => block.text ?? block.resource?.text ?? `[${block.type}]`).join('\n');
  const usage = () =>
    session.used === 0 ? {} : { usage: { inputTokens: session.used, outputTokens: 7, totalTokens: session.used + 7 } };
  for (const line of (texts.at(-1) ?? '').split('\n').filter((each) => each.trim() !== '')) {
    if (signal.aborted) break;
    const [verb, ...rest] = line.trim().split(' ');
    try {
      const result = await Promise.race([step(session, verb, rest.join(' '), { signal, text }), cancelled]);
      if (result?.stop) return { result: { stopReason: result.stop, ...usage() } };
      if (result?.failed) return { error: { code: -32603, message: result.failed } };
      if (typeof result === 'string') session.result = result;
    } catch (error) {
      session.result = `error: ${error.message}`;
      await step(session, 'say', '{result}', { signal, text });
    }
  }
  return { result: { stopReason: signal.aborted ? 'cancelled' : 'end_turn', ...usage() } };
}

const fileOf = (id) => join(keep, `${id.replaceAll(/[^\w-]/g, '_')}.json`);

function saveSession({ id, prompts, messages }) {
  if (keep) writeFileSync(fileOf(id), JSON.stringify({ prompts, messages }));
}

function openSession(id, { cwd, mcpServers = [] }, { prompts, messages }) {
  const session = {
    id,
    cwd,
    servers: mcpServers.map((server) => ({ ...server })),
    prompts,
    messages,
    model: MODELS[0].modelId,
    level: 'usual',
    pace: 0,
    used: 0,
    result: '',
  };
  sessions.set(id, session);
  saveSession(session);
  return {
    ...(process.argv.includes('--models')
      ? { models: { availableModels: MODELS, currentModelId: MODELS[0].modelId } }
      : {}),
    ...levelsOf(session),
  };
}

function levelsOf({ level }) {
  if (levels === undefined) return {};
  const options = ['usual', ...levels.split(',')].map((value) => ({ value, name: value }));
  const option = { type: 'select', id: 'level', name: 'Thinking', category: 'thought_level' };
  return { configOptions: [{ ...option, currentValue: level, options }] };
}

const METHODS = {
  initialize: async () => {
    if (start === 'hang') await new Promise(() => {});
    await pause(Number(start) || 0);
    return {
      result: {
        protocolVersion: 1,
        agentInfo: { name: 'stub-agent', version: VERSION },
        agentCapabilities: {
          loadSession: keep !== undefined,
          promptCapabilities: { image: !without.includes('image'), embeddedContext: !without.includes('embedded') },
          mcpCapabilities: { http: !without.includes('http'), sse: false },
        },
        authMethods: [{ id: 'key', name: 'Set STUB_KEY' }],
      },
    };
  },
  'session/new': (params) => {
    if (start === 'signed-out') return { error: { code: -32000, message: 'Authentication required' } };
    const sessionId = randomUUID();
    return { result: { sessionId, ...openSession(sessionId, params, { prompts: 0, messages: [] }) } };
  },
  'session/load': (params) => {
    try {
      const kept = JSON.parse(readFileSync(fileOf(params.sessionId), 'utf8'));
      return { result: openSession(params.sessionId, params, kept) };
    } catch {
      return { error: { code: -32002, message: `There is no session ${params.sessionId}.` } };
    }
  },
  'session/set_model': ({ sessionId, modelId }) => {
    sessions.get(sessionId).model = modelId;
    return { result: {} };
  },
  'session/set_config_option': ({ sessionId, value }) => {
    const session = sessions.get(sessionId);
    session.level = value;
    return { result: levelsOf(session) };
  },
  'session/prompt': prompt,
};

serve(METHODS, (method, params) => {
  if (method === 'session/cancel') sessions.get(params.sessionId)?.abort?.abort();
});
