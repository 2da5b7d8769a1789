/** Loads the runner of a kind when it is first needed: some bring large libraries. */
import type { RunnerKind } from '../../protocol/agents/agents.ts';
import type { Runner } from './runner.ts';

const RUNNERS: Record<RunnerKind, () => Promise<Runner>> = {
  codex: async () => (await import('./codex/codex.ts')).codexRunner,
  'claude-code': async () => (await import('./claude-code/claude-code.ts')).claudeCode,
  model: async () => (await import('./model/model.ts')).modelRunner,
  acp: async () => (await import('./acp/acp.ts')).acpRunner,
};

export async function runnerOf(kind: RunnerKind): Promise<Runner> {
  return await RUNNERS[kind]();
}
