// Agents that speak the Agent Client Protocol: the scripted agent, run by the runner as the process of agents runs it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { RunnerSpec } from '../../../protocol/agents/agents.ts';
import { isRunning } from '../../../testing/processes.ts';
import { runnerCases } from '../../../testing/runner-cases.ts';
import { eventsOf, finalOf, makePlace, RunnerTurns, type TurnWish, textOf } from '../../../testing/runner-turns.ts';
import { acpRunner } from './acp.ts';

const STUB = fileURLToPath(new URL('../../../testing/stub-agent.mjs', import.meta.url));
const TOOLS = fileURLToPath(new URL('../../../testing/mcp-http.mjs', import.meta.url));

const gateway = { url: '', token: 'secret-of-the-turn' };
let server: ReturnType<typeof spawn>;

before(async () => {
  server = spawn(process.execPath, [TOOLS], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [port] = (await once(server.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
  gateway.url = `http://127.0.0.1:${String(port).trim()}/mcp`;
});
after(() => server.kill());

const spec = (...args: string[]): Partial<RunnerSpec> => ({ command: [process.execPath, STUB, ...args] });

runnerCases({
  name: 'acp',
  runner: acpRunner,
  skip: false,
  spec: ({ stub, folder }) => ({
    ...{ name: 'stub', kind: 'acp', env: { PATH: process.env.PATH ?? '' } },
    ...spec('--model', stub.url, '--models', '--levels', 'low,high', '--keep', folder),
  }),
  hasProgram: true,
  hasSystem: false,
  reasons: true,
  effortOf: ({ reasoning_effort: effort }) => effort,
  asks: (path) => `call: edit ${JSON.stringify({ path, text: 'hello' })}`,
});

let conversations = 0;
/** A conversation of its own, so that a turn has a new program, with these arguments. */
function anew(...args: string[]): TurnWish {
  return { conversation: `svc-chat:todos:w${++conversations}`, spec: spec(...args), instructions: '' };
}

function acpTest(title: string, body: (turns: RunnerTurns, folder: string) => Promise<void>): void {
  test(title, async (t) => {
    const place = await makePlace(t);
    const runner: RunnerSpec = { name: 'stub', kind: 'acp', env: { PATH: process.env.PATH ?? '' }, ...spec() };
    const turns = new RunnerTurns(place, acpRunner, runner, gateway);
    try {
      await body(turns, place.folder);
    } finally {
      await turns.end();
    }
  });
}

/** The types of the events in their order, each once where several of one follow each other. */
function shapeOf(events: { type: string }[]): string {
  return events
    .map(({ type }) => type)
    .filter((type, at, all) => type !== all[at - 1])
    .join(' ');
}

acpTest('words, thoughts and tools come in the order in which they happen', async (turns) => {
  const events = await turns.run(
    'think let me see\nsay one two\ncall echo {"n":1}\nsay {result}\nusage 500 0.25',
    anew(),
  );
  assert.equal(
    shapeOf(events),
    'session reasoning.delta assistant.delta tool.start tool.result assistant.delta usage final',
  );
  assert.deepEqual(
    eventsOf(events, 'tool.start').map(({ toolName, args }) => ({ toolName, args })),
    [{ toolName: 'echo', args: { n: 1 } }],
  );
  assert.deepEqual(
    eventsOf(events, 'tool.result').map(({ ok, result }) => ({ ok, result })),
    [{ ok: true, result: '{"n":1}' }],
  );
  assert.equal(textOf(events), 'one two\n{"n":1}');
  assert.equal(eventsOf(events, 'final')[0]?.text.trim(), '{"n":1}');
  const [usage] = eventsOf(events, 'usage');
  assert.deepEqual(usage, { type: 'usage', inputTokens: 500, outputTokens: 7, costUsd: 0.25 });
  const seen = (await (await fetch(gateway.url.replace('/mcp', '/seen'))).json()) as { authorization: string }[];
  assert.ok(seen.every(({ authorization }) => authorization === 'Bearer secret-of-the-turn'));
});

acpTest('a tool that fails says why, and the turn goes on', async (turns) => {
  const events = await turns.run('call refuse\ncall nowhere\nsay done', anew());
  const results = eventsOf(events, 'tool.result');
  assert.deepEqual(
    results.map(({ ok, errorText }) => ({ ok, errorText })),
    [
      { ok: false, errorText: 'there is no such city' },
      { ok: false, errorText: 'there is no tool nowhere' },
    ],
  );
  assert.match(textOf(events), /done$/);
});

acpTest('the program serves the next turn too, and hears instructions and history once', async (turns) => {
  const same = anew();
  const first = 'heard\nsay {result}';
  const told = await turns.run(first, {
    ...same,
    instructions: 'You are in a test.',
    history: [{ role: 'user', text: 'my name is Ada' }],
  });
  assert.match(textOf(told), /You are in a test\.[\s\S]*my name is Ada/);
  const again = await turns.run('heard\nsay {result}\nprompts\nsay {result}', {
    ...same,
    instructions: 'You are in a test.',
  });
  assert.equal(textOf(again), 'heard\nsay {result}\nprompts\nsay {result}\n2');
});

acpTest('a session is resumed where the agent keeps it, and told again where it does not', async (turns, folder) => {
  const keep = join(folder, 'kept');
  mkdirSync(keep);
  const [session] = eventsOf(await turns.run('say hello', anew('--keep', keep)), 'session');
  assert.ok(session);
  const history = [{ role: 'user' as const, text: 'hello' }];
  const script = 'prompts\nsay {result}\nheard\nsay {result}';
  const kept = await turns.run(script, { ...anew('--keep', keep), resume: session.id, history });
  assert.deepEqual(eventsOf(kept, 'session'), [session]);
  assert.equal(textOf(kept), `2\n${script}`);
  const lost = await turns.run(script, { ...anew(), resume: session.id, history });
  assert.notDeepEqual(eventsOf(lost, 'session'), [session]);
  assert.match(textOf(lost), /^1\n[\s\S]*<user>\nhello\n<\/user>/);
});

acpTest(
  'an agent with other levels of thinking gets the next lower one, and one that has none is said',
  async (turns) => {
    const think = async (levels: string[], thinking: 'medium' | 'low') => {
      const events = await turns.run('level\nsay {result}', { ...anew(...levels), thinking });
      return [finalOf(events), ...eventsOf(events, 'phase').map(({ detail }) => detail)];
    };
    assert.deepEqual(await think(['--levels', 'low,high'], 'medium'), ['low']);
    const limited = (offered: string) => ['usual', `The agent cannot be told to think "low". It offers ${offered}.`];
    assert.deepEqual(await think(['--levels', 'high'], 'low'), limited('usual, high'));
    assert.deepEqual(await think([], 'low'), limited('no choice'));
  },
);

acpTest('permissions are asked for and answered by what an option is, not by its id', async (turns) => {
  const same = anew();
  const asking = turns.start('ask rm -rf /\nsay {result}', same);
  const question = await asking.event('permission');
  assert.deepEqual([question.toolName, question.detail], ['execute', 'rm -rf /']);
  assert.deepEqual(
    question.options.map(({ kind }) => kind),
    ['allow_once', 'reject_once'],
  );
  asking.answer(question.requestId, question.options[0]?.optionId as string);
  assert.equal(textOf(await asking.done), 'allowed');

  const denied = turns.start('ask rm -rf /\nsay {result}', same);
  denied.answer((await denied.event('permission')).requestId, null);
  assert.equal(textOf(await denied.done), 'rejected');
  assert.equal(textOf(await turns.run('ask x\nsay {result}', { ...same, permission: 'allow' })), 'allowed');
  assert.equal(textOf(await turns.run('ask x\nsay {result}', { ...same, permission: 'deny' })), 'rejected');
});

acpTest('nobody is asked for tools of the app and, in mode full, for files of the draft', async (turns, folder) => {
  const draft = join(folder, 'draft');
  mkdirSync(draft);
  const conversations = { data: anew(), full: anew() };
  const answers = async (step: string, mode: 'data' | 'full') =>
    finalOf(
      await turns.run(`${step}\nsay {result}`, { ...conversations[mode], mode, folder: draft, permission: 'deny' }),
    );
  for (const name of ['mcp__svc__add', 'svc_add', 'svc/add', 'svc.add', 'svc_sql_read'])
    assert.equal(await answers(`ask-tool ${name}`, 'data'), 'allowed', name);
  for (const name of ['add', 'svcadd', 'other_svc_add', 'mcp__svc2__add', 'svc_add;rm'])
    assert.equal(await answers(`ask-tool ${name}`, 'data'), 'rejected', name);
  assert.equal(await answers('ask svc_add', 'full'), 'rejected');
  assert.equal(await answers('ask-tool svc/add edit', 'full'), 'rejected', 'a path');
  assert.equal(await answers('ask-edit queries/new.js', 'full'), 'allowed');
  assert.equal(await answers('ask-edit queries/new.js', 'data'), 'rejected');
  assert.equal(await answers('ask-edit ../outside.js', 'full'), 'rejected');
});

acpTest('the draft is all that the client reads and writes, and in mode full only', async (turns, folder) => {
  const draft = join(folder, 'draft');
  mkdirSync(draft);
  writeFileSync(join(draft, 'app.json'), 'one\ntwo');
  writeFileSync(join(folder, 'outside.txt'), 'secret');
  const script = [
    'read app.json\nsay {result}',
    `read ${join(draft, 'app.json')}\nsay {result}`,
    'write notes/new.md written by\\nthe agent\nsay {result}',
    'read ../outside.txt',
    `read ${join(folder, 'outside.txt')}`,
    'write ../../escaped.md x',
    'write tool.py x',
  ].join('\n');
  const full = textOf(await turns.run(script, { ...anew(), folder: draft, mode: 'full' }));
  assert.match(
    full,
    /^one\ntwo\none\ntwo\nwritten\n(?:error: .*is not in the draft\.\n){3}error: Apps may not hold files/,
  );
  assert.equal(readFileSync(join(draft, 'notes/new.md'), 'utf8'), 'written by\nthe agent');
  assert.ok(!existsSync(join(folder, 'escaped.md')));
  const data = textOf(await turns.run('read app.json', { ...anew(), folder: draft }));
  assert.match(data, /^error: There are no files/);
});

acpTest('files go with a message as far as the agent takes them', async (turns, folder) => {
  writeFileSync(join(folder, 'list.csv'), 'a,b');
  writeFileSync(join(folder, 'dot.png'), Buffer.from([1, 2, 3]));
  const attachments = [
    { name: 'list.csv', type: 'text/csv', path: join(folder, 'list.csv') },
    { name: 'dot.png', type: 'image/png', path: join(folder, 'dot.png') },
    { name: 'gone.txt', type: 'text/plain', path: join(folder, 'gone.txt') },
  ];
  const all = await turns.run('heard\nsay {result}', { ...anew(), attachments });
  assert.equal(textOf(all), 'a,b\n[image]\nheard\nsay {result}');
  assert.match(eventsOf(all, 'phase')[0]?.detail ?? '', /gone\.txt: it cannot be read \(ENOENT\)/);
  const few = await turns.run('heard\nsay {result}', { ...anew('--without', 'image,embedded'), attachments });
  assert.match(textOf(few), /^<file name="list\.csv">\na,b\n<\/file>\nheard/);
  assert.match(
    eventsOf(few, 'phase')
      .map(({ detail }) => detail)
      .join(' '),
    /dot\.png: it takes no files of type image\/png/,
  );
});

acpTest('an abort ends the turn and keeps the agent', async (turns) => {
  const same = anew();
  const first = 'say before\ncall hang {"file":"/dev/null"}\nsay after';
  const hanging = turns.start(first, same);
  await hanging.event('tool.start');
  hanging.cancel();
  const events = await hanging.done;
  assert.equal(shapeOf(events), 'session assistant.delta tool.start tool.result');
  assert.equal(eventsOf(events, 'tool.result')[0]?.ok, false);
  const waiting = turns.start('say again\nhang', same);
  await waiting.event('assistant.delta');
  waiting.cancel();
  assert.equal(shapeOf(await waiting.done), 'session assistant.delta');
  assert.equal(textOf(await turns.run('prompts\nsay {result}', same)), '3');
});

acpTest('an agent that crashes, refuses or cannot start is an error in words', async (turns) => {
  const errorOf = async (script: string, ...args: string[]) => {
    const events = await turns.run(script, anew(...args));
    assert.deepEqual(eventsOf(events, 'final'), []);
    const [error] = eventsOf(events, 'error');
    assert.equal(eventsOf(events, 'error').length, 1);
    return `${error?.code}: ${error?.message}`;
  };
  assert.match(
    await errorOf('say a\nerrors out of cheese\nwait 100\ncrash 4'),
    /AGENT_FAILED: .* exited with code 4: out of cheese/,
  );
  assert.match(await errorOf('fail no more credit'), /AGENT_FAILED: The agent failed: no more credit/);
  assert.match(await errorOf('stop refusal'), /AGENT_FAILED: The agent stopped: it refuses to go on/);
  assert.match(await errorOf('stop max_tokens'), /limit of tokens/);
  assert.match(await errorOf('say a', '--start', 'crash'), /exited with code 3: stub-agent: cannot start/);
  assert.match(await errorOf('say a', '--start', 'signed-out'), /not signed in: Authentication required/);
  const missing = await turns.run('say x', { ...anew(), spec: { command: ['no-such-agent'] } });
  assert.match(JSON.stringify(missing), /NO_RUNNER.*no-such-agent is not installed/);
});

acpTest('a line that is no message is one error event, and the next turn has a new program', async (turns) => {
  const same = anew();
  const first = 'say a\ngarbage\ngarbage oops\nsay b';
  const events = await turns.run(first, same);
  assert.equal(shapeOf(events), 'session assistant.delta error');
  assert.match(eventsOf(events, 'error')[0]?.message ?? '', /no message: \{"jsonrpc": "2\.0", oops/);
  assert.equal(textOf(await turns.run('prompts\nsay {result}', same)), '1');
});

acpTest('a line without end ends the turn and the agent, a flood is taken at the pace of the reader', async (turns) => {
  const long = await turns.run('line 9', anew());
  assert.match(eventsOf(long, 'error')[0]?.message ?? '', /a line of more than 8388608 bytes/);
  const flood = await turns.run('flood 2000 300', anew());
  assert.equal(textOf(flood).length, 600_000);
  assert.equal(eventsOf(flood, 'final')[0]?.text.length, 600_000);
});

acpTest('nothing that an agent started outlives its turn, and the agent goes on', async (turns) => {
  const same = anew();
  const script = 'sleep 600\nsay {result}\ndaemon 600\nsay {result}';
  const pidsOf = (events: Parameters<typeof textOf>[0]): number[] => {
    const pids = textOf(events).split('\n').map(Number);
    assert.equal(pids.length, 2);
    return pids;
  };
  assert.ok(!pidsOf(await turns.run(script, same)).some(isRunning));
  const programs = [...turns.pids];
  assert.equal(programs.length, 1);
  for (const end of ['cancel', 'end'] as const) {
    const turn = turns.start(`${script}\nthink so\nhang`, same);
    await turn.event('reasoning.delta');
    const pids = pidsOf(turn.events);
    assert.ok(pids.every(isRunning));
    assert.deepEqual([...turns.pids], programs);
    if (end === 'cancel') turn.cancel();
    else await turns.end();
    await turn.done;
    assert.ok(!pids.some(isRunning), end);
  }
  assert.deepEqual([...turns.pids], []);
});

acpTest('a probe tells the version without a session, models, and whether the agent is signed in', async (turns) => {
  assert.deepEqual(await turns.probe('version'), { version: '1.2.3' });
  assert.deepEqual(await turns.probe('models'), { models: [], signedIn: true });
  assert.deepEqual(await turns.probe('models', spec('--models')), {
    models: [
      { id: 'stub-small', name: 'Small', isDefault: true },
      { id: 'stub-large', name: 'Large' },
    ],
    signedIn: true,
  });
  assert.deepEqual(await turns.probe('models', spec('--start', 'signed-out')), { signedIn: false });
  await assert.rejects(turns.probe('version', spec('--start', 'crash')), /exited with code 3/);
});

acpTest('a model is chosen where the agent has several, and refused where it does not have it', async (turns) => {
  const chosen = await turns.run('usage 3\nsay hi', { ...anew('--models'), model: 'stub-large' });
  assert.equal(eventsOf(chosen, 'usage')[0]?.model, 'stub-large');
  const unknown = await turns.run('say hi', { ...anew('--models'), model: 'stub-huge' });
  assert.match(eventsOf(unknown, 'error')[0]?.message ?? '', /no model stub-huge\. It has stub-small, stub-large/);
});

acpTest('an agent that takes no MCP servers over HTTP works without tools, and that is said', async (turns) => {
  const events = await turns.run('tools\nsay none: {result}', anew('--without', 'http'));
  assert.match(eventsOf(events, 'phase')[0]?.detail ?? '', /does not have the tools of the app/);
  assert.equal(textOf(events), 'none:');
});
