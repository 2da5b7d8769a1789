/** Parts of an automation wherever it is shown: its switch, its webhook's address, and a button that runs it now. */
import { useState } from 'preact/hooks';
import type { AutomationRow, ShownTrigger } from '../../protocol/answer-types.ts';
import { go, hrefOf } from '../address.ts';
import { gateway } from '../gateway.ts';
import { runHref } from '../runs/run-words.ts';
import { scheduleWords } from '../schedule-words.ts';
import { CopyField } from '../ui/copy.tsx';
import { notifyProblem } from '../ui/notice.tsx';
import { Button } from '../ui/parts.tsx';

export const automationHref = ({ app, id }: Pick<AutomationRow, 'app' | 'id'>): string =>
  hrefOf(['automations', app, id]);

/** Leads to the form that makes one, of this app or of one that is chosen there. */
export function NewLink({ app }: { app?: string }) {
  return (
    <a class="button primary small" href={hrefOf(['automations', 'new'], { app })}>
      New automation
    </a>
  );
}

/** The whole address of each webhook and, if it refuses every request, the reason. */
export function Addresses({ row }: { row: Pick<AutomationRow, 'ref' | 'triggers'> }) {
  return (
    <>
      {row.triggers.map((trigger) =>
        'url' in trigger ? (
          <div key={trigger.url}>
            <CopyField name="Address" value={trigger.url} of={row.ref} />
            {trigger.problem !== undefined && <p class="problem about">It refuses every request: {trigger.problem}</p>}
          </div>
        ) : null,
      )}
    </>
  );
}

/** A trigger as its author wrote it. */
export function triggerText(trigger: ShownTrigger): string {
  if (trigger.kind === 'cron') return trigger.tz ? `${trigger.expr} ${trigger.tz}` : trigger.expr;
  return 'pending' in trigger ? 'webhook (pending)' : 'webhook';
}

/** A trigger in words: `At 05:00, every day (Europe/Lisbon)`. */
export function triggerWords(trigger: ShownTrigger): string {
  const words = trigger.kind === 'cron' ? scheduleWords(trigger.expr) : null;
  if (words === null) return triggerText(trigger);
  return trigger.kind === 'cron' && trigger.tz ? `${words} (${trigger.tz})` : words;
}

/** Switches it on or off; resolves to its new row. */
export const toggled = ({ app, id, enabled }: Pick<AutomationRow, 'app' | 'id' | 'enabled'>): Promise<AutomationRow> =>
  gateway.call('POST /svc/_automations/:app/:id/enabled', { params: { app, id }, body: { enabled: !enabled } });

/** Fires it now and shows the run. */
export async function runNow({ app, id }: Pick<AutomationRow, 'app' | 'id'>, input?: unknown): Promise<void> {
  const sent = { params: { app, id }, body: { input } };
  const { runId } = await gateway.call('POST /svc/_automations/:app/:id/run', sent);
  go(runHref(runId));
}

export function Switch({ row, onChange }: { row: AutomationRow; onChange: (row: AutomationRow) => void }) {
  return (
    <button
      type="button"
      class="switch"
      role="switch"
      aria-checked={row.enabled}
      aria-label={row.name}
      onClick={() => void toggled(row).then(onChange, notifyProblem)}
    />
  );
}

/** A second click would start a second run, so the button does nothing until the first one is stored. */
export function RunNow({ row, input }: { row: Pick<AutomationRow, 'app' | 'id' | 'name'>; input?: unknown }) {
  const [isWaiting, setWaiting] = useState(false);
  const run = async () => {
    if (isWaiting) return;
    setWaiting(true);
    try {
      await runNow(row, input);
    } catch (error) {
      notifyProblem(error);
      setWaiting(false);
    }
  };
  return (
    <Button class="small" aria-disabled={isWaiting} aria-label={`Run now: ${row.name}`} onClick={() => void run()}>
      Run now
    </Button>
  );
}
