/** The secrets of an app, or of a draft of it: lists their names, sets and removes them. Values are sent, and never shown again. */
import { useRef, useState } from 'preact/hooks';
import { gateway } from '../../gateway.ts';
import { usePolled } from '../../polled.ts';
import { Button, Card, Confirm, Field, Loading, Problem, State } from '../../ui/parts.tsx';
import { ago, clock } from '../../words.ts';
import { useWork } from '../../work.ts';

const STATES = { set: 'set', unreadable: 'cannot be read: set it again', missing: 'no value in this draft' } as const;

/** Of the app, or of its draft in the workspace. */
export function Secrets({ app: id, workspace: sid }: { app: string; workspace?: string | undefined }) {
  const read = (signal: AbortSignal) => gateway.call('GET /svc/_apps/:id/secrets', { params: { id, sid } }, { signal });
  const { value: rows, error, reload } = usePolled(read, `${id} ${sid}`, 0);
  const { isBusy, error: refusal, run, clear } = useWork();
  const [name, setName] = useState('');
  const [value, setValue] = useState('');
  const [removing, setRemoving] = useState<string>();
  const [said, setSaid] = useState('');
  const nameField = useRef<HTMLInputElement>(null);
  const valueField = useRef<HTMLTextAreaElement>(null);

  const set = async (event: Event) => {
    event.preventDefault();
    const called = name.trim();
    setSaid('');
    const sent = { params: { id, sid, name: called }, body: { value } };
    if (!(await run(() => gateway.call('PUT /svc/_apps/:id/secrets/:name', sent)))) return;
    setSaid(`${called} is set`);
    setName('');
    setValue('');
    reload();
    nameField.current?.focus();
  };
  const drop = async (dropped: string) => {
    setSaid('');
    clear();
    await gateway.call('DELETE /svc/_apps/:id/secrets/:name', { params: { id, sid, name: dropped } });
    setSaid(`${dropped} is removed`);
    reload();
    nameField.current?.focus();
  };
  const isAtValue = refusal?.path === 'value';
  return (
    <Card class="secrets" title={sid === undefined ? 'Secrets' : 'Secrets of the draft'}>
      <p class="hint">
        Keys and passwords for handlers: <code>await ctx.secrets.get('NAME')</code>. They are stored encrypted, replaced
        in logs and results, and never shown again.
        {sid !== undefined && ' A draft never gets a value of the live app.'}
      </p>
      {rows === undefined && (error ? <Problem error={error} retry={reload} /> : <Loading />)}
      {rows?.length === 0 && <p class="none">No secrets yet. Set the first one below.</p>}
      {rows !== undefined && rows.length > 0 && (
        <ul class="rows" aria-label="Secrets">
          {rows.map(({ name: called, state, updatedAt }) => (
            <li key={called}>
              <code class="row-name">{called}</code>
              {updatedAt !== null && state === 'set' ? (
                <span class="hint" title={clock(updatedAt)}>
                  set {ago(updatedAt)}
                </span>
              ) : (
                <State state={state === 'missing' ? 'waiting' : 'error'} text={STATES[state]} />
              )}
              <span class="row-acts">
                <Button
                  class="small"
                  aria-label={`Replace ${called}`}
                  onClick={() => {
                    setName(called);
                    valueField.current?.focus();
                  }}
                >
                  Replace
                </Button>
                {state !== 'missing' && (
                  <Button class="small" aria-label={`Remove ${called}`} onClick={() => setRemoving(called)}>
                    Remove
                  </Button>
                )}
              </span>
            </li>
          ))}
        </ul>
      )}
      <form class="secret-form" onSubmit={set} autocomplete="off">
        <Field label="Name" problem={refusal && !isAtValue ? refusal.message : undefined}>
          <input
            ref={nameField}
            value={name}
            onInput={({ currentTarget }) => setName(currentTarget.value)}
            placeholder="STRIPE_KEY"
            required
            maxLength={64}
            pattern="\s*[A-Za-z_][A-Za-z0-9_]*\s*"
            title="Letters, digits and underscores; no digit first"
            spellcheck={false}
            autocapitalize="off"
          />
        </Field>
        <Field label="Value" problem={refusal && isAtValue ? refusal.message : undefined}>
          <textarea
            ref={valueField}
            class="secret-value"
            value={value}
            onInput={({ currentTarget }) => setValue(currentTarget.value)}
            rows={1}
            required
            spellcheck={false}
            autocapitalize="off"
          />
        </Field>
        <Button kind="primary" type="submit" disabled={isBusy}>
          {rows?.some((row) => row.name === name.trim()) ? 'Replace secret' : 'Set secret'}
        </Button>
      </form>
      <p class="hint" role="status">
        {said}
      </p>
      {removing !== undefined && (
        <Confirm
          title={`Remove ${removing}?`}
          verb="Remove secret"
          onDone={() => drop(removing)}
          onClose={() => setRemoving(undefined)}
        >
          <p>Its value is lost. Handlers that ask for it fail from the next call on.</p>
        </Confirm>
      )}
    </Card>
  );
}
