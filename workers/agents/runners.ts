/** Which runner serves an agent of a kind. Each is loaded when it is first asked for: some bring large libraries. */
import type { RunnerKind } from '../../protocol/agents.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Runner } from './runner.ts';

const RUNNERS: { [Kind in RunnerKind]?: () => Promise<Runner> } = {
  codex: async () => (await import('./codex/codex.ts')).codexRunner,
  'claude-code': async () => (await import('./claude-code/claude-code.ts')).claudeCode,
  model: async () => (await import('./model/model.ts')).modelRunner,
  acp: async () => (await import('./acp/acp.ts')).acpRunner,
};

/** Rejects with `NO_RUNNER` for a kind that this version does not have. */
export async function runnerOf(kind: RunnerKind): Promise<Runner> {
  const load = RUNNERS[kind];
  if (!load) throw new SvcError('NO_RUNNER', `This version has no runner of the kind ${kind}.`);
  return await load();
}
