/** The people of the gateway: who they are and what they may do, invitations that wait, and groups. */
import { useState } from 'preact/hooks';
import type { RowIn } from '../../protocol/routes/api.ts';
import { gateway } from '../gateway.ts';
import { usePolled } from '../polled.ts';
import { notify, notifyProblem } from '../ui/notice.tsx';
import { Button, Card, Confirm, Empty, Loading, Problem } from '../ui/parts.tsx';
import { ago, ahead, clock } from '../words.ts';
import { Groups } from './groups.tsx';
import { Invite } from './invite.tsx';
import { LinkDialog, type Made } from './link-dialog.tsx';
import { PersonDialog } from './person.tsx';
import { Portrait } from './portrait.tsx';

type Invitation = RowIn<'GET /svc/_invitations'>;

async function readPeople(signal: AbortSignal) {
  const [people, invitations, groups] = await Promise.all([
    gateway.all('GET /svc/_people', {}, ({ id }) => ({ after: id }), { signal }),
    gateway.call('GET /svc/_invitations', {}, { signal }),
    gateway.call('GET /svc/_groups', {}, { signal }),
  ]);
  people.sort((one, other) => one.name.localeCompare(other.name));
  return { people, invitations, groups };
}

export function PeopleView() {
  const { value, error, reload } = usePolled(readPeople, 'people');
  const [isInviting, setInviting] = useState(false);
  const [shown, setShown] = useState<string>();
  const [withdrawing, setWithdrawing] = useState<Invitation>();
  const [link, setLink] = useState<Made & { name: string }>();
  if (!value) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  const { people, invitations, groups } = value;
  const person = people.find(({ id }) => id === shown);
  const inviteButton = (
    <Button kind="primary" onClick={() => setInviting(true)}>
      Invite…
    </Button>
  );
  const withdraw = async ({ id }: Invitation) => {
    await gateway.call('DELETE /svc/_invitations/:invitation', { params: { invitation: id } });
    notify('The invitation is withdrawn: its link works no more.');
    reload();
  };
  return (
    <>
      <header class="heading line">
        <h1>People</h1>
        {people.length > 0 && inviteButton}
      </header>
      <Problem error={error} retry={reload} />
      {people.length === 0 ? (
        <Empty title="Nobody has an account yet">
          <p class="hint">
            Invite somebody: they get an account with a link, and use the apps that you share with them. You keep the
            access token of this gateway, which is not a person.
          </p>
          <p>{inviteButton}</p>
        </Empty>
      ) : (
        <Card class="table" title="Accounts">
          <table class="stacked">
            <thead>
              <tr>
                <th>Name</th>
                <th class="wide">E-mail address</th>
                <th>Role</th>
                <th class="wide">Last seen</th>
                <td />
              </tr>
            </thead>
            <tbody>
              {people.map((one) => (
                <tr key={one.id}>
                  <td>
                    <span class="line">
                      <Portrait {...one} />
                      <b>{one.name}</b>
                    </span>{' '}
                    {one.disabled && <span class="hint">disabled</span>}
                  </td>
                  <td class="wide">{one.email}</td>
                  <td>{one.role}</td>
                  <td class="wide">{one.lastSeenAt === null ? 'never' : ago(one.lastSeenAt)}</td>
                  <td class="number">
                    <Button class="small" aria-label={`Change ${one.name}`} onClick={() => setShown(one.id)}>
                      Change…
                    </Button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Card>
      )}
      {invitations.length > 0 && (
        <Card class="table" title="Invitations">
          <table class="stacked">
            <thead>
              <tr>
                <th>For</th>
                <th>Gives</th>
                <th class="wide">Uses</th>
                <th>Expires</th>
                <td />
              </tr>
            </thead>
            <tbody>
              {invitations.map((one) => (
                <tr key={one.id}>
                  <td>{one.name ?? one.email ?? 'whoever has the link'}</td>
                  <td>{givenBy(one)}</td>
                  <td class="wide">{one.uses}</td>
                  <td title={clock(one.expiresAt)}>{ahead(one.expiresAt)}</td>
                  <td class="number">
                    <Button class="small" onClick={() => setWithdrawing(one)}>
                      Withdraw
                    </Button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Card>
      )}
      {people.length > 0 && <Groups groups={groups} people={people} onChanged={reload} />}
      {isInviting && (
        <Invite
          onMade={(made) => {
            setInviting(false);
            setLink(made);
            reload();
          }}
          onClose={() => setInviting(false)}
        />
      )}
      {link && <LinkDialog title={`Invitation for ${link.name}`} {...link} onClose={() => setLink(undefined)} />}
      {person && (
        <PersonDialog
          person={person}
          onChanged={reload}
          onLink={(made) => {
            setShown(undefined);
            setLink({ ...made, name: person.name });
          }}
          onClose={() => setShown(undefined)}
        />
      )}
      {withdrawing && (
        <Confirm
          title="Withdraw this invitation?"
          verb="Withdraw"
          onDone={() => withdraw(withdrawing).catch(notifyProblem)}
          onClose={() => setWithdrawing(undefined)}
        >
          <p>Its link works no more. Who has used it keeps the account.</p>
        </Confirm>
      )}
    </>
  );
}

function givenBy({ role, grants, person }: Invitation): string {
  if (person !== null) return 'signs them in';
  const apps = grants.map(({ app, role: given }) => `${app} (${given})`).join(', ');
  return [role === 'member' && apps !== '' ? '' : role, apps].filter(Boolean).join(', ');
}
