/** The automations of one app, or of all: what fires each and when next, and how it ended last. */
import { useState } from 'preact/hooks';
import type { AutomationRow } from '../../protocol/answer-types.ts';
import { automationFile } from '../../protocol/automations/automation.ts';
import { outcomeOf } from '../../protocol/automations/runs.ts';
import { hrefOf } from '../address.ts';
import { useGateway } from '../gateway-state.tsx';
import { type Polled, usePolled } from '../polled.ts';
import { useRunsStream } from '../runs/run-streams.ts';
import { runHref } from '../runs/run-words.ts';
import { placeHref } from '../ui/located.tsx';
import { Card, Empty, Loading, Problem, State } from '../ui/parts.tsx';
import { ago, ahead, clock } from '../words.ts';
import { Addresses, automationHref, RunNow, Switch, triggerText, triggerWords } from './automation-parts.tsx';
import { type Automations, readAutomations } from './read-automation.ts';

/** A change without a run, such as a switch in another browser, shows after this time. */
const READ_MS = 5000;

/** The automations of one app, or of all, kept up to date. */
function useAutomations(app?: string): Polled<Automations> & { put: (row: AutomationRow) => void } {
  const read = usePolled((signal) => readAutomations(app, signal), `automations of ${app}`, READ_MS);
  /** Rows that an answer changed since the list was read. */
  const [changed, setChanged] = useState<{ of: Automations | undefined; rows: ReadonlyMap<string, AutomationRow> }>();
  const known = changed !== undefined && changed.of === read.value ? changed.rows : new Map<string, AutomationRow>();
  const put = (row: AutomationRow) => setChanged({ of: read.value, rows: new Map(known).set(row.ref, row) });
  useRunsStream({ app }, read.reload, read.reload);
  const value = read.value && { ...read.value, rows: read.value.rows.map((row) => known.get(row.ref) ?? row) };
  return { ...read, value, put };
}

/** The file of an automation that cannot be used. */
function fileHref(ref: string, code: string): string {
  const [app = '', id = ''] = ref.split('/');
  return placeHref({ app }, code === 'flat_file' ? `automations/${id}.json` : automationFile(id));
}

/** The list for one app, or for all, grouped by app. */
export function AutomationList({ app }: { app?: string }) {
  const { value, error, reload, put } = useAutomations(app);
  const { apps = [] } = useGateway();
  if (!value) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  if (value.rows.length + value.errors.length === 0) {
    return (
      <Empty title={app === undefined ? 'No app has automations yet' : 'The app has no automations yet'}>
        <p class="hint">
          An automation runs by itself: on a schedule, or when somebody posts to its address. It asks an agent, runs an
          action, or does what its handler says.
        </p>
      </Empty>
    );
  }
  const names = new Map(apps.map(({ id, name }) => [id, name]));
  const groups = Map.groupBy(value.rows, (row) => row.app);
  return (
    <>
      {error && <Problem error={error} retry={reload} />}
      {value.errors.length > 0 && (
        <ul class="stack" aria-label="Damaged automations">
          {value.errors.map(({ ref, code, message }) => (
            <li key={ref} class="problem">
              <a href={fileHref(ref, code)}>{ref}</a>: {message} ({code})
            </li>
          ))}
        </ul>
      )}
      {value.rows.length > 0 && (
        <Card class="table">
          <table class="automations">
            <thead>
              <tr>
                <th>On</th>
                <th>Automation</th>
                <th>Fired by</th>
                <th>Next</th>
                <th>Last run</th>
                <td></td>
              </tr>
            </thead>
            {[...groups].map(([id, rows]) => (
              <tbody key={id}>
                {app === undefined && (
                  <tr>
                    <th colSpan={6} scope="rowgroup">
                      <a class="plain" href={hrefOf(['apps', id, 'automations'])}>
                        <b>{names.get(id) ?? id}</b>
                      </a>
                    </th>
                  </tr>
                )}
                {rows.map((row) => (
                  <Row key={row.ref} row={row} onChange={put} />
                ))}
              </tbody>
            ))}
          </table>
        </Card>
      )}
    </>
  );
}

function Row({ row, onChange }: { row: AutomationRow; onChange: (row: AutomationRow) => void }) {
  const { lastRun, nextRunAt, name, description, triggers, enabled } = row;
  return (
    <tr>
      <td>
        <Switch row={row} onChange={onChange} />
      </td>
      <td>
        <a class="plain" href={automationHref(row)}>
          <b>{name}</b>
        </a>
        {description && <span class="hint about">{description}</span>}
        <Addresses row={row} />
      </td>
      <td title={triggers.map(triggerText).join('; ')}>
        {triggers.length === 0
          ? 'by hand'
          : triggers.map((trigger, at) => (
              <span key={triggerText(trigger)} class="trigger">
                {triggerWords(trigger)}
                {at < triggers.length - 1 && <span class="narrow">; </span>}
              </span>
            ))}
      </td>
      <td>{enabled && nextRunAt ? <time title={clock(nextRunAt)}>{ahead(nextRunAt)}</time> : '–'}</td>
      <td>
        {lastRun ? (
          <>
            <a class="plain" href={runHref(lastRun.runId)}>
              <State state={lastRun.state} /> <span class="hint">{ago(lastRun.startedAt ?? lastRun.queuedAt)}</span>
            </a>
            <span class={`about ${lastRun.error ? 'problem' : 'hint'}`} title={outcomeOf(lastRun)}>
              {lastRun.error?.message ?? outcomeOf(lastRun)}
            </span>
          </>
        ) : (
          <span class="hint">never</span>
        )}
      </td>
      <td class="number">
        <RunNow row={row} />
      </td>
    </tr>
  );
}
