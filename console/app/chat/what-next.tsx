/** Says what can be done in a new conversation; and where no agent can answer, how to get one, with a button that looks again. */
import { INSTALL_CLAUDE_CODE } from '../../../protocol/agents/agents.ts';
import { CopyField } from '../../ui/copy.tsx';
import { Button, Card } from '../../ui/parts.tsx';
import { useWork } from '../../work.ts';
import type { Mode } from './conversations.ts';
import type { Models } from './models.tsx';

/** What an empty conversation says, by its mode. */
const HINTS: Record<Mode, string> = {
  data: 'Ask about the data, or say what to do. The page changes as the agent works.',
  full: 'Say what to change in the app. The page shows the draft. Nothing is live until you publish.',
};

const AGENTS = [
  {
    name: 'Codex',
    needs: 'with a ChatGPT account or an OpenAI key',
    steps: [
      ['Install', 'npm install -g @openai/codex'],
      ['Sign in', 'codex login'],
    ],
    after: null,
  },
  {
    name: 'Claude Code',
    needs: 'with a Claude account or an Anthropic key',
    steps: [
      ['Install', INSTALL_CLAUDE_CODE],
      ['Sign in', 'claude'],
    ],
    after: 'Then enter /login.',
  },
] as const;

/** What can be done here, in a new conversation; or how to get an agent, where none can answer. */
export function WhatNext({ models, mode, isNew }: { models: Models; mode: Mode; isNew: boolean }) {
  if (models.isNone) return <NoAgent models={models} />;
  return isNew ? <p class="hint">{HINTS[mode]}</p> : null;
}

/** `unready` are agents that were found and cannot answer yet, with what keeps each from it. */
function NoAgent({ models }: { models: Models }) {
  const { unready, check } = models;
  const { isBusy, error, run } = useWork();
  return (
    <Card class="no-agent" title={unready.length > 0 ? 'The agent is not ready yet' : 'No agent yet'}>
      <div class="stack">
        {unready.map(({ name, why }) => (
          <p key={name} class="problem">
            <b>{name}</b>: {why}
          </p>
        ))}
        <p>Run the steps for one of these on the gateway’s machine, as the user that runs the gateway.</p>
        {AGENTS.map(({ name, needs, steps, after }) => (
          <section key={name} aria-label={name}>
            <h3>{name}</h3>
            <p class="hint">{needs}</p>
            {steps.map(([step, command]) => (
              <CopyField key={step} name={step} value={command} of={name} />
            ))}
            {after && <p class="hint">{after}</p>}
          </section>
        ))}
        <p class="hint">
          Another agent or a model server: name it as <code>runners</code> in the configuration. <code>svc agents</code>{' '}
          says what the gateway finds.
        </p>
        <div class="line">
          <Button kind="primary" disabled={isBusy} onClick={() => void run(check)}>
            {isBusy ? 'Looking…' : 'Look again'}
          </Button>
          <span class="hint" role="status">
            {error ? error.message : isBusy || models.checks === 0 ? '' : 'Still none that could answer.'}
          </span>
        </div>
      </div>
    </Card>
  );
}
