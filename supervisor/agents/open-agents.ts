/** Who takes the turns of chat and of `ctx.agent`: the host's runner where it gives one, else our own (specification, "Host-injected seams"). */
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Config } from '../config.ts';
import type { ExtensionPoints, GivenExtensions } from '../extension-points.ts';
import type { AgentProcess } from './runners/agent-process.ts';
import { RunnerCatalog } from './runners/catalog.ts';
import { Grounding } from './runners/grounding.ts';
import { hostRunner } from './runners/host-runner.ts';
import { OwnRunner, type OwnRunnerOptions } from './runners/own-runner.ts';
import { Runners } from './runners/runners.ts';
import type { TurnRunner } from './turns/turns.ts';

export type AgentServices = TurnRunner & {
  /** Null where the host runs the turns, and so is `catalog`. */
  runners: Runners | null;
  catalog: RunnerCatalog | null;
  /** What the host says of its runner. */
  hostStatus: ExtensionPoints['runnerStatus'] | null;
};

export type AgentParts = Omit<OwnRunnerOptions, 'runners' | 'known' | 'grounding' | 'agents'> & {
  agentProcess: AgentProcess;
  config: Config;
  log: Logger;
};

export function openAgents(parts: AgentParts, { conversationRunner, runnerStatus }: GivenExtensions): AgentServices {
  if (conversationRunner) {
    return {
      ...hostRunner(conversationRunner),
      runners: null,
      catalog: null,
      hostStatus: runnerStatus ?? (async () => ({ kind: 'host', ok: true })),
    };
  }
  const { config, layout, log, agentProcess: agents } = parts;
  const runners = new Runners({ runners: config.runners, runner: config.runner, env: process.env });
  // No app is called so.
  const folder = join(layout.agentsDir, '_probe');
  const catalog = new RunnerCatalog({ runners, agents, file: layout.modelCatalog, folder, log });
  const own = new OwnRunner({ ...parts, agents, runners, known: catalog, grounding: new Grounding() });
  return { run: own.run, choose: (asked) => own.choose(asked), runners, catalog, hostStatus: runnerStatus ?? null };
}
