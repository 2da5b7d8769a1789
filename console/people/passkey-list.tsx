/** The passkeys of a person: when they were made and used, their names, and their end. */
import { useState } from 'preact/hooks';
import type { RowIn } from '../../protocol/routes/api.ts';
import { gateway } from '../gateway.ts';
import { usePolled } from '../polled.ts';
import { notify } from '../ui/notice.tsx';
import { Button, Card, Confirm, Dialog, Problem } from '../ui/parts.tsx';
import { ago } from '../words.ts';
import { useWork } from '../work.ts';
import { fresh } from './account/fresh.ts';
import { NameForm } from './fields.tsx';
import { canUsePasskeys, makePasskey } from './passkeys.ts';

type Passkey = RowIn<'GET /svc/_people/:pid/passkeys'>;
type PasskeysProps = { id: string; added?: number; onChanged: () => void };

/** One's own. */
export function PasskeysCard({ id, onChanged }: PasskeysProps) {
  const [added, setAdded] = useState(0);
  const { isBusy, error, run } = useWork();
  const add = () =>
    run(async () => {
      const passkey = await makePasskey(await fresh(() => gateway.call('POST /svc/_auth/passkeys/options')));
      await gateway.call('POST /svc/_auth/passkeys', { body: { passkey } });
      notify('The passkey is added: you can sign in with it.');
      setAdded(added + 1);
      onChanged();
    });
  const aside = (
    <Button class="small" disabled={isBusy} onClick={() => void add()}>
      Add a passkey…
    </Button>
  );
  return (
    <Card title="Passkeys" aside={canUsePasskeys && aside}>
      <div class="stack">
        <p class="hint">
          {canUsePasskeys
            ? 'With a passkey you sign in by your face, finger or PIN: there is nothing to remember or to give away.'
            : 'This browser makes no passkeys here. It needs HTTPS, or to be on the machine of the gateway, and to be of 2025 or later.'}
        </p>
        <Problem error={error} />
        <Passkeys id={id} added={added} onChanged={onChanged} />
      </div>
    </Card>
  );
}

/** Those of a person. `added` is how many were added since it is shown. */
export function Passkeys({ id, added = 0, onChanged }: PasskeysProps) {
  const load = (signal: AbortSignal) =>
    gateway.call('GET /svc/_people/:pid/passkeys', { params: { pid: id } }, { signal });
  const { value, error, reload } = usePolled(load, `passkeys ${id} ${added}`, 0);
  const [renaming, setRenaming] = useState<Passkey>();
  const [removing, setRemoving] = useState<Passkey>();
  const changed = () => {
    reload();
    onChanged();
  };
  const remove = async ({ id: passkey, name }: Passkey) => {
    const sent = { params: { pid: id, passkey } };
    await fresh(() => gateway.call('DELETE /svc/_people/:pid/passkeys/:passkey', sent));
    notify(`The passkey ${name} is removed.`);
    changed();
  };
  if (!value) return <Problem error={error} retry={reload} />;
  return (
    <>
      <ul class="plain">
        {value.map((passkey) => (
          <li key={passkey.id} class="line">
            <b>{passkey.name}</b>
            <span class="hint">{aboutOf(passkey)}</span>
            <Button class="small" aria-label={`Rename ${passkey.name}`} onClick={() => setRenaming(passkey)}>
              Rename…
            </Button>
            <Button class="small" aria-label={`Remove ${passkey.name}`} onClick={() => setRemoving(passkey)}>
              Remove
            </Button>
          </li>
        ))}
      </ul>
      {renaming && <RenameDialog id={id} passkey={renaming} onDone={changed} onClose={() => setRenaming(undefined)} />}
      {removing && (
        <Confirm
          title={`Remove ${removing.name}?`}
          verb="Remove passkey"
          onDone={() => remove(removing)}
          onClose={() => setRemoving(undefined)}
        >
          <p>
            It signs nobody in any more. Browsers that are signed in stay so; sign them out where the device is lost.
          </p>
        </Confirm>
      )}
    </>
  );
}

type RenameProps = { id: string; passkey: Passkey; onDone: () => void; onClose: () => void };

function RenameDialog({ id, passkey, onDone, onClose }: RenameProps) {
  const params = { pid: id, passkey: passkey.id };
  const rename = async (name: string) => {
    await gateway.call('PATCH /svc/_people/:pid/passkeys/:passkey', { params, body: { name } });
    onDone();
    onClose();
  };
  return (
    <Dialog title="Rename a passkey" onClose={onClose}>
      <NameForm label="Name" hint="Such as that of its device." name={passkey.name} verb="Rename" onNamed={rename} />
    </Dialog>
  );
}

function aboutOf({ host, synced, createdAt, lastUsedAt }: Passkey): string {
  const used = lastUsedAt === null ? 'never used' : `used ${ago(lastUsedAt)}`;
  const words = [`added ${ago(createdAt)}`, used, ...(synced ? ['on several devices'] : [])];
  return [...words, ...(host === location.hostname ? [] : [`for ${host}`])].join(', ');
}
