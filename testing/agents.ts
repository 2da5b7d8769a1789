/**
 * The agents of a gateway without the gateway: a separate supervision tree, the real process of agents and scripted
 * agents.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunnerEvent, RunnerSpec, TurnOrder } from '../protocol/agents/agents.ts';
import { TOOL_SERVER_LIMITS } from '../protocol/agents/tool-server-entries.ts';
import { LIMITS } from '../protocol/limits.ts';
import { Children } from '../storage/processes/children.ts';
import { tagOf } from '../storage/processes/tagged.ts';
import { AgentProcess, type RunOptions } from '../supervisor/agents/runners/agent-process.ts';
import type { Tree } from '../supervisor/tree/tree.ts';
import { treeIn } from './tree.ts';
import { inTime, LONG_MS } from './waiting.ts';

const NO_SERVERS = { servers: {}, limits: TOOL_SERVER_LIMITS };
const STUB_AGENT = new URL('./stub-agent.mjs', import.meta.url).pathname;

/** A runner whose agent runs each message as a script, a step a line. */
export function stubRunner(...args: string[]): RunnerSpec {
  const env = { PATH: process.env.PATH ?? '' };
  return { name: 'stub', kind: 'acp', command: [process.execPath, STUB_AGENT, ...args], env };
}

export type RunningAgents = {
  agents: AgentProcess;
  tree: Tree;
  folder: string;
  /** The path of the record of children. */
  record: string;
  tag: string;
  log: string[];
  /** Starts a turn whose message is the lines. */
  run(lines: string[], order?: Partial<TurnOrder>, options?: Partial<RunOptions>): AsyncGenerator<RunnerEvent, void>;
  stop(): Promise<void>;
};

export async function startAgents({ maxAgents = 8 } = {}): Promise<RunningAgents> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-agents-'));
  const log: string[] = [];
  const record = join(folder, 'run/children.json');
  const children = new Children(record, 'boot');
  const onProcess = (pid: number, role: string, alive: boolean) => {
    if (alive) children.add(pid, role);
    else children.remove(pid);
  };
  const tag = tagOf(folder);
  const note = (level: string, message: string) => log.push(`${level} ${message}`);
  const tree = treeIn(folder, { log: note, callbacks: { onProcess } });
  await tree.start();
  const agents = new AgentProcess({
    tag,
    maxAgents,
    toolServers: NO_SERVERS,
    createChild: (settings, events) => tree.agentsChild(settings, events),
    onProcess,
    log: note,
  });
  let turns = 0;
  return {
    agents,
    tree,
    folder,
    record,
    tag,
    log,
    run: (lines, order = {}, options = {}) => {
      const whole: TurnOrder = {
        turnId: `turn-${++turns}`,
        conversation: 'svc-chat:notes:wone',
        runner: stubRunner(),
        mode: 'data',
        app: 'notes',
        folder,
        instructions: 'You work on an app.',
        message: lines.join('\n'),
        attachments: [],
        model: null,
        thinking: null,
        resume: null,
        history: [],
        gateway: { url: 'http://127.0.0.1:1/svc/notes/_mcp', token: 'svca_test' },
        permission: 'ask',
        ...order,
      };
      return agents.run(whole, { signal: new AbortController().signal, ...options });
    },
    stop: async () => {
      await agents.stop();
      await tree.stop(LIMITS.cancelGraceMs);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** All events of a turn. */
export async function eventsOf(turn: AsyncIterable<RunnerEvent>): Promise<RunnerEvent[]> {
  const events: RunnerEvent[] = [];
  for await (const event of turn) events.push(event);
  return events;
}

/** The text of its `final`; rejects when it ended otherwise. */
export async function finalOf(turn: AsyncIterable<RunnerEvent>): Promise<string> {
  const last = (await eventsOf(turn)).at(-1);
  if (last?.type === 'final') return last.text;
  throw new Error(`The turn ended with ${JSON.stringify(last)}.`);
}

/** Steps that start two processes: one below the agent, and one that lost its parent. They end with the turn. */
export const SHELLS = ['sleep 1000', 'say {result}', 'daemon 1000', 'say {result}'];

/** The pids of these processes, of a turn that goes on. */
export async function shellsOf(turn: AsyncGenerator<RunnerEvent, void>): Promise<number[]> {
  let text = '';
  const pids = (): number[] => text.split(/\s+/).filter(Boolean).map(Number);
  while (pids().length < 2) {
    const { done, value } = await inTime(turn.next(), 'the pids of the shells', LONG_MS);
    if (done || value === undefined) throw new Error(`The turn has ended: ${text}`);
    if (value.type === 'assistant.delta') text += value.delta;
  }
  return pids();
}
