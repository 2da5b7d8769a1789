/** What a new automation does: asks an agent, runs an action of the app, or what its author writes next. */

import { hrefOf } from '../address.ts';
import { escaped, InputForm, JsonField } from '../app/tools/fields.tsx';
import { initialOf, shapeOf } from '../app/tools/input-shape.ts';
import { type AppDetail, toolsIn } from '../app/views.ts';
import { Field } from '../ui/parts.tsx';
import { actionHandler, agentHandler } from './handler-texts.ts';
import { Radios } from './radios.tsx';

const KINDS = { agent: 'Ask an agent', action: 'Run an action', code: 'Code that I write' } as const;

/**
 * `prompt` is for the agent, `purpose` for people who read the code later. `takesBody`: the action's input is the body of the request
 * that fired it.
 */
export type Task = {
  kind: keyof typeof KINDS;
  prompt: string;
  action: string;
  input: unknown;
  takesBody: boolean;
  purpose: string;
};

const actionOf = (app: AppDetail, name: string) => toolsIn(app).actions.find((one) => one.name === name);
const inputOf = (app: AppDetail, name: string): unknown => initialOf(shapeOf(actionOf(app, name)?.input), true) ?? {};

export function newTask(app: AppDetail): Task {
  const action = toolsIn(app).actions[0]?.name ?? '';
  return { kind: 'agent', prompt: '', action, input: inputOf(app, action), takesBody: false, purpose: '' };
}

/** Members of `automation.json` and the text of the handler; without one it is the gateway's, which does nothing yet. */
export function filesOf(app: AppDetail, task: Task, isWebhook: boolean) {
  const { kind, prompt, action, input, takesBody, purpose } = task;
  if (kind === 'agent') return { prompt: prompt.trim(), handler: agentHandler(prompt.trim()) };
  if (kind === 'code') return { prompt: purpose.trim() };
  return {
    prompt: `Runs the action “${action}”.`,
    requires: { tools: ['svc_write'] },
    handler: actionHandler(app.id, action, isWebhook && takesBody ? undefined : input),
  };
}

/** What the action's input lacks, by JSON Pointer; the form shows it at its fields. */
export function missingOf(app: AppDetail, { kind, action, input, takesBody }: Task, isWebhook: boolean): Issues {
  const shape = shapeOf(actionOf(app, action)?.input);
  if (kind !== 'action' || (isWebhook && takesBody) || shape.kind !== 'object') return new Map();
  const given = (input ?? {}) as Record<string, unknown>;
  const missing = shape.members.filter(({ name, required }) => required && (given[name] ?? '') === '');
  return new Map(missing.map(({ name }) => [`/${escaped(name)}`, 'This is required.']));
}

type Issues = ReadonlyMap<string, string>;
type Props = { app: AppDetail; task: Task; isWebhook: boolean; issues: Issues; onChange: (next: Task) => void };

export function TaskFields({ app, task, isWebhook, issues, onChange }: Props) {
  const { kind, prompt, purpose } = task;
  const change = (changed: Partial<Task>) => onChange({ ...task, ...changed });
  const kinds = Object.fromEntries(
    Object.entries(KINDS).filter(([id]) => id !== 'action' || toolsIn(app).actions.length > 0),
  ) as typeof KINDS;
  return (
    <div class="stack">
      <Radios
        name="task"
        label="What it does"
        choices={kinds}
        value={kind}
        onChoose={(next) => change({ kind: next })}
      />
      {kind === 'agent' && (
        <Field
          label="Prompt"
          hint={
            <>
              The agent has the tools of {app.name}. Its answer is the summary of the run
              {isWebhook && ', and it is told the body of the request'}. Without an agent the run fails: the{' '}
              <a href={hrefOf(['apps', app.id, 'chat'])}>chat</a> says how to get one.
            </>
          }
        >
          <textarea
            rows={4}
            required
            maxLength={20_000}
            placeholder="Look at what is open, and add what is missing for this week."
            value={prompt}
            onInput={({ currentTarget }) => change({ prompt: currentTarget.value })}
          />
        </Field>
      )}
      {kind === 'action' && <ActionFields {...{ app, task, isWebhook, issues, onChange }} />}
      {kind === 'code' && (
        <Field label="What it is for" hint="For people who read it later. The draft opens at its handler.">
          <textarea
            rows={2}
            required
            maxLength={2000}
            value={purpose}
            onInput={({ currentTarget }) => change({ purpose: currentTarget.value })}
          />
        </Field>
      )}
    </div>
  );
}

function ActionFields({ app, task, isWebhook, issues, onChange }: Props) {
  const { action, input, takesBody } = task;
  const definition = actionOf(app, action);
  const shape = shapeOf(definition?.input);
  const change = (changed: Partial<Task>) => onChange({ ...task, ...changed });
  return (
    <>
      <Field label="Action" hint={definition?.description}>
        <select
          value={action}
          onChange={({ currentTarget: { value } }) => change({ action: value, input: inputOf(app, value) })}
        >
          {toolsIn(app).actions.map(({ name }) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </Field>
      {isWebhook && (
        <label class="check">
          <input
            type="checkbox"
            checked={takesBody}
            onChange={({ currentTarget }) => change({ takesBody: currentTarget.checked })}
          />
          Its input is the body of the request
        </label>
      )}
      {!(isWebhook && takesBody) &&
        (shape.kind === 'json' ? (
          <div class="field">
            <span class="label">Input as JSON</span>
            <JsonField
              key={action}
              aria-label="Input as JSON"
              value={input}
              onChange={(next) => change({ input: next })}
            />
          </div>
        ) : shape.kind === 'object' && shape.members.length === 0 ? (
          <p class="hint">It takes no input.</p>
        ) : (
          <fieldset class="group">
            <legend class="label">Its input</legend>
            <InputForm
              key={action}
              shape={shape}
              input={input}
              issues={issues}
              onChange={(next) => change({ input: next })}
            />
          </fieldset>
        ))}
    </>
  );
}
