/**
 * Makes the runner of chat and `ctx.agent`: the host's `conversationRunner` if there is one, else our own (specification,
 * "Extension points").
 */
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { AgentScope } from '../../protocol/agents/agents.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Config } from '../config.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { ConversationRunner, ConversationTurn, ExtensionPoints, GivenExtensions } from '../extension-points.ts';
import type { AgentProcess } from './runners/agent-process.ts';
import { findingsText, Grounding } from './runners/grounding.ts';
import { OwnRunner, type OwnRunnerOptions } from './runners/own-runner.ts';
import { RunnerCatalog } from './runners/runner-catalog.ts';
import { Runners } from './runners/runners.ts';
import { TurnMeans } from './runners/turn-means.ts';
import type { TurnRunner } from './turns/turns.ts';

export type AgentServices = TurnRunner & {
  /** Null if the host runs the turns; then `catalog` is null too. */
  runners: Runners | null;
  catalog: RunnerCatalog | null;
  /** The host's own status of its runner. */
  hostStatus: ExtensionPoints['runnerStatus'] | null;
};

/** The name of the host's runner for clients. */
const HOST = 'host';

type AgentParts = Omit<OwnRunnerOptions, 'runners' | 'known' | 'grounding' | 'agents'> & {
  dispatcher: Dispatcher;
  agentProcess: AgentProcess;
  config: Config;
  log: Logger;
};

export function openAgents(parts: AgentParts, { conversationRunner, runnerStatus }: GivenExtensions): AgentServices {
  const grounding = new Grounding(parts.dispatcher);
  if (conversationRunner) {
    return {
      ...hostRunner(conversationRunner, new TurnMeans({ ...parts, grounding })),
      runners: null,
      catalog: null,
      hostStatus: runnerStatus ?? (async () => ({ kind: 'host', ok: true })),
    };
  }
  const { config, layout, log, agentProcess: agents } = parts;
  const runners = new Runners({ runners: config.runners, runner: config.runner, env: process.env });
  // No app can have this id.
  const folder = join(layout.agentsDir, '_probe');
  const catalog = new RunnerCatalog({ runners, agents, file: layout.modelCatalog, folder, log });
  const own = new OwnRunner({ ...parts, agents, runners, known: catalog, grounding });
  const endAgentsOf = (over: AgentScope) => agents.endAgentsOf(over);
  return {
    run: own.run,
    choose: (asked) => own.choose(asked),
    endAgentsOf,
    runners,
    catalog,
    hostStatus: runnerStatus ?? null,
  };
}

function hostRunner(run: ConversationRunner, means: TurnMeans): TurnRunner {
  return {
    choose: ({ runner = HOST, model }) => {
      if (runner !== HOST) throw new SvcError('BAD_REQUEST', `The only runner here is "${HOST}".`, { path: 'runner' });
      return { runner, ...(model === undefined ? {} : { model }) };
    },
    run: (turn) => preparedRun(run, turn, means),
  };
}

/** Gives the host's turn a way to ask for what its agent gets, and takes that back at the end. */
async function* preparedRun(run: ConversationRunner, turn: ConversationTurn, means: TurnMeans) {
  const ends: (() => void)[] = [];
  const prepare = async () => {
    const { conversation, token, end } = await means.begin(turn, HOST);
    ends.push(end);
    const instructions = await means.instructions(turn, []);
    const notice = turn.findings === undefined ? '' : `\n\n${findingsText(turn.findings)}`;
    return { conversation, token, instructions: instructions + notice, folder: await means.folder(turn) };
  };
  try {
    yield* run({ ...turn, prepare });
  } finally {
    for (const end of ends) end();
    if (ends.length > 0) await means.clear(turn);
  }
}
