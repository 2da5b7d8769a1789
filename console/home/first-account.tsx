/** Offers the administrator an account of their own, while nobody has one. */
import { useState } from 'preact/hooks';
import { gateway } from '../gateway.ts';
import { Button, Card, Problem } from '../ui/parts.tsx';
import { useWork } from '../work.ts';

const KEY = 'svc:no-account';

function wasDeclined(): boolean {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return false;
  }
}

/** It is made like others: with an invitation, which is opened here. Once declined it is offered no more in this browser. */
export function FirstAccount() {
  const [isOffered, setOffered] = useState(!wasDeclined());
  const { isBusy, error, run } = useWork();
  if (!isOffered) return null;
  const make = () =>
    run(async () => {
      const { url } = await gateway.call('POST /svc/_invitations', { body: { role: 'owner', expiresInDays: 1 } });
      location.hash = new URL(url).hash;
    });
  const decline = () => {
    setOffered(false);
    try {
      localStorage.setItem(KEY, '1');
    } catch {
      // It is offered again.
    }
  };
  return (
    <Card title="Make an account for yourself">
      <div class="stack">
        <p>
          You are signed in with the access token of this gateway. With an account you sign in with a passkey or a
          password, apps know your name, and you can share them with others. The token stays: for programs, for{' '}
          <code>svc</code>, and as your way in when all else is lost.
        </p>
        <Problem error={error} />
        <div class="line">
          <Button kind="primary" disabled={isBusy} onClick={() => void make()}>
            Make my account
          </Button>
          <Button onClick={decline}>Not now</Button>
        </div>
      </div>
    </Card>
  );
}
