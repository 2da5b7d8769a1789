/** The dialog that asks who is there, before a change of how somebody signs in. */
import { useEffect, useState } from 'preact/hooks';
import { useGateway } from '../../gateway-state.tsx';
import { confirmByPasskey, confirmByPassword, confirmByProxy } from '../../session.ts';
import { Button, Dialog, Problem } from '../../ui/parts.tsx';
import { useWork } from '../../work.ts';
import { HiddenName, PasswordField } from '../fields.tsx';
import { canUsePasskeys } from '../passkeys.ts';
import { ProviderButtons } from '../providers.tsx';
import { type Asked, setAsking } from './fresh.ts';

export function FreshSignIn() {
  const [asked, setAsked] = useState<Asked>();
  useEffect(() => {
    setAsking(setAsked);
    return () => setAsking(null);
  }, []);
  if (asked === undefined) return null;
  const end = (then: () => void) => () => {
    setAsked(undefined);
    then();
  };
  return <WhoIsThere onConfirmed={end(asked.confirmed)} onClose={end(asked.closed)} />;
}

function WhoIsThere({ onConfirmed, onClose }: { onConfirmed: () => void; onClose: () => void }) {
  const { person, ways } = useGateway();
  const [password, setPassword] = useState('');
  const { isBusy, error, run } = useWork();
  const methods = person?.methods ?? [];
  const confirm = (work: () => Promise<void>) => (event: Event) => {
    event.preventDefault();
    void run(async () => {
      await work();
      onConfirmed();
    });
  };
  const linked = (ways?.providers ?? []).filter(({ name }) => methods.includes(`provider:${name}`));
  return (
    <Dialog title="Is it you?" onClose={onClose}>
      <form class="stack" onSubmit={confirm(() => confirmByPassword(password))}>
        <p>You signed in a while ago. Confirm that it is you, to go on.</p>
        {methods.includes('passkey') && canUsePasskeys && (
          <div class="line">
            <Button kind="primary" disabled={isBusy} onClick={confirm(confirmByPasskey)}>
              Use a passkey
            </Button>
          </div>
        )}
        {methods.includes('password') && (
          <>
            <HiddenName email={person?.email ?? null} />
            <PasswordField label="Your password" value={password} onChange={setPassword} />
          </>
        )}
        <Problem error={error} />
        <div class="line">
          {methods.includes('password') && (
            <Button type="submit" disabled={isBusy}>
              Confirm
            </Button>
          )}
          {ways?.proxy && (
            <Button disabled={isBusy} onClick={confirm(confirmByProxy)}>
              Confirm by the proxy
            </Button>
          )}
        </div>
        <ProviderButtons providers={linked} verb="Sign in again with" sent={{ view: '#/account' }} />
        {methods.length === 0 && <p class="hint">Sign in again, with a link of an owner of this gateway.</p>}
      </form>
    </Dialog>
  );
}
