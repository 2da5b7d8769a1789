// Scripted agents in the real process of agents: what they get, how fast they may write, and that none of their
// processes is left.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, type TestContext, test } from 'node:test';
import type { RunnerEvent } from '../protocol/agents/agents.ts';
import { LIMITS } from '../protocol/limits.ts';
import { type ChildRecord, reapChildren } from '../storage/processes/children.ts';
import { eventsOf, finalOf, type RunningAgents, SHELLS, shellsOf, startAgents, stubRunner } from '../testing/agents.ts';
import { eventually } from '../testing/edges.ts';
import { isRunning } from '../testing/processes.ts';
import { inTime, LONG_MS, pause } from '../testing/waiting.ts';

const onLinux = { skip: process.platform !== 'linux' };

let running: RunningAgents;
before(async () => {
  process.env.SVC_TEST_SECRET = 'of the gateway';
  running = await startAgents();
});
after(async () => {
  delete process.env.SVC_TEST_SECRET;
  await running.stop();
});

let conversations = 0;
/** A conversation that no other test has. */
const fresh = () => ({ conversation: `svc-chat:notes:w${++conversations}` });

const records = (of: RunningAgents) => JSON.parse(readFileSync(of.record, 'utf8')) as ChildRecord[];
const recorded = (of: RunningAgents, role: string) => records(of).filter((child) => child.role === role);

async function next(turn: AsyncGenerator<RunnerEvent, void>): Promise<RunnerEvent> {
  const { done, value } = await inTime(turn.next(), 'the next event of the turn', LONG_MS);
  assert.ok(!done, 'the turn has ended');
  return value as RunnerEvent;
}

async function until(turn: AsyncGenerator<RunnerEvent, void>, type: RunnerEvent['type']): Promise<RunnerEvent> {
  for (;;) {
    const event = await next(turn);
    if (event.type === type) return event;
  }
}

describe('a turn', () => {
  test('nothing is started before the first one', async (t) => {
    const unused = await startAgents();
    t.after(() => unused.stop());
    assert.equal(unused.tree.agents?.state, 'stopped');
    assert.equal(await finalOf(unused.run(['say hello'])), 'hello');
    assert.equal(unused.tree.agents?.state, 'running');
    assert.equal(recorded(unused, 'agent').length, 1);
  });

  test('its events come in order, and the agent is kept for the next one', async () => {
    const own = fresh();
    const events = await eventsOf(running.run(['say one two', 'edit notes.md hello'], own));
    const types = events.map(({ type }) => type);
    assert.deepEqual(
      types.filter((type) => type !== 'phase'),
      ['session', 'assistant.delta', 'assistant.delta', 'tool.start', 'tool.result', 'final'],
    );
    assert.equal(await finalOf(running.run(['prompts', 'say {result}'], own)), '2');
  });

  test("the agent has its runner's environment and its tag, and no variables of the gateway", async () => {
    const runner = { ...stubRunner(), env: { PATH: process.env.PATH ?? '', KEY: 'given' } };
    const said = await finalOf(running.run(['env', 'say {result}'], { ...fresh(), runner }));
    const env = JSON.parse(said) as Record<string, string>;
    assert.deepEqual([env.KEY, env.SVC_TEST_SECRET], ['given', undefined]);
    assert.match(env.SVC_AGENT ?? '', new RegExp(`^${running.tag}\\.1\\.\\d+$`));
  });

  for (const [chosen, said] of [
    ['allow_once', 'allowed'],
    ['reject_once', 'rejected'],
    [null, 'cancelled'],
  ] as const) {
    test(`the caller that is asked chooses ${chosen}`, async () => {
      let decide: (optionId: string | null) => void = () => {};
      const answer = () => new Promise<string | null>((resolve) => (decide = resolve));
      const turn = running.run(['ask remove everything', 'say {result}'], fresh(), { answer });
      const asked = await until(turn, 'permission');
      const options = asked.type === 'permission' ? asked.options : [];
      decide(options.find(({ kind }) => kind === chosen)?.optionId ?? null);
      const events = await inTime(eventsOf(turn), 'the end of the turn', LONG_MS);
      const last = events.at(-1);
      assert.ok(last?.type === 'final', JSON.stringify(last));
      // An agent takes a missing answer as "no", too.
      assert.ok(last.text === said || (chosen === null && last.text === 'rejected'), last.text);
    });
  }

  test('a line that is too long is an error, and the next turn has another agent', async () => {
    const own = fresh();
    const events = await eventsOf(running.run(['line 9'], own));
    const last = events.at(-1);
    assert.ok(last?.type === 'error' && last.code === 'AGENT_FAILED', JSON.stringify(last));
    assert.equal(await finalOf(running.run(['prompts', 'say {result}'], own)), '1');
  });

  test('an agent whose output is not read is slowed down, and memory stays bounded', onLinux, async () => {
    const turn = running.run(['flood 400 65536'], fresh());
    await until(turn, 'assistant.delta');
    const pid = running.tree.agents?.pid as number;
    const written = () => Number(/wchar: (\d+)/.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1]);
    let before = -1;
    await eventually(async () => {
      const stands = written() === before;
      before = written();
      await pause(200);
      return stands;
    });
    // The text of an answer ends at its limit; until then all of it comes.
    const rest = await inTime(eventsOf(turn), 'the rest of the turn', LONG_MS);
    const bytes = rest.reduce(
      (sum, event) => sum + (event.type === 'assistant.delta' ? event.delta.length : 0),
      65_536,
    );
    assert.equal(bytes, LIMITS.agentAnswerBytes);
  });

  test('a caller that leaves stops the turn, and the agent stays', async () => {
    const own = fresh();
    const turn = running.run(['say begin', 'hang'], own);
    await until(turn, 'assistant.delta');
    await turn.return();
    assert.equal(await finalOf(running.run(['prompts', 'say {result}'], own)), '2');
  });

  test('an agent that does not stop when asked is killed', async () => {
    const own = fresh();
    const abort = new AbortController();
    const turn = running.run([...SHELLS, 'deaf'], own, { signal: abort.signal });
    const pids = await shellsOf(turn);
    assert.ok(pids.every(isRunning));
    abort.abort();
    const events = await inTime(eventsOf(turn), 'the end of the turn', LONG_MS);
    assert.ok(!events.some(({ type }) => type === 'final' || type === 'error'), JSON.stringify(events));
    assert.deepEqual(pids.filter(isRunning), []);
  });

  test('twenty conversations have their turns, eight at a time', async () => {
    const turns = Array.from({ length: 20 }, (_, i) => finalOf(running.run([`say ${i}`, 'wait 20'], fresh())));
    const said = await inTime(Promise.all(turns), 'twenty turns', LONG_MS);
    assert.deepEqual(
      said,
      turns.map((_, i) => `${i}`),
    );
    await eventually(() => recorded(running, 'agent').length <= 8);
  });
});

describe('nothing is left', onLinux, () => {
  test('of an agent that is killed: its turn fails, the next one has another', async () => {
    const own = fresh();
    const turn = running.run([...SHELLS, 'hang'], own);
    const pids = await shellsOf(turn);
    assert.ok(pids.every(isRunning));
    // The agent of these shells is the one that was recorded last.
    process.kill(recorded(running, 'agent').at(-1)?.pid as number, 'SIGKILL');
    const last = (await inTime(eventsOf(turn), 'the end of the turn', LONG_MS)).at(-1);
    assert.ok(last?.type === 'error' && last.code === 'AGENT_FAILED', JSON.stringify(last));
    await eventually(() => !pids.some(isRunning));
    assert.equal(await finalOf(running.run(['prompts', 'say {result}'], own)), '1');
  });

  test('when the process of the agents is killed: turns fail, the next one works', async (t) => {
    const struck = await startAgents();
    t.after(() => struck.stop());
    const pids = await shellsOf(struck.run([...SHELLS, 'hang']));
    const turn = struck.run(['say begin', 'hang'], fresh());
    await until(turn, 'assistant.delta');
    const leaders = recorded(struck, 'agent').map(({ pid }) => pid);
    assert.equal(leaders.length, 2);
    process.kill(struck.tree.agents?.pid as number, 'SIGKILL');
    const last = (await inTime(eventsOf(turn), 'the end of the turn', LONG_MS)).at(-1);
    assert.ok(last?.type === 'error' && /ended by SIGKILL/.test(last.message), JSON.stringify(last));
    await eventually(() => ![...pids, ...leaders].some(isRunning));
    await eventually(() => recorded(struck, 'agent').length === 0);
    assert.equal(await finalOf(struck.run(['prompts', 'say {result}'])), '1');
  });

  test('when the gateway stops, also of agents that ignore it', async () => {
    const stopped = await startAgents();
    const pids = await shellsOf(stopped.run([...SHELLS, 'hang']));
    const turn = eventsOf(stopped.run(['say begin', 'deaf'], fresh()));
    await eventually(() => recorded(stopped, 'agent').length === 2);
    pids.push(...records(stopped).map(({ pid }) => pid));
    await inTime(stopped.stop(), 'the stop', LONG_MS);
    assert.equal((await turn).at(-1)?.type, 'error');
    assert.deepEqual(pids.filter(isRunning), []);
  });

  test('when the supervisor is killed', async (t) => {
    const { supervisor, all, folder } = await startSupervisor(t);
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    supervisor.kill('SIGKILL');
    await eventually(() => !all.some(isRunning));
  });

  test('when the supervisor and the process of the agents are killed, and another gateway starts', async (t) => {
    const { supervisor, agents, all, record, tag, folder } = await startSupervisor(t);
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    process.kill(agents, 'SIGSTOP');
    supervisor.kill('SIGKILL');
    await once(supervisor, 'exit');
    process.kill(agents, 'SIGKILL');
    await eventually(() => !isRunning(agents));
    assert.ok(all.some(isRunning), 'something is left');
    const reaped = await reapChildren(record, tag);
    assert.ok(reaped.length > 0);
    assert.deepEqual(all.filter(isRunning), []);
  });
});

/** A process with agents at work; all of its processes, and where it records them. */
async function startSupervisor(t: TestContext) {
  const script = new URL('../testing/agents-supervisor.ts', import.meta.url).pathname;
  const supervisor = spawn(process.execPath, ['--import', 'tsx', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => supervisor.kill('SIGKILL'));
  const lines = createInterface({ input: supervisor.stdout });
  const [line] = (await inTime(once(lines, 'line'), 'the start of the agents', LONG_MS)) as [string];
  const told = JSON.parse(line) as { pids: number[]; agents: number; record: string; tag: string };
  await eventually(() => leadersIn(told.record).length === 2);
  const all = [told.agents, ...told.pids, ...leadersIn(told.record)];
  for (const pid of all) assert.equal(isRunning(pid), true, `${pid} does not run`);
  return { supervisor, ...told, all, folder: dirname(dirname(told.record)) };
}

function leadersIn(record: string): number[] {
  const children = JSON.parse(readFileSync(record, 'utf8')) as ChildRecord[];
  return children.filter(({ role }) => role === 'agent').map(({ pid }) => pid);
}
