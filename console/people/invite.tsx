/** Asks whom to invite, in which role and to which apps. */
import { useState } from 'preact/hooks';
import { LIMITS } from '../../protocol/limits.ts';
import { gateway } from '../gateway.ts';
import { useGateway } from '../gateway-state.tsx';
import { Button, Dialog, Field, Problem } from '../ui/parts.tsx';
import { useWork } from '../work.ts';
import type { Made } from './link-dialog.tsx';
import { type AppRole, ROLE_WORDS, ROLES, type Role, rolesIn, saysOf } from './roles.ts';

type InviteProps = { onMade: (made: Made & { name: string }) => void; onClose: () => void };

export function Invite({ onMade, onClose }: InviteProps) {
  const { apps = [] } = useGateway();
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<Role>('member');
  const [app, setApp] = useState('');
  const [appRole, setAppRole] = useState('viewer');
  const { isBusy, error, run } = useWork();
  const choose = (id: string) => {
    setApp(id);
    setAppRole('viewer');
  };
  const submit = (event: Event) => {
    event.preventDefault();
    void run(async () => {
      const body = {
        role,
        ...(name.trim() !== '' && { name: name.trim() }),
        ...(email.trim() !== '' && { email: email.trim() }),
        ...(app !== '' && { grants: [{ app, role: appRole }] }),
      };
      const { url, mailed } = await gateway.call('POST /svc/_invitations', { body });
      onMade({ url, mailed, name: name.trim() || email.trim() || 'whoever has the link' });
    });
  };
  return (
    <Dialog title="Invite somebody" onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <Field label="Name" hint="They can change it.">
          <input
            value={name}
            maxLength={LIMITS.personNameChars}
            onInput={({ currentTarget }) => setName(currentTarget.value)}
          />
        </Field>
        <Field
          label="E-mail address"
          hint="Apps that are shared with this address are theirs. Without it they say one themselves."
          problem={error?.path === 'email' ? error.message : undefined}
        >
          <input type="email" value={email} onInput={({ currentTarget }) => setEmail(currentTarget.value)} />
        </Field>
        <Field label="Role" hint={ROLE_WORDS[role]}>
          <select value={role} onChange={({ currentTarget }) => setRole(currentTarget.value as Role)}>
            {ROLES.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </Field>
        {role !== 'owner' && apps.length > 0 && (
          <div class="line">
            <Field label="App">
              <select value={app} onChange={({ currentTarget }) => choose(currentTarget.value)}>
                <option value="">none yet</option>
                {apps.map(({ id, name: shown }) => (
                  <option key={id} value={id}>
                    {shown}
                  </option>
                ))}
              </select>
            </Field>
            {app !== '' && (
              <AppRoleField roles={rolesIn(apps.find(({ id }) => id === app))} role={appRole} onChange={setAppRole} />
            )}
          </div>
        )}
        {error?.path !== 'email' && <Problem error={error} />}
        <div class="line end">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" disabled={isBusy}>
            Make the link
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

type AppRoleProps = { roles: readonly AppRole[]; role: string; onChange: (role: string) => void };

/** What the role allows is said before it is given. */
export function AppRoleField({ roles, role, onChange }: AppRoleProps) {
  return (
    <Field label="Role in the app" hint={saysOf(roles, role, 'Who has it')}>
      <select value={role} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
        {roles.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </Field>
  );
}
