/** One person: role, whether they may sign in, where they are signed in, their passkeys, a link for who has lost the password, and removal. */
import { useState } from 'preact/hooks';
import type { RowIn } from '../../protocol/routes/api.ts';
import { browserWords } from '../../protocol/text/browser-words.ts';
import { gateway } from '../gateway.ts';
import { usePolled } from '../polled.ts';
import { notify } from '../ui/notice.tsx';
import { Button, Confirm, Dialog, Field, Problem } from '../ui/parts.tsx';
import { ago } from '../words.ts';
import { useWork } from '../work.ts';
import { Connections } from './connections.tsx';
import type { Made } from './link-dialog.tsx';
import { Passkeys } from './passkey-list.tsx';
import { ROLE_WORDS, ROLES, type Role } from './roles.ts';

type Person = RowIn<'GET /svc/_people'>;
type PersonProps = { person: Person; onChanged: () => void; onLink: (made: Made) => void; onClose: () => void };

export function PersonDialog({ person, onChanged, onLink, onClose }: PersonProps) {
  const { id, name, role, disabled } = person;
  const params = { pid: id };
  const [isRemoving, setRemoving] = useState(false);
  const { isBusy, error, run } = useWork();
  const change = (body: { role?: Role; disabled?: boolean }, said: string) =>
    run(async () => {
      await gateway.call('PATCH /svc/_people/:pid', { params, body });
      notify(said);
      onChanged();
    });
  const link = () => run(async () => onLink(await gateway.call('POST /svc/_people/:pid/link', { params })));
  const remove = async () => {
    await gateway.call('DELETE /svc/_people/:pid', { params });
    notify(`${name} is removed.`);
    onChanged();
    onClose();
  };
  return (
    <Dialog title={name} onClose={onClose}>
      <div class="stack">
        <Field label="Role" hint={ROLE_WORDS[role]}>
          <select
            value={role}
            disabled={isBusy}
            onChange={({ currentTarget: { value } }) =>
              void change({ role: value as Role }, `${name} is ${value} now.`)
            }
          >
            {ROLES.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </Field>
        <Sessions id={id} />
        {person.methods.includes('passkey') && <Passkeys id={id} onChanged={onChanged} />}
        <Connections id={id} />
        <Problem error={error} />
        <div class="line">
          <Button disabled={isBusy} onClick={() => void link()}>
            Link to sign in…
          </Button>
          <Button
            disabled={isBusy}
            onClick={() =>
              void change(
                { disabled: !disabled },
                disabled ? `${name} may sign in again.` : `${name} is signed out, and may not sign in.`,
              )
            }
          >
            {disabled ? 'Let them sign in' : 'Keep them out'}
          </Button>
          <Button kind="danger" onClick={() => setRemoving(true)}>
            Remove…
          </Button>
        </div>
      </div>
      {isRemoving && (
        <Confirm title={`Remove ${name}?`} verb={`Remove ${name}`} onDone={remove} onClose={() => setRemoving(false)}>
          <ul class="consequences">
            <li>They are signed out at once, and what is shared with them is theirs no more.</li>
            <li>Apps that they made stay, and what they wrote in apps too.</li>
          </ul>
        </Confirm>
      )}
    </Dialog>
  );
}

/** Where somebody is signed in; each can be ended. */
export function Sessions({ id }: { id: string }) {
  const params = { pid: id };
  const load = (signal: AbortSignal) => gateway.call('GET /svc/_people/:pid/sessions', { params }, { signal });
  const { value, error, reload } = usePolled(load, `sessions ${id}`, 0);
  const { isBusy, error: problem, run } = useWork();
  const end = (session: string) =>
    run(async () => {
      await gateway.call('DELETE /svc/_people/:pid/sessions/:session', { params: { pid: id, session } });
      reload();
    });
  if (!value) return <Problem error={error} retry={reload} />;
  return (
    <div class="stack">
      <span class="label">{value.length === 0 ? 'Signed in nowhere' : 'Signed in with'}</span>
      <ul class="plain">
        {value.map(({ id: session, device, address, lastUsedAt, current }) => (
          <li key={session} class="line">
            <span class="hint">
              {browserWords(device)}, {address}, {current ? 'this one' : ago(lastUsedAt)}
            </span>
            {!current && (
              <Button class="small" disabled={isBusy} onClick={() => void end(session)}>
                Sign out
              </Button>
            )}
          </li>
        ))}
      </ul>
      <Problem error={problem} />
    </div>
  );
}
