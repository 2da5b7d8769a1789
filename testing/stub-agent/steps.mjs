/**
 * The steps of which a prompt is a script, one a line:
 *
 *   say WORDS              streams the words, as a new line after others; `{result}` in them is the result of the last step
 *   pace MS                waits this long before each later word; 0 at first
 *   think WORDS            streams reasoning
 *   call TOOL [JSON]       calls a tool of the MCP servers it was given; the result is its text
 *   tools                  the result is the names of all these tools
 *   servers                the result is these servers, with their addresses and headers, as JSON; `servers hex` gives that in hex
 *   ask WORDS              asks for permission to do so; the result is `allowed`, `rejected` or `cancelled`
 *   ask-edit PATH · ask-tool NAME [KIND]   the same for an edit of the file, and for a tool with this name
 *   read PATH              reads through the client's `fs`; the result is the text. Paths are relative to the session's folder
 *   write PATH WORDS       writes through the client's `fs`; `\n` in the words is a new line
 *   edit PATH WORDS        writes the file itself and reports the edit
 *   sleep SECONDS          starts `sleep` in a separate process group, and leaves it running; the result is its pid
 *   daemon SECONDS         the same, forked twice: its parent is gone
 *   wait MS                is silent
 *   usage USED [USD]       reports this many tokens and a cost
 *   env · folder · prompts the result is its environment as JSON; its folder; how many prompts its session had
 *   heard                  the result is the whole text of the prompt
 *   flood COUNT [BYTES]    writes this many pieces of text as fast as they are read
 *   clock COUNT MS         writes the time this often, at this interval: milliseconds since the epoch
 *   garbage [WORDS]        writes a line that is not JSON
 *   line MIB               writes one line of that size
 *   errors WORDS           writes them to its standard error
 *   hang                   is silent until the prompt is cancelled
 *   deaf                   is silent from now on, ignoring cancel, end of input and SIGTERM
 *   crash [CODE]           ends
 *   fail WORDS             answers the prompt with an error
 *   stop REASON            answers the prompt with this `stopReason`; `end_turn` at the end of the script
 * Any other line is said unchanged. A step that fails has `error: …` as its result and says that.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { callTool, toolsOf } from './mcp.mjs';
import { ask, beDeaf, put, send } from './rpc.mjs';

let lastCall = 0;

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function clock(update, count, everyMs, signal) {
  for (let i = 0; i < count && !signal.aborted; i++) {
    await pause(everyMs);
    const content = { type: 'text', text: `${performance.timeOrigin + performance.now()} ` };
    await update({ sessionUpdate: 'agent_message_chunk', content });
  }
}

const encoded = (text, encoding) => Buffer.from(text).toString(encoding || 'utf8');

export async function toolsOfAll({ servers }) {
  return (await Promise.all(servers.map(toolsOf))).flat();
}

/** Runs one step; returns its result, `{ stop }` to end the prompt, or nothing. */
export async function step(session, verb, rest, { signal, text }) {
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
  const toolCallId = `call-${++lastCall}`;
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
      return encoded(JSON.stringify(session.servers), rest);
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
      beDeaf();
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
