/** Takes an invitation: says what it is for, and asks for what a new account needs. */
import { useEffect, useState } from 'preact/hooks';
import type { Received } from '../../protocol/routes/api.ts';
import { gateway } from '../gateway.ts';
import { enterSession, join, readSession, type Session } from '../session.ts';
import { Button, Field, Problem } from '../ui/parts.tsx';
import { useWork } from '../work.ts';
import { NameField, NewPasswordField } from './fields.tsx';
import { canUsePasskeys, makePasskey } from './passkeys.ts';
import { ProviderButtons } from './providers.tsx';
import { APP_ROLES, ROLE_WORDS, saysOf } from './roles.ts';

type Invitation = Received<'POST /svc/_auth/invitation'>;

/** `onDone` says whether somebody joined. */
export function Join({ code, onDone }: { code: string; onDone: (hasJoined: boolean) => void }) {
  const [shown, setShown] = useState<Pick<JoinFormProps, 'invitation' | 'self' | 'ways' | 'isAdministrators'>>();
  const [problem, setProblem] = useState<Error>();
  useEffect(() => {
    const read = async () => {
      const invitation = await gateway.call('POST /svc/_auth/invitation', { body: { code } });
      // What the proxy says against it is said where one signs in.
      const session = await enterSession().catch(readSession);
      const { person = null, ways = NO_WAYS, signedIn = false } = session ?? {};
      setShown({ invitation, self: person?.name ?? null, ways, isAdministrators: signedIn && person === null });
    };
    read().catch(setProblem);
  }, [code]);
  return (
    <main class="signin">
      {problem && (
        <div class="card stack">
          <h1>This invitation does not work</h1>
          <Problem error={problem} />
          <div class="line">
            <Button onClick={() => onDone(false)}>Sign in</Button>
          </div>
        </div>
      )}
      {shown && <JoinForm code={code} {...shown} onDone={onDone} />}
    </main>
  );
}

/** Where the gateway's host says who people are. */
const NO_WAYS: Session['ways'] = { passwords: false, passkeys: false, providers: [], proxy: false };

type JoinFormProps = {
  code: string;
  invitation: Invitation;
  self: string | null;
  ways: Session['ways'];
  /** The administrator takes it, who has no account. */
  isAdministrators: boolean;
  onDone: (hasJoined: boolean) => void;
};

function JoinForm({ code, invitation, self, ways, isAdministrators, onDone }: JoinFormProps) {
  const onJoined = () => onDone(true);
  const [name, setName] = useState(invitation.name ?? '');
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const { isBusy, error, run } = useWork();
  const { person } = invitation;
  const isNew = person === null && self === null;
  /** Who takes it says how they sign in from now on. */
  const setsUp = isNew || person !== null;
  const offersPasskey = setsUp && canUsePasskeys && ways.passkeys;
  const hasPassword = setsUp && ways.passwords;
  const said = { code, ...(isNew && { name: name.trim() }) };
  const saidEmail = isNew && invitation.email === null && { email: email.trim() };
  const submit = (event: Event) => {
    event.preventDefault();
    void run(() => join({ ...said, ...saidEmail, ...(password !== '' && { password }) }).then(onJoined));
  };
  const joinByPasskey = async () => {
    const passkey = await makePasskey(await gateway.call('POST /svc/_auth/join/options', { body: said }));
    await join({ ...said, ...(email.trim() !== '' && saidEmail), passkey });
    onJoined();
  };
  const at = (path: string) => (error?.path === path ? error.message : undefined);
  const isElsewhere = error !== undefined && !['name', 'email', 'password'].includes(error.path ?? '');
  return (
    <form class="card" onSubmit={submit}>
      <h1>{headingOf(invitation, self, isAdministrators)}</h1>
      <Purpose invitation={invitation} />
      {isNew && (
        <NameField label="Your name" problem={at('name')} autocomplete="name" value={name} onChange={setName} />
      )}
      {offersPasskey && <PasskeyChoice isBusy={isBusy} onChosen={() => void run(joinByPasskey)} />}
      {isNew && <EmailField given={invitation.email} email={email} problem={at('email')} onChange={setEmail} />}
      {hasPassword && <NewPassword isNew={isNew} value={password} onChange={setPassword} problem={at('password')} />}
      {isElsewhere && <Problem error={error} />}
      <div class="line">
        {(hasPassword || !isNew) && (
          <Button type="submit" kind={offersPasskey ? 'plain' : 'primary'} disabled={isBusy}>
            {actionOf(invitation, self)}
          </Button>
        )}
        {isAdministrators && <Button onClick={() => onDone(false)}>Not now</Button>}
      </div>
      {setsUp && (
        <ProviderButtons
          providers={ways.providers}
          verb={isNew ? 'Join with' : 'Sign in with'}
          sent={{ invitation: code }}
        />
      )}
    </form>
  );
}

type EmailFieldProps = {
  /** What the invitation says. */
  given: string | null;
  email: string;
  problem: string | undefined;
  onChange: (email: string) => void;
};

function EmailField({ given, email, problem, onChange }: EmailFieldProps) {
  return (
    <Field label="E-mail address" hint="You sign in with it." problem={problem}>
      <input
        type="email"
        autocomplete="username"
        required
        disabled={given !== null}
        value={given ?? email}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </Field>
  );
}

type NewPasswordProps = Pick<Parameters<typeof NewPasswordField>[0], 'problem' | 'value' | 'onChange'>;

function NewPassword({ isNew, ...field }: NewPasswordProps & { isNew: boolean }) {
  if (isNew) return <NewPasswordField label="Password" {...field} />;
  return <NewPasswordField label="New password" aside=" Leave it empty to keep the old one." isOptional {...field} />;
}

function PasskeyChoice({ isBusy, onChosen }: { isBusy: boolean; onChosen: () => void }) {
  return (
    <div class="line">
      <Button kind="primary" disabled={isBusy} onClick={onChosen}>
        Make a passkey
      </Button>
      <span class="hint">Then your face, finger or PIN signs you in. Or, with a password:</span>
    </div>
  );
}

function headingOf({ person, by }: Invitation, self: string | null, isAdministrators: boolean): string {
  if (person !== null) return `Welcome back, ${person}`;
  if (isAdministrators) return 'Make your account';
  if (self !== null) return 'An invitation for you';
  return by === null ? 'You are invited' : `${by} invites you`;
}

function doesOf({ role, roleName, roleDescription }: Invitation['apps'][number]): string {
  if (roleName === undefined) return saysOf(APP_ROLES, role, role === 'editor' ? 'an editor' : `a ${role}`);
  return roleDescription === undefined ? roleName : `${roleName}. ${roleDescription}`;
}

function actionOf({ person }: Invitation, self: string | null): string {
  if (person !== null) return 'Sign in';
  return self === null ? 'Make the account' : `Take it as ${self}`;
}

function Purpose({ invitation: { role, apps, person } }: { invitation: Invitation }) {
  if (person !== null) return <p class="hint">This link signs you in, once.</p>;
  return (
    <>
      {role !== 'member' && (
        <p>
          Your role: <strong>{role}</strong>. {ROLE_WORDS[role]}
        </p>
      )}
      {apps.length > 0 && (
        <ul class="granted">
          {apps.map((app) => (
            <li key={app.id}>
              <strong>{app.name}</strong>: {doesOf(app)}
            </li>
          ))}
        </ul>
      )}
      {role === 'member' && apps.length === 0 && <p class="hint">To an account on this gateway.</p>}
    </>
  );
}
