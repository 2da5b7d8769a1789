/** Lets somebody remove their own account. */
import { useState } from 'preact/hooks';
import { gateway } from '../../gateway.ts';
import { Button, Card, Confirm } from '../../ui/parts.tsx';
import { fresh } from './fresh.ts';

export function RemoveAccount() {
  const [isAsked, setAsked] = useState(false);
  const remove = async () => {
    await fresh(() => gateway.call('DELETE /svc/_people/:pid', { params: { pid: 'me' } }));
    // Nothing that is shown is theirs any more.
    location.replace(location.pathname);
  };
  return (
    <Card title="Remove the account">
      <div class="stack">
        <p class="hint">You can leave this gateway. What you wrote in apps stays.</p>
        <div class="line">
          <Button kind="danger" onClick={() => setAsked(true)}>
            Remove my account…
          </Button>
        </div>
      </div>
      {isAsked && (
        <Confirm title="Remove your account?" verb="Remove my account" onDone={remove} onClose={() => setAsked(false)}>
          <ul class="consequences">
            <li>You are signed out everywhere at once, and your connected programs with you.</li>
            <li>
              Your name, e-mail address, picture, passkeys and password are removed, and what is shared with you is
              yours no more.
            </li>
            <li>
              Apps that you made stay, what you wrote in apps too, and your name where apps, versions and the audit log
              show it.
            </li>
          </ul>
        </Confirm>
      )}
    </Card>
  );
}
