/** The account of who is signed in: their name, picture, passkeys, password, and the browsers in which they are signed in. */
import { useState } from 'preact/hooks';
import type { RowIn } from '../../../protocol/routes/api.ts';
import { gateway } from '../../gateway.ts';
import { useGateway } from '../../gateway-state.tsx';
import { notify } from '../../ui/notice.tsx';
import { Button, Card, Problem } from '../../ui/parts.tsx';
import { useWork } from '../../work.ts';
import { Connections } from '../connections.tsx';
import { HiddenName, NameForm, NewPasswordField, PasswordField } from '../fields.tsx';
import { PasskeysCard } from '../passkey-list.tsx';
import { Sessions } from '../person.tsx';
import { ProvidersCard } from '../providers.tsx';
import { fresh } from './fresh.ts';
import { PictureCard } from './picture-card.tsx';
import { RemoveAccount } from './remove-account.tsx';

type Person = RowIn<'GET /svc/_people'>;

const SELF = { pid: 'me' };

export function AccountView() {
  const { person, ways, reload } = useGateway();
  if (person === null) {
    return (
      <>
        <header class="heading">
          <h1>Administrator</h1>
          <p class="hint">
            You have no account: you are signed in with the access token of this gateway, or by its link.
          </p>
        </header>
        <Programs />
      </>
    );
  }
  return (
    <>
      <header class="heading">
        <h1>Your account</h1>
      </header>
      <NameCard key={person.name} person={person} onChanged={reload} />
      <PictureCard person={person} onChanged={reload} />
      {ways?.passkeys && <PasskeysCard id={person.id} onChanged={reload} />}
      {ways?.passwords && person.email !== null && <PasswordCard person={person} onChanged={reload} />}
      <ProvidersCard person={person} providers={ways?.providers ?? []} onChanged={reload} />
      <Card title="Browsers">
        <Sessions id={person.id} />
      </Card>
      <Programs />
      <RemoveAccount />
    </>
  );
}

function Programs() {
  return (
    <Card title="Connected programs">
      <Connections id="me" />
    </Card>
  );
}

type CardProps = { person: Person; onChanged: () => void };

function NameCard({ person, onChanged }: CardProps) {
  const change = async (name: string) => {
    await gateway.call('PATCH /svc/_people/:pid', { params: SELF, body: { name } });
    notify('Your name is changed.');
    onChanged();
  };
  const hint = person.email === null ? undefined : `Your e-mail address is ${person.email}.`;
  return (
    <Card title="Name">
      <NameForm label="Your name" hint={hint} name={person.name} verb="Save" onNamed={change} />
    </Card>
  );
}

function PasswordCard({ person, onChanged }: CardProps) {
  const has = person.methods.includes('password');
  const [current, setCurrent] = useState('');
  const [password, setPassword] = useState('');
  const { isBusy, error, run } = useWork();
  const submit = (event: Event) => {
    event.preventDefault();
    void run(async () => {
      const body = { password, ...(has && { current }) };
      await fresh(() => gateway.call('PUT /svc/_auth/password', { body }));
      notify('Your password is changed, and your other browsers are signed out.');
      setCurrent('');
      setPassword('');
      onChanged();
    });
  };
  const at = (path: string) => (error?.path === path ? error.message : undefined);
  return (
    <Card title="Password">
      <form class="stack" onSubmit={submit}>
        <HiddenName email={person.email} />
        {has && (
          <PasswordField label="Password until now" problem={at('current')} value={current} onChange={setCurrent} />
        )}
        <NewPasswordField label="New password" problem={at('password')} value={password} onChange={setPassword} />
        {error && !['current', 'password'].includes(error.path ?? '') && <Problem error={error} />}
        <div class="line">
          <Button type="submit" disabled={isBusy}>
            Change the password
          </Button>
        </div>
      </form>
    </Card>
  );
}
