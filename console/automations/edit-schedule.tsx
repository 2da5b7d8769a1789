/** Changes when an automation fires, in a draft: its schedules, of which there may be several. */
import { useState } from 'preact/hooks';
import type { AutomationRow } from '../../protocol/answer-types.ts';
import type { CronTrigger } from '../../protocol/automations/automation.ts';
import { automationFile } from '../../protocol/automations/automation.ts';
import { go, hrefOf } from '../address.ts';
import { openDraft, readFile, readWorkspaces, type Source, writeFile } from '../app/code/code-workspace.ts';
import { gateway } from '../gateway.ts';
import { usePolled } from '../polled.ts';
import { notify } from '../ui/notice.tsx';
import { Button, Dialog, Field, Loading, Problem } from '../ui/parts.tsx';
import { useWork } from '../work.ts';
import { draftName } from './automation-drafts.ts';
import { newSchedule, type Schedule, scheduleOf, triggerOf, triggersOf, withSchedules } from './schedule.ts';
import { ownZone, problemOf, ScheduleFields, useGatewayZone } from './schedule-fields.tsx';

const MOST_TRIGGERS = 10;

type EditProps = { row: Pick<AutomationRow, 'app' | 'id' | 'name'>; onClose: () => void };

/** The automation's file in a draft, or of the version that is live by now. */
async function textIn(app: string, workspace: string, file: string, signal: AbortSignal): Promise<string> {
  let source: Source = { app, version: null, workspace };
  if (workspace === '') {
    const { activeVersion } = await gateway.call('GET /svc/_apps/:id', { params: { id: app } }, { signal });
    source = { app, version: activeVersion ?? '', workspace: null };
  }
  return (await readFile(source, file)).text ?? '';
}

export function EditSchedule({ row, onClose }: EditProps) {
  const { app, id, name } = row;
  const [workspace, setWorkspace] = useState('');
  const file = automationFile(id);
  const { value: drafts = [] } = usePolled(() => readWorkspaces(app), `drafts of ${app}`, 0);
  const { value: text, error, reload } = usePolled((signal) => textIn(app, workspace, file, signal), workspace, 0);
  return (
    <Dialog title={`Schedule of ${name}`} onClose={onClose}>
      <div class="stack">
        {drafts.length > 0 && (
          <Field label="Draft" hint="Where it is changed. Nothing fires otherwise before you publish the draft.">
            <select value={workspace} onChange={({ currentTarget }) => setWorkspace(currentTarget.value)}>
              <option value="">A new draft of what is live</option>
              {drafts.map((draft) => (
                <option key={draft.sessionId} value={draft.sessionId}>
                  {draftName(draft)}
                </option>
              ))}
            </select>
          </Field>
        )}
        {text !== undefined ? (
          <Schedules key={workspace} {...{ row, workspace, file, text }} />
        ) : error ? (
          <Problem error={error} retry={reload} />
        ) : (
          <Loading />
        )}
      </div>
    </Dialog>
  );
}

/** Those of a file; none of one that is damaged, which saving then says. */
function schedulesOf(text: string): Schedule[] {
  try {
    return triggersOf(text).flatMap((trigger) => (trigger.kind === 'cron' ? scheduleOf(trigger as CronTrigger) : []));
  } catch {
    return [];
  }
}

type SchedulesProps = Pick<EditProps, 'row'> & { workspace: string; file: string; text: string };

function Schedules({ row: { app, name }, workspace, file, text }: SchedulesProps) {
  const gatewayZone = useGatewayZone();
  const [schedules, setSchedules] = useState(() => schedulesOf(text));
  const { isBusy, error, run } = useWork();
  const problem = schedules.map((one) => problemOf(one, gatewayZone)).find((one) => one !== null) ?? null;
  const save = () =>
    run(async () => {
      const draft = workspace === '' ? await openDraft() : workspace;
      const source: Source = { app, version: null, workspace: draft };
      // As it is in the draft now: somebody may have published or saved another one meanwhile.
      const now = await readFile(source, file);
      await writeFile(source, file, withSchedules(now.text ?? '', schedules.map(triggerOf)), now.sha);
      notify(`The new schedule of “${name}” is in a draft. Look at the change, then publish it.`);
      go(hrefOf(['apps', app, 'code'], { session: draft, show: 'changes' }));
    });
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (problem === null) void save();
      }}
    >
      {schedules.length === 0 && <p>No schedule fires it.</p>}
      {schedules.map((schedule, at) => (
        <fieldset key={at} class="group">
          <legend class="label">{schedules.length === 1 ? 'When' : `When, ${at + 1}`}</legend>
          <ScheduleFields schedule={schedule} onChange={(next) => setSchedules(schedules.with(at, next))} />
          <Button
            class="small"
            aria-label={`Remove schedule ${at + 1}`}
            onClick={() => setSchedules(schedules.toSpliced(at, 1))}
          >
            Remove
          </Button>
        </fieldset>
      ))}
      {schedules.length < MOST_TRIGGERS && (
        <Button class="small start" onClick={() => setSchedules([...schedules, newSchedule(ownZone())])}>
          {schedules.length === 0 ? 'Add a schedule' : 'Add another'}
        </Button>
      )}
      <Problem error={error} />
      <div class="line end sticky-end">
        <Button type="submit" kind="primary" disabled={isBusy || problem !== null}>
          {isBusy ? 'Saving…' : 'Save in a draft'}
        </Button>
      </div>
    </form>
  );
}
