/** One automation: what fires it and when next, how its webhook is called, a run by hand with an input, and its latest runs. */
import { useState } from 'preact/hooks';
import type { AutomationRow, ShownTrigger } from '../../protocol/answer-types.ts';
import { automationFile } from '../../protocol/automations/automation.ts';
import { hrefOf } from '../address.ts';
import { gateway } from '../gateway.ts';
import { useGateway } from '../gateway-state.tsx';
import { usePolled } from '../polled.ts';
import { RunList } from '../runs/run-list.tsx';
import { placeHref } from '../ui/located.tsx';
import { keeping, Minted, showMinted } from '../ui/minted.tsx';
import { notifyProblem } from '../ui/notice.tsx';
import { Button, Card, Confirm, Empty, Field, Loading, Problem } from '../ui/parts.tsx';
import { ahead, clock } from '../words.ts';
import { Addresses, RunNow, Switch, triggerText, triggerWords } from './automation-parts.tsx';
import { nextFires } from './calendar.tsx';
import { EditSchedule } from './edit-schedule.tsx';
import { timeIn } from './schedule-fields.tsx';
import { TestCall } from './test-call.tsx';

export function AutomationView({ app, id }: { app: string; id: string }) {
  const ref = `${app}/${id}`;
  const read = (signal: AbortSignal) =>
    gateway.call('GET /svc/_automations/:app/:id', { params: { app, id } }, { signal });
  const { value: row, error, reload } = usePolled(read, ref);
  const fires = usePolled((signal) => nextFires(app, id, signal), `${ref} ${row?.nextRunAt}`, 0);
  // Also when a version without it goes live while this view is open.
  if (error?.code === 'UNKNOWN_AUTOMATION' || error?.code === 'UNKNOWN_APP') {
    return (
      <Empty title={`There is no automation “${ref}”`} whole>
        <p>
          <a href={hrefOf(['automations'])}>All automations</a>
        </p>
      </Empty>
    );
  }
  if (!row) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  const next = row.enabled ? (fires.value ?? []) : [];
  return (
    <>
      <header class="heading">
        <h1>{row.name}</h1>
        <span class="hint">
          <a href={hrefOf(['apps', app])}>{app}</a>/{id}
        </span>
        <span class="line heading-end">
          <a class="button small" href={placeHref({ app }, automationFile(id))}>
            Code
          </a>
          <span class="hint">{row.enabled ? 'on' : 'off'}</span>
          <Switch row={row} onChange={reload} />
        </span>
      </header>
      {row.description && <p class="lead">{row.description}</p>}
      <Minted app={app} onKept={() => document.getElementById('content')?.focus()} />
      <Card title="Fired by" aside={<ScheduleButton row={row} />}>
        <ul class="stack">
          {row.triggers.map((trigger) => (
            <li key={triggerText(trigger)}>
              {triggerWords(trigger)}
              {trigger.kind === 'cron' && <code class="about">{triggerText(trigger)}</code>}
            </li>
          ))}
          <li class="hint">
            by hand, below or with <code>svc run {ref}</code>
          </li>
        </ul>
        {next.length > 0 && (
          <p class="next-fires">
            <span class="hint">Next:</span>
            {next.map((at) => (
              <time key={at} title={`${clock(at)}, ${ahead(at)}`}>
                {timeIn(at)}
              </time>
            ))}
          </p>
        )}
        <Addresses row={row} />
        {row.triggers.map((trigger) => (
          <Webhook key={triggerText(trigger)} row={row} trigger={trigger} onChange={reload} />
        ))}
      </Card>
      <RunWithInput row={row} />
      <section class="runs-of" aria-label="Its runs">
        <h2>Runs</h2>
        <RunList query={new URLSearchParams({ ref })} />
      </section>
    </>
  );
}

/** Code is changed in drafts, which only the git store has. */
function ScheduleButton({ row }: { row: AutomationRow }) {
  const { apps = [] } = useGateway();
  const [isOpen, setOpen] = useState(false);
  if (apps.find(({ id }) => id === row.app)?.backend !== 'git') return null;
  return (
    <>
      <Button class="small" onClick={() => setOpen(true)}>
        Edit schedule
      </Button>
      {isOpen && <EditSchedule row={row} onClose={() => setOpen(false)} />}
    </>
  );
}

/** How to call the webhook, and the button that makes or replaces its address and secret. */
function Webhook({ row, trigger, onChange }: { row: AutomationRow; trigger: ShownTrigger; onChange: () => void }) {
  const [isAsking, setAsking] = useState(false);
  const [isWaiting, setWaiting] = useState(false);
  if (trigger.kind !== 'webhook') return null;
  const isPending = 'pending' in trigger;
  /** The secret of a service is one of the app's secrets. */
  const hasOwnSecret = 'verify' in trigger && trigger.verify !== undefined;
  const provision = async () => {
    setAsking(false);
    setWaiting(true);
    try {
      const body = { ref: row.ref, ...(!isPending && { renew: true }) };
      const { webhooks } = await keeping(gateway.call('POST /svc/_automations/_provision', { body }));
      showMinted(row.app, webhooks, { renewed: !isPending });
      onChange();
    } catch (error) {
      notifyProblem(error);
    }
    setWaiting(false);
  };
  return (
    <div class="stack webhook">
      {'url' in trigger && <TestCall trigger={trigger} />}
      <p>
        <Button class="small" disabled={isWaiting} onClick={() => (isPending ? void provision() : setAsking(true))}>
          {isPending ? 'Create its address' : hasOwnSecret ? 'Replace its address' : 'Replace address and secret'}
        </Button>
      </p>
      {isAsking && (
        <Confirm
          title={`Replace the address of ${row.ref}?`}
          verb="Replace"
          onDone={() => void provision()}
          onClose={() => setAsking(false)}
        >
          <p>
            The current address stops working at once (404). Its callers need the new one
            {hasOwnSecret ? '' : ' and its secret'}.
          </p>
        </Confirm>
      )}
    </div>
  );
}

/** The input as JSON; an empty text is no input. */
function parsed(text: string): { input?: unknown; problem?: string } {
  if (text.trim() === '') return {};
  try {
    return { input: JSON.parse(text) };
  } catch (error) {
    return { problem: `This is not JSON: ${(error as Error).message}` };
  }
}

function RunWithInput({ row }: { row: AutomationRow }) {
  const [text, setText] = useState('');
  const { input, problem } = parsed(text);
  return (
    <Card title="Run it now" aside={problem === undefined && <RunNow row={row} input={input} />}>
      <Field
        label="Input"
        hint="JSON; empty for none. A webhook's handler gets the body of its request here."
        problem={problem}
      >
        <textarea
          rows={2}
          spellcheck={false}
          class="mono"
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </Field>
    </Card>
  );
}
