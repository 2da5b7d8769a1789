/** Chooses the model of a turn, and checks that its runner has it. Pure. */
import type { AgentModel, RunnerEntry, RunnerKind } from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';

type ModelChoice = {
  runner: string;
  entry: Pick<RunnerEntry, 'kind' | 'model'>;
  /** The model that the turn names: an id of the catalog, or `provider/model-id` as in `requires.model`. */
  asked: string | undefined;
  /** The runner's last known models; empty when unknown. */
  models: readonly AgentModel[];
};

/** Their programs know models by bare ids, without a provider. */
const BARE: ReadonlySet<RunnerKind> = new Set(['codex', 'claude-code']);
const SHOWN = 20;

/** Null: the runner decides. Throws `BAD_REQUEST` for a model that the runner is known not to have, `NO_RUNNER` where one must be named. */
export function chooseModel({ runner, entry, asked, models }: ModelChoice): string | null {
  if (asked === undefined) return entry.model ?? defaultModel(runner, entry.kind, models);
  const provider = providerOf(asked);
  const bare = provider === null ? asked : asked.slice(provider.length + 1);
  // The part before the slash may be the runner's name, or the provider of a model that the runner knows only by its id.
  const names = provider === runner ? [bare, asked] : [asked, bare];
  const found = names.find((name) => name === entry.model || models.some(({ id }) => id === name));
  if (found !== undefined) return found;
  if (models.length === 0) return BARE.has(entry.kind) ? bare : (names[0] as string);
  const known = models.slice(0, SHOWN).map(({ id }) => id);
  const more = models.length > SHOWN ? ', …' : '';
  const message = `The runner "${runner}" has no model "${asked.slice(0, 80)}"; it has: ${known.join(', ')}${more}.`;
  throw new SvcError('BAD_REQUEST', message, { path: 'model' });
}

/** The part of a model's name before the first slash; null without one. */
export function providerOf(model: string): string | null {
  const slash = model.indexOf('/');
  return slash < 0 ? null : model.slice(0, slash);
}

/** A model server has no default model. */
function defaultModel(runner: string, kind: RunnerKind, models: readonly AgentModel[]): string | null {
  if (kind !== 'model') return null;
  const model = models.find(({ isDefault }) => isDefault) ?? models[0];
  if (model) return model.id;
  throw new SvcError('NO_RUNNER', `Say which model: set "runners.${runner}.model" in the configuration, or name one.`);
}
