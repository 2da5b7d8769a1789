// The runner that asks a model server itself, in each of the three protocols.
import { MODEL_APIS } from '../../protocol/agents.ts';
import { runnerCases } from '../../testing/runner-cases.ts';
import { modelRunner } from './model.ts';

for (const api of MODEL_APIS) {
  runnerCases({
    name: `model, ${api}`,
    runner: modelRunner,
    skip: false,
    spec: ({ stub }) => ({
      name: 'local',
      kind: 'model',
      api,
      baseUrl: `${stub.url}/v1`,
      model: 'stub-model',
      env: {},
    }),
    hasProgram: false,
    reasons: true,
  });
}
