/** Makes an automation without an editor: its name, what fires it and what it does; its files are then in a draft. */
import { useState } from 'preact/hooks';
import type { AppRecord } from '../../protocol/answer-types.ts';
import { go, hrefOf } from '../address.ts';
import { readWorkspaces, type WorkspaceRow } from '../app/code/code-workspace.ts';
import type { AppDetail } from '../app/views.ts';
import { gateway } from '../gateway.ts';
import { useGateway } from '../gateway-state.tsx';
import { idOf } from '../home/app-names.ts';
import { usePolled } from '../polled.ts';
import { notify } from '../ui/notice.tsx';
import { Button, Card, Empty, Field, Loading, Problem } from '../ui/parts.tsx';
import { useWork } from '../work.ts';
import { draftName } from './automation-drafts.ts';
import { Radios } from './radios.tsx';
import { newSchedule, triggerOf } from './schedule.ts';
import { ownZone, problemOf, ScheduleFields, useGatewayZone } from './schedule-fields.tsx';
import { newSender, type Sender, SenderFields, webhookOf } from './sender.tsx';
import { filesOf, missingOf, newTask, type Task, TaskFields } from './task-fields.tsx';

const WAYS = { schedule: 'On a schedule', webhook: 'By a webhook', hand: 'Only by hand' } as const;
type Way = keyof typeof WAYS;

/** `wanted` is the app that the address names, or null. */
export function NewAutomation({ wanted }: { wanted: string | null }) {
  const { apps } = useGateway();
  if (!apps) return <Loading />;
  const own = apps.filter(({ backend, activeVersion }) => backend === 'git' && activeVersion !== null);
  const app = wanted ?? own[0]?.id ?? null;
  return (
    <>
      <header class="heading">
        <h1>New automation</h1>
        {wanted !== null && (
          <span class="hint">
            of{' '}
            <a href={hrefOf(['apps', wanted, 'automations'])}>{apps.find(({ id }) => id === wanted)?.name ?? wanted}</a>
          </span>
        )}
      </header>
      {app === null || !own.some(({ id }) => id === app) ? (
        <NotHere wanted={wanted} app={apps.find(({ id }) => id === app)} />
      ) : (
        <div class="new-automation">
          {wanted === null && (
            <Field label="App">
              <select
                value={app}
                onChange={({ currentTarget }) =>
                  go(hrefOf(['automations', 'new'], { app: currentTarget.value }), { replace: true })
                }
              >
                {own.map(({ id, name }) => (
                  <option key={id} value={id}>
                    {name}
                  </option>
                ))}
              </select>
            </Field>
          )}
          <OfApp key={app} app={app} />
        </div>
      )}
    </>
  );
}

/** Why the app that was asked for, or any, cannot have one made here. */
function NotHere({ wanted, app }: { wanted: string | null; app: AppRecord | undefined }) {
  if (wanted !== null && app === undefined) return <Empty title={`There is no app “${wanted}”`} />;
  if (app?.backend === 'git') {
    return (
      <Empty title={`${app.name} is not published yet`}>
        <p>
          Publish its <a href={hrefOf(['apps', app.id, 'code'])}>draft</a> first.
        </p>
      </Empty>
    );
  }
  return (
    <Empty title={app ? 'This app cannot be changed here' : 'There is no app that could have one'}>
      <p>
        An automation is made in a draft, and drafts need the git store: stop the gateway, run{' '}
        <code>svc convert --store git</code>, and start it again.
      </p>
      <p class="hint">
        Without it, add a folder <code>automations/&lt;name&gt;/</code> to the app’s files and push them.
      </p>
    </Empty>
  );
}

function OfApp({ app }: { app: string }) {
  const read = async (signal: AbortSignal) => {
    const [detail, drafts] = await Promise.all([
      gateway.call('GET /svc/_apps/:id', { params: { id: app } }, { signal }),
      readWorkspaces(app),
    ]);
    return { detail, drafts };
  };
  const { value, error, reload } = usePolled(read, `new automation ${app}`, 0);
  if (!value) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  return <Form {...value} />;
}

function Form({ detail, drafts }: { detail: AppDetail; drafts: readonly WorkspaceRow[] }) {
  const gatewayZone = useGatewayZone();
  const [name, setName] = useState('');
  const [typedId, setId] = useState<string>();
  const [way, setWay] = useState<Way>('schedule');
  const [schedule, setSchedule] = useState(() => newSchedule(ownZone()));
  const [sender, setSender] = useState<Sender>(newSender);
  const [task, setTask] = useState<Task>(() => newTask(detail));
  const [isOn, setOn] = useState(true);
  const [workspace, setWorkspace] = useState('');
  const [isTried, setTried] = useState(false);
  const missing = missingOf(detail, task, way === 'webhook');
  const { isBusy, error, run } = useWork();
  const id = typedId ?? idOf(name);
  const atId = error?.path === 'id' ? error : undefined;

  const make = async () => {
    // The fields say why.
    if (way === 'schedule' && problemOf(schedule, gatewayZone) !== null) return;
    setTried(true);
    if (missing.size > 0) return;
    const { prompt, handler, requires } = filesOf(detail, task, way === 'webhook');
    const triggers = way === 'schedule' ? [triggerOf(schedule)] : way === 'webhook' ? [webhookOf(sender)] : [];
    const manifest = { name: name.trim(), prompt, enabled: isOn, triggers, ...(requires && { requires }) };
    await run(async () => {
      const body = { app: detail.id, id, manifest, handler, sessionId: workspace || undefined };
      const made = await gateway.call('POST /svc/_automations', { body });
      notify(`“${name.trim()}” is in a draft. Look at its files, then publish them.`);
      go(
        hrefOf(['apps', detail.id, 'code'], {
          session: made.sessionId ?? undefined,
          file: `automations/${id}/handler.js`,
        }),
      );
    });
  };
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        void make();
      }}
    >
      <Card>
        <div class="schedule-row">
          <Field label="Name">
            <input
              value={name}
              required
              pattern=".*\S.*"
              maxLength={200}
              placeholder="Morning digest"
              onInput={({ currentTarget }) => setName(currentTarget.value)}
            />
          </Field>
          <Field label="Id" hint={`automations/${id || '<id>'}/`} problem={atId?.message}>
            <input
              class="mono"
              value={id}
              required
              pattern="[A-Za-z0-9][A-Za-z0-9_\-]{0,63}"
              title="Letters, digits, hyphens and underscores, beginning with a letter or digit"
              onInput={({ currentTarget }) => setId(currentTarget.value)}
            />
          </Field>
        </div>
      </Card>
      <Card title="When">
        <div class="stack">
          <Radios name="way" label="What fires it" choices={WAYS} value={way} onChoose={setWay} />
          {way === 'schedule' && <ScheduleFields schedule={schedule} onChange={setSchedule} />}
          {way === 'webhook' && <SenderFields app={detail.id} sender={sender} onChange={setSender} />}
          {way === 'hand' && (
            <p class="hint">
              You start it here, or with{' '}
              <code>
                svc run {detail.id}/{id || '<id>'}
              </code>
              . Another automation can name it as its <code>onFailure</code>.
            </p>
          )}
        </div>
      </Card>
      <Card title="What it does">
        <TaskFields
          app={detail}
          task={task}
          isWebhook={way === 'webhook'}
          issues={isTried ? missing : new Map()}
          onChange={setTask}
        />
      </Card>
      <Card title="Where">
        <div class="stack">
          <Field label="Draft" hint="Nothing fires before you publish the draft.">
            <select value={workspace} onChange={({ currentTarget }) => setWorkspace(currentTarget.value)}>
              <option value="">A new draft</option>
              {drafts.map((draft) => (
                <option key={draft.sessionId} value={draft.sessionId}>
                  {draftName(draft)}
                </option>
              ))}
            </select>
          </Field>
          <label class="check">
            <input type="checkbox" checked={isOn} onChange={({ currentTarget }) => setOn(currentTarget.checked)} />
            On as soon as it is published
          </label>
        </div>
      </Card>
      {!atId && <Problem error={error} />}
      <div class="line">
        <Button type="submit" kind="primary" disabled={isBusy}>
          {isBusy ? 'Making the draft…' : 'Make it in a draft'}
        </Button>
        <a class="button plain" href={hrefOf(['apps', detail.id, 'automations'])}>
          Cancel
        </a>
      </div>
    </form>
  );
}
