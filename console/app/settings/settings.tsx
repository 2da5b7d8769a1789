/** What an app is set to, who has it, what it keeps secret, who may use it by a token, and the ways to restart and remove it. */
import { useEffect, useState } from 'preact/hooks';
import { go, hrefOf } from '../../address.ts';
import { gateway } from '../../gateway.ts';
import { isOwners, makesApps, useGateway } from '../../gateway-state.tsx';
import { Sharing } from '../../people/sharing.tsx';
import { notify } from '../../ui/notice.tsx';
import { Button, Card, Confirm, Problem, State } from '../../ui/parts.tsx';
import { useRestart } from '../restart-app.ts';
import type { AppDetail, AppViewProps } from '../views.ts';
import { Duplicate } from './duplicate.tsx';
import { General, Visibility } from './general.tsx';
import { Knobs } from './knobs.tsx';
import { Secrets } from './secrets.tsx';
import { Tokens } from './tokens.tsx';

/** `part` of the address is what is scrolled to: `secrets`. With `share` it asks with whom to share the app. */
export function SettingsView({ app, address, reload }: AppViewProps) {
  const state = useGateway();
  const part = address.query.get('part');
  useEffect(() => {
    if (part !== null) document.querySelector(`.settings > .${CSS.escape(part)}`)?.scrollIntoView();
  }, [part]);
  return (
    <div class="settings">
      {app.activeVersion !== null && (
        <>
          <General key={`general ${app.name} ${app.description}`} app={app} onChanged={reload} />
          <Knobs app={app} />
          <Visibility key={`visitors ${app.public}`} app={app} onChanged={reload} />
        </>
      )}
      <Sharing app={app.id} name={app.name} isAsked={address.query.has('share')} />
      <Secrets app={app.id} />
      {isOwners(state) && <Tokens app={app.id} />}
      <Restart app={app} onDone={reload} />
      {app.activeVersion !== null && makesApps(state) && <Duplicate app={app} />}
      <Remove app={app} />
    </div>
  );
}

function Restart({ app, onDone }: { app: AppDetail; onDone: () => void }) {
  const { isBusy, error, restart } = useRestart(app, onDone);
  return (
    <Card title="Restart" aside={<State state={app.status} />}>
      <div class="setting">
        <p class="hint">
          Replaces the threads of the app and its automations, and ends a quarantine. Calls that run are finished first;
          data stays as it is.
        </p>
        <Button disabled={isBusy || app.activeVersion === null} onClick={restart}>
          {isBusy ? 'Restarting…' : 'Restart'}
        </Button>
      </div>
      {app.activeVersion === null && <p class="hint">No version is live: there is nothing to restart.</p>}
      <Problem error={error} />
    </Card>
  );
}

function Remove({ app }: { app: AppDetail }) {
  const [isAsking, setAsking] = useState(false);
  return (
    <Card title="Remove this app">
      <div class="setting">
        <p class="hint">The app, its page and its automations end at once. Its data goes to the trash for some days.</p>
        <Button kind="danger" onClick={() => setAsking(true)}>
          Remove…
        </Button>
      </div>
      {isAsking && <RemoveDialog app={app} onClose={() => setAsking(false)} />}
    </Card>
  );
}

function RemoveDialog({ app, onClose }: { app: AppDetail; onClose: () => void }) {
  const { reload } = useGateway();
  const [isForGood, setForGood] = useState(false);
  const removeApp = async () => {
    const query = { purge: isForGood ? '1' : undefined };
    await gateway.call('DELETE /svc/_apps/:id', { params: { id: app.id }, query });
    notify(isForGood ? `${app.name} is removed, with its data` : `${app.name} is removed; its data is in the trash`);
    reload();
    go(hrefOf([]));
  };
  const code =
    app.backend === 'git'
      ? 'The code of all versions stays in the history of the repository.'
      : isForGood
        ? 'All its versions are deleted.'
        : 'All its versions go to the trash.';
  return (
    <Confirm title={`Remove ${app.name}?`} verb={`Remove ${app.name}`} onDone={removeApp} onClose={onClose}>
      <ul class="consequences">
        <li>Its page, tools and streams answer that there is no such app.</li>
        {app.automations > 0 && <li>Its automations stop ({app.automations}), and their runs are forgotten.</li>}
        <li>Secrets and files go with it. Tokens that are only for this app are revoked.</li>
        <li>{code}</li>
        <li>
          {isForGood ? (
            <b>All its data is deleted. Only a backup can bring it back.</b>
          ) : (
            <>
              Its data moves to the trash for 7 days (trashDays). Until then <code>svc trash restore {app.id}</code>, or{' '}
              <a href={hrefOf(['system', 'trash'])}>System, Trash</a>, brings it back.
            </>
          )}
        </li>
      </ul>
      <label class="line">
        <input
          type="checkbox"
          checked={isForGood}
          onChange={({ currentTarget }) => setForGood(currentTarget.checked)}
        />
        Delete it for good, without the trash
      </label>
    </Confirm>
  );
}
