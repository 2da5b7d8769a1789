#!/usr/bin/env node
/**
 * An agent that speaks the Agent Client Protocol in lines of JSON, scripted by the last text of each prompt: one step a line.
 *
 *   say WORDS              streams the words, as a new line after others; `{result}` in them is what the last step gave
 *   pace MS                waits so long before each later word; 0 at first
 *   think WORDS            streams reasoning
 *   call TOOL [JSON]       calls a tool of the MCP servers it was given; the result is its text
 *   tools                  the result is the names of all these tools
 *   servers                the result is these servers, with their addresses and headers, as JSON
 *   ask WORDS              asks for permission to do so; the result is `allowed`, `rejected` or `cancelled`
 *   ask-edit PATH · ask-tool NAME [KIND]   the same for an edit of the file, and for a tool that is called so
 *   read PATH              reads through the client's `fs`; the result is the text. Paths are relative to the session's folder
 *   write PATH WORDS       writes through the client's `fs`; `\n` in the words is a new line
 *   edit PATH WORDS        writes the file itself and reports the edit
 *   sleep SECONDS          starts `sleep` in a process group of its own, and leaves it; the result is its pid
 *   daemon SECONDS         the same, forked twice: its parent is gone
 *   wait MS                is silent
 *   usage USED [USD]       reports so many tokens and a cost
 *   env · folder · prompts the result is its environment as JSON; its folder; how many prompts its session had
 *   heard                  the result is the whole text of the prompt
 *   flood COUNT [BYTES]    writes so many pieces of text as fast as they are taken
 *   clock COUNT MS         writes the time so often, so far apart: milliseconds since the epoch
 *   garbage [WORDS]        writes a line that is no JSON
 *   line MIB               writes one line of that size
 *   errors WORDS           writes them to its standard error
 *   hang                   is silent until the prompt is cancelled
 *   deaf                   is silent from now on, ignoring cancel, end of input and SIGTERM
 *   crash [CODE]           ends
 *   fail WORDS             answers the prompt with an error
 *   stop REASON            answers the prompt with this `stopReason`; `end_turn` at the end of the script
 *
 * Any other line is said as it is. A step that fails has `error: …` as its result and says that.
 *
 * Arguments: `--version`; `--keep DIR` keeps sessions there, so that they can be loaded; `--without http,image,embedded` lacks these
 * capabilities; `--start MS | crash | hang | signed-out` is how it starts; `--models` has two models to choose from; `--levels low,high`
 * lets these levels of thinking be chosen, which `level` then has as its result.
 *
 * With `--model URL` it is an agent with a model: it asks the model server there, which gets the tools of the MCP servers and
 * `edit {"path","text"}`, for which the agent asks for permission.
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { callTool, toolsOf } from './stub-agent/mcp.mjs';
import { askModel, userMessage } from './stub-agent/model.mjs';

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
/** Our requests to the client that it has not answered. */
const asked = new Map();
let lastId = 0;
let isDeaf = false;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Resolves when the pipe has room. */
function put(text) {
  return new Promise((done) => {
    if (process.stdout.write(`${text}\n`)) done();
    else process.stdout.once('drain', done);
  });
}
const send = (message) => put(JSON.stringify({ jsonrpc: '2.0', ...message }));

function ask(method, params) {
  const id = ++lastId;
  return new Promise((done, failed) => {
    asked.set(id, { done, failed });
    void send({ id, method, params });
  });
}

async function clock(update, count, everyMs, signal) {
  for (let i = 0; i < count && !signal.aborted; i++) {
    await pause(everyMs);
    const content = { type: 'text', text: `${performance.timeOrigin + performance.now()} ` };
    await update({ sessionUpdate: 'agent_message_chunk', content });
  }
}

async function toolsOfAll({ servers }) {
  return (await Promise.all(servers.map(toolsOf))).flat();
}

/** Does one step; returns its result, `{ stop }` to end the prompt, or nothing. */
async function step(session, verb, rest, { signal, text }) {
  const update = (members) => send({ method: 'session/update', params: { sessionId: session.id, update: members } });
  const stream = async (kind, words) => {
    if (session.streamed === kind) words = `\n${words}`;
    session.streamed = kind;
    for (const word of words.match(/\s*\S+\s*?/g) ?? []) {
      if (session.pace > 0) await pause(session.pace);
      if (signal.aborted) return;
      await update({ sessionUpdate: kind, content: { type: 'text', text: word } });
    }
  };
  const [first, ...others] = rest.split(' ');
  const tail = others.join(' ');
  const path = resolve(session.cwd, first);
  const toolCallId = `call-${++lastId}`;
  switch (verb) {
    case 'say':
      return await stream(
        'agent_message_chunk',
        rest.replaceAll('{result}', () => session.result),
      );
    case 'think':
      return await stream('agent_thought_chunk', rest);
    case 'pace':
      session.pace = Number(rest);
      return;
    case 'wait':
      return await pause(Number(rest));
    case 'tools':
      return (await toolsOfAll(session)).map(({ name }) => name).join(' ');
    case 'servers':
      return JSON.stringify(session.servers);
    case 'call': {
      const rawInput = tail ? JSON.parse(tail) : {};
      const call = { toolCallId, title: first, kind: 'other', status: 'in_progress', rawInput };
      await update({ sessionUpdate: 'tool_call', ...call });
      const ended = (status, result) =>
        update({
          sessionUpdate: 'tool_call_update',
          toolCallId,
          status,
          content: [{ type: 'content', content: { type: 'text', text: result } }],
        });
      try {
        const { content = [], isError } = await callTool(session.servers, first, rawInput);
        const result = content.map((part) => part.text ?? '').join('\n');
        await ended(isError ? 'failed' : 'completed', result);
        return result;
      } catch (error) {
        await ended('failed', error.message);
        throw error;
      }
    }
    case 'ask':
    case 'ask-edit':
    case 'ask-tool': {
      const what = {
        ask: { title: rest, kind: 'execute', rawInput: { command: rest } },
        'ask-edit': { title: `Edit ${first}`, kind: 'edit', locations: [{ path }] },
        'ask-tool': { title: first, kind: others[0] ?? 'other' },
      }[verb];
      const toolCall = { toolCallId, status: 'pending', ...what };
      const options = [
        { optionId: 'yes-7', name: 'Yes', kind: 'allow_once' },
        { optionId: 'no-7', name: 'No', kind: 'reject_once' },
      ];
      const { outcome } = await ask('session/request_permission', { sessionId: session.id, toolCall, options });
      if (outcome.outcome !== 'selected') return 'cancelled';
      return outcome.optionId === 'yes-7' ? 'allowed' : 'rejected';
    }
    case 'read':
      return (await ask('fs/read_text_file', { sessionId: session.id, path })).content;
    case 'write':
      await ask('fs/write_text_file', { sessionId: session.id, path, content: tail.replaceAll('\\n', '\n') });
      return 'written';
    case 'edit': {
      const call = { toolCallId, title: `Edit ${first}`, kind: 'edit', locations: [{ path }], rawInput: { path } };
      await update({ sessionUpdate: 'tool_call', status: 'in_progress', ...call });
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, tail.replaceAll('\\n', '\n'));
      await update({ sessionUpdate: 'tool_call_update', toolCallId, status: 'completed' });
      return 'edited';
    }
    case 'sleep': {
      const child = spawn('sleep', [rest], { detached: true, stdio: 'ignore' });
      child.unref();
      return String(child.pid);
    }
    case 'daemon': {
      const shell = spawn('sh', ['-c', `setsid sleep ${Number(rest)} >/dev/null 2>&1 & echo $!`], { detached: true });
      const [pid] = await shell.stdout.take(1).toArray();
      return String(pid).trim();
    }
    case 'usage':
      session.used = Number(first);
      return await update({
        sessionUpdate: 'usage_update',
        used: session.used,
        size: 200_000,
        ...(tail ? { cost: { amount: Number(tail), currency: 'USD' } } : {}),
      });
    case 'env':
      return JSON.stringify(process.env);
    case 'level':
      return session.level;
    case 'folder':
      return session.cwd;
    case 'prompts':
      return String(session.prompts);
    case 'heard':
      return text;
    case 'flood': {
      const content = { type: 'text', text: 'x'.repeat(Number(tail || 64)) };
      for (let i = 0; i < Number(first) && !signal.aborted; i++)
        await update({ sessionUpdate: 'agent_message_chunk', content });
      return;
    }
    case 'clock':
      return await clock(update, Number(first), Number(tail), signal);
    case 'garbage':
      return await put(rest || '{"jsonrpc": "2.0", oops');
    case 'line':
      return await put(`"${'x'.repeat(Number(rest) * 2 ** 20)}"`);
    case 'errors':
      console.error(rest);
      return;
    case 'hang':
      return await new Promise(() => {});
    case 'deaf':
      isDeaf = true;
      process.on('SIGTERM', () => {});
      setInterval(() => {}, 1 << 30);
      return await new Promise(() => {});
    case 'crash':
      return process.exit(Number(rest || 9));
    case 'fail':
      return { failed: rest };
    case 'stop':
      return { stop: rest };
    default:
      return await stream('agent_message_chunk', `${verb} ${rest}`.trim());
  }
}

/** Has the model do a prompt; resolves with the members of its answer. */
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

/** Does the script of a prompt; resolves with the members of its answer. */
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

createInterface({ input: process.stdin }).on('line', async (line) => {
  if (isDeaf) return;
  const { id, method, params, result, error } = JSON.parse(line);
  if (method === undefined) {
    const waiting = asked.get(id);
    asked.delete(id);
    if (error) waiting?.failed(new Error(error.message));
    else waiting?.done(result);
  } else if (method === 'session/cancel') {
    sessions.get(params.sessionId)?.abort?.abort();
  } else if (id !== undefined) {
    const answer = METHODS[method]
      ? await METHODS[method](params)
      : { error: { code: -32601, message: `There is no method ${method}.` } };
    void send({ id, ...answer });
  }
});
process.stdin.on('end', () => {
  if (!isDeaf) process.exit(0);
});
