/**
 * Owns the agents and their programs, and the connections to MCP servers. Entry of dist/agents.js. When it loses its supervisor it
 * ends every program and server with all that they started, then itself.
 */
import { createInterface } from 'node:readline';
import type { AgentsBootstrap, ProbeOrder, RunnerKind, TurnOrder } from '../../protocol/agents/agents.ts';
import { Kind } from '../../protocol/wire/frames.ts';
import { openLink, pong } from '../../protocol/wire/link.ts';
import { Agents } from './agents.ts';
import { ToolServers } from './mcp/tool-servers.ts';
import type { Runner } from './runner.ts';

/** Loaded when one is first needed: some bring large libraries. */
const RUNNERS: Record<RunnerKind, () => Promise<Runner>> = {
  codex: async () => (await import('./codex/codex.ts')).codexRunner,
  'claude-code': async () => (await import('./claude-code/claude-code.ts')).claudeCode,
  model: async () => (await import('./model/model.ts')).modelRunner,
  acp: async () => (await import('./acp/acp.ts')).acpRunner,
};

function run({ supervisorSocket, ticket, tag, maxAgents, idleMs, toolServers }: AgentsBootstrap): void {
  const agents = new Agents({
    tag,
    maxAgents,
    idleMs,
    runnerOf: (kind) => RUNNERS[kind](),
    onProcess: (pid, alive) => link.send([Kind.toolProcess, pid, alive, 'agent']),
    log: (level, message) => link.send([Kind.log, JSON.stringify({ level, message })]),
  });

  const servers = new ToolServers(toolServers, (frame) => link.send(frame));

  async function turn(id: number, order: TurnOrder): Promise<void> {
    await agents.turn(id, order, (event, bytes) => link.send([Kind.turnEvents, id, [event], bytes]));
    link.send([Kind.turnEnd, id]);
  }

  async function probe(id: number, order: ProbeOrder): Promise<void> {
    try {
      link.send([Kind.probed, id, await agents.probe(id, order)]);
    } catch (error) {
      link.send([Kind.probed, id, { failed: (error as Error).message }]);
    }
  }

  let ending = false;
  const end = () => {
    if (ending) return;
    ending = true;
    void Promise.allSettled([agents.end(), servers.close()]).then(() => process.exit(0));
  };
  const link = openLink(supervisorSocket, ticket, {
    onFrame: (frame) => {
      if (frame[0] === Kind.turn) void turn(frame[1], frame[2]);
      else if (frame[0] === Kind.turnTaken) agents.taken(frame[1], frame[2]);
      else if (frame[0] === Kind.turnAnswer) agents.answer(frame[1], frame[2], frame[3]);
      else if (frame[0] === Kind.probe) void probe(frame[1], frame[2]);
      else if (frame[0] === Kind.endAgents) agents.endAgentsOf(frame[2]);
      else if (frame[0] === Kind.dispatch) void servers.dispatch(frame);
      else if (frame[0] === Kind.cancel) {
        agents.cancel(frame[1]);
        servers.cancel(frame[1]);
      } else if (frame[0] === Kind.ping) link.send(pong(frame[1], { ...agents.counters, calls: servers.calls }));
    },
    onClose: end,
  });
  // However this process ends, so does everything that it started.
  process.on('exit', () => {
    agents.kill();
    servers.kill();
  });
  process.on('SIGTERM', end);
  // An unhandled error in one runner's library must not end other runners' turns.
  process.on('unhandledRejection', (reason) => {
    const message = `A runner left a failure unhandled: ${(reason as Error | null)?.stack ?? reason}`;
    link.send([Kind.log, JSON.stringify({ level: 'warn', message })]);
  });
  process.stdin.on('close', end);
  link.send([Kind.ready, { pid: process.pid }]);
}

const lines = createInterface({ input: process.stdin });
lines.once('line', (line) => run(JSON.parse(line) as AgentsBootstrap));
