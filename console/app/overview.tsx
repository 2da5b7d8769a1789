/** How an app is: its state, what it did in the last hour, what is live, how large it is, and what visitors may use. */
import type { ActivityAnswer } from '../../protocol/answer-types.ts';
import { route } from '../../protocol/http/addresses.ts';
import { hrefOf } from '../address.ts';
import { lazy } from '../frame/lazy.tsx';
import { gateway } from '../gateway.ts';
import { usePolled } from '../polled.ts';
import { CopyField } from '../ui/copy.tsx';
import { PageFrame } from '../ui/page-frame.tsx';
import { Button, Card, Facts, Loading, Problem, State } from '../ui/parts.tsx';
import { bytes, clock, plural } from '../words.ts';
import { FirstSteps } from './first-steps.tsx';
import { useRestart } from './restart-app.ts';
import type { AppDetail, AppViewId, AppViewProps } from './views.ts';

const READ_MS = 5000;

const ActivityCharts = lazy(async () => (await import('./activity-charts.tsx')).ActivityCharts);

export function Overview({ app, reload: reloadApp }: AppViewProps) {
  const { id } = app;
  const read = (signal: AbortSignal) => gateway.call('GET /svc/_apps/:id/activity', { params: { id } }, { signal });
  const { value, error, reload } = usePolled(read, id, READ_MS);
  const reloadAll = () => {
    reload();
    reloadApp();
  };
  return (
    <>
      {app.status === 'quarantined' && (
        <Quarantined app={app} reason={value?.reason} lastExit={value?.lastExit} onRestarted={reloadAll} />
      )}
      {app.damage !== undefined && (
        <Card class="quarantined" title="The data of this app is damaged">
          <p>{app.damage}</p>
        </Card>
      )}
      {app.description && <p class="lead">{app.description}</p>}
      <div class="beginning">
        {app.page !== undefined && <Page app={app} address={new URL(app.page, location.href).href} />}
        <FirstSteps key={app.id} app={app} />
      </div>
      <section class="section" aria-labelledby="last-hour">
        <h2 id="last-hour">The last hour</h2>
        {value ? (
          <ActivityCharts points={value.points} everyMs={value.everyMs} />
        ) : error ? (
          <Problem error={error} retry={reload} />
        ) : (
          <Loading />
        )}
      </section>
      {value && (
        <Card title="About">
          <About app={app} activity={value} />
        </Card>
      )}
    </>
  );
}

/** A small picture of the page, which is the page itself, and its address. */
function Page({ app, address }: { app: AppDetail; address: string }) {
  const page = route`/svc/${app.id}/`;
  return (
    <Card class="app-page" title="Page">
      <a class="app-picture" href={page} aria-label={`Open ${app.name}`}>
        <div inert>
          <PageFrame page={page} />
        </div>
      </a>
      <CopyField name="Address" value={address} of={app.name} />
    </Card>
  );
}

type QuarantinedProps = {
  app: AppDetail;
  reason: string | null | undefined;
  lastExit: string | null | undefined;
  onRestarted: () => void;
};

function Quarantined({ app, reason, lastExit, onRestarted }: QuarantinedProps) {
  const { isBusy, error, restart } = useRestart(app, onRestarted);
  return (
    <Card class="quarantined" title="This app is out of service">
      <div class="setting">
        <div class="stack">
          <p>
            {reason ? `${reason[0]?.toUpperCase()}${reason.slice(1)}.` : 'The gateway gave up on restarting it.'} Calls
            are refused until it is restarted, or another version is live.
          </p>
          {lastExit && (
            <p class="hint">
              Its last thread ended: <code>{lastExit}</code>
            </p>
          )}
          <p>
            <a href={hrefOf(['apps', app.id, 'logs'], { level: 'error' })}>See the errors in its log</a>
          </p>
          <Problem error={error} />
        </div>
        <Button kind="primary" disabled={isBusy} onClick={restart}>
          {isBusy ? 'Restarting…' : 'Restart'}
        </Button>
      </div>
    </Card>
  );
}

function About({
  app,
  activity: { state, restarts, lastExit, points, files },
}: {
  app: AppDetail;
  activity: ActivityAnswer;
}) {
  const last = points.at(-1);
  const hour = points.reduce((sum, { calls }) => sum + calls, 0);
  const size = last?.dataBytes ?? null;
  const linkTo = (view: AppViewId, text: string | number, query: Record<string, string> = {}) => (
    <a href={hrefOf(['apps', app.id, view], query)}>{text}</a>
  );
  return (
    <Facts
      facts={[
        [
          'Thread',
          <State key="state" state={state} text={state === 'idle' ? 'idle: starts with the next call' : undefined} />,
        ],
        ['Restarts', lastExit === null ? restarts : `${restarts}, the last: ${lastExit}`],
        ['Calls in this hour', hour.toLocaleString()],
        ['Tools', linkTo('tools', `${plural(app.queries, 'query')}, ${plural(app.actions, 'action')}`)],
        ['Automations', linkTo('automations', app.automations)],
        ['Data', linkTo('data', size === null ? 'none yet' : bytes(size))],
        ['Files', linkTo('files', `${files.files.toLocaleString()}, ${bytes(files.bytes)} of ${bytes(files.quota)}`)],
        ['Visitors may use', app.public?.join(', ') ?? 'nothing: it needs a sign-in or a token'],
        ['Live version', linkTo('code', app.activeVersion ?? 'none', { show: 'versions' })],
        ['Updated', clock(app.updatedAt)],
        ['Store', app.backend],
      ]}
    />
  );
}
