/** Makes another app like this one, with or without its data. */
import { useState } from 'preact/hooks';
import { freeName } from '../../../protocol/ids.ts';
import { go, hrefOf } from '../../address.ts';
import { gateway } from '../../gateway.ts';
import { useGateway } from '../../gateway-state.tsx';
import { APP_ID, idOf } from '../../home/app-names.ts';
import { showMinted } from '../../ui/minted.tsx';
import { notify } from '../../ui/notice.tsx';
import { Button, Card, Dialog, Field, Problem } from '../../ui/parts.tsx';
import { useWork } from '../../work.ts';
import type { AppDetail } from '../views.ts';

export function Duplicate({ app }: { app: AppDetail }) {
  const [isAsking, setAsking] = useState(false);
  return (
    <Card title="Duplicate">
      <div class="setting">
        <p class="hint">Another app with this one's code, and its data if you like, under a new name and id.</p>
        <Button onClick={() => setAsking(true)}>Duplicate…</Button>
      </div>
      {isAsking && <DuplicateDialog app={app} onClose={() => setAsking(false)} />}
    </Card>
  );
}

function DuplicateDialog({ app, onClose }: { app: AppDetail; onClose: () => void }) {
  const { apps = [], reload } = useGateway();
  const { isBusy, error, run } = useWork();
  const [name, setName] = useState(() => freeName(app.name, (one) => apps.some((other) => other.name === one)));
  const [typedId, setId] = useState<string>();
  const [data, setData] = useState(true);
  const id = typedId ?? idOf(name);
  const submit = (event: Event) => {
    event.preventDefault();
    void run(async () => {
      const sent = { params: { id: app.id }, body: { id, name: name.trim(), data } };
      const { webhooks } = await gateway.call('POST /svc/_apps/:id/duplicate', sent);
      reload();
      showMinted(id, webhooks);
      notify(`${id} is live.`);
      onClose();
      go(hrefOf(['apps', id]));
    });
  };
  return (
    <Dialog title={`Duplicate ${app.name}`} onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <Field label="Name">
          <input value={name} required maxLength={200} onInput={({ currentTarget }) => setName(currentTarget.value)} />
        </Field>
        <Field
          label="Id"
          hint={`Its address is /svc/${id || '<id>'}/.`}
          problem={error?.path === 'id' ? error.message : undefined}
        >
          <input
            class="mono"
            value={id}
            required
            pattern={APP_ID}
            onInput={({ currentTarget }) => setId(currentTarget.value)}
          />
        </Field>
        <label class="line">
          <input type="checkbox" checked={data} onChange={({ currentTarget }) => setData(currentTarget.checked)} />
          With its data: database, files and settings
        </label>
        <ul class="consequences hint">
          {app.automations > 0 && <li>Its automations are switched off, and webhooks get addresses of their own.</li>}
          <li>Secrets, tokens, chats and the log are not taken along.</li>
        </ul>
        {error?.path !== 'id' && <Problem error={error} />}
        <div class="line end">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" disabled={isBusy}>
            {isBusy ? 'Duplicating…' : 'Duplicate'}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
