import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AgentModel, RunnerKind } from '../../../protocol/agents/agents.ts';
import { chooseModel } from './models.ts';

const MODELS: AgentModel[] = [{ id: 'small' }, { id: 'large', isDefault: true }, { id: 'house/huge' }];

function choose(asked: string | undefined, more: { kind?: RunnerKind; model?: string; models?: AgentModel[] } = {}) {
  const { kind = 'codex', model, models = MODELS } = more;
  return chooseModel({ runner: 'mine', entry: { kind, ...(model === undefined ? {} : { model }) }, asked, models });
}

for (const [name, asked, more, expected] of [
  ['none is asked for', undefined, {}, null],
  ['none is asked for, but configured', undefined, { model: 'x' }, 'x'],
  ['it is known', 'small', {}, 'small'],
  ['it is known with its provider', 'house/huge', {}, 'house/huge'],
  ['it is known without its provider', 'openai/small', {}, 'small'],
  ['it stands behind the name of the runner', 'mine/small', {}, 'small'],
  ['a provider stands behind the name of the runner', 'mine/house/huge', {}, 'house/huge'],
  ['it is the configured one, which no list has', 'secret', { model: 'secret' }, 'secret'],
  ['nothing is known', 'openai/small', { models: [] }, 'small'],
  ['nothing is known of a model server', 'openai/small', { models: [], kind: 'model' }, 'openai/small'],
  ['nothing is known of an agent', 'openai/small', { models: [], kind: 'acp' }, 'openai/small'],
  ['nothing is known, behind the name of the runner', 'mine/small', { models: [], kind: 'acp' }, 'small'],
  ['a model server has a default', undefined, { kind: 'model' }, 'large'],
  ['a model server has models', undefined, { kind: 'model', models: [{ id: 'a' }, { id: 'b' }] }, 'a'],
] as const) {
  test(`the model when ${name}`, () => {
    assert.equal(choose(asked, more as Parameters<typeof choose>[1]), expected);
  });
}

test('the error for an unknown model lists the runner’s models', () => {
  assert.throws(() => choose('tiny'), {
    code: 'BAD_REQUEST',
    path: 'model',
    message: 'The runner "mine" has no model "tiny"; it has: small, large, house/huge.',
  });
  assert.throws(() => choose('mall'), { code: 'BAD_REQUEST' });
});

test('a model server with an unknown list needs a model', () => {
  assert.throws(() => choose(undefined, { kind: 'model', models: [] }), {
    code: 'NO_RUNNER',
    message: /set "runners\.mine\.model"/,
  });
});
