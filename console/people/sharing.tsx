/** Who has an app: shares it with people, groups and everyone, and takes it away again. */
import { useState } from 'preact/hooks';
import type { RowIn, Sent } from '../../protocol/routes/api.ts';
import { GatewayError, gateway } from '../gateway.ts';
import { useGateway } from '../gateway-state.tsx';
import { usePolled } from '../polled.ts';
import { notify } from '../ui/notice.tsx';
import { Button, Card, Confirm, Dialog, Field, Loading, Problem } from '../ui/parts.tsx';
import { ago, ahead, clock } from '../words.ts';
import { useWork } from '../work.ts';
import { AppRoleField } from './invite.tsx';
import { LinkDialog, type Made } from './link-dialog.tsx';
import { type AppRole, nameIn, rolesIn, rolesOfLinks } from './roles.ts';

type Share = RowIn<'GET /svc/_apps/:id/shares'>;

type SharingProps = { app: string; name: string; isAsked: boolean };

export function Sharing({ app, name, isAsked }: SharingProps) {
  const params = { id: app };
  const [isHosted, setHosted] = useState(false);
  /** Null where the gateway's host says who people are. */
  const load = async (signal: AbortSignal): Promise<Share[] | null> => {
    try {
      return await gateway.call('GET /svc/_apps/:id/shares', { params }, { signal });
    } catch (error) {
      if (!(error instanceof GatewayError && error.code === 'NOT_FOUND')) throw error;
      setHosted(true);
      return null;
    }
  };
  // Who is invited becomes a person meanwhile, whose share is another one.
  const { value: rows, error, reload } = usePolled(load, `shares ${app}`, isHosted ? 0 : undefined);
  const roles = useRoles(app);
  const [isSharing, setSharing] = useState(isAsked);
  const [ending, setEnding] = useState<Share>();
  const [link, setLink] = useState<MadeFor>();
  const unshare = async ({ id, name: who, with: kind }: Share) => {
    const isLink = kind === 'link';
    await gateway.call('DELETE /svc/_apps/:id/shares/:share', { params: { id: app, share: id } });
    notify(isLink ? `The link to ${name} has ended.` : `${who} has ${name} no more.`);
    reload();
  };
  if (rows === null) return null;
  return (
    <Card
      class={rows && rows.length > 0 ? 'table sharing' : 'sharing'}
      title="Sharing"
      aside={
        <Button class="small" onClick={() => setSharing(true)}>
          Share…
        </Button>
      }
    >
      {rows === undefined && (error ? <Problem error={error} retry={reload} /> : <Loading />)}
      {rows?.length === 0 && (
        <p class="none">Nobody else has this app. Share it with a person, a group or everyone, or make a link.</p>
      )}
      {rows !== undefined && rows.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>Who</th>
              <th>Role</th>
              <th class="wide">Ends</th>
              <td />
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.id}>
                <td>
                  <b>{row.with === 'link' ? 'Whoever has the link' : row.name}</b>{' '}
                  <span class="hint">{row.with === 'link' ? linkWords(row) : WITH[row.with]}</span>
                </td>
                <td>{nameIn(roles, row.role)}</td>
                <td class="wide">
                  {row.expiresAt === null ? 'never' : <span title={clock(row.expiresAt)}>{ahead(row.expiresAt)}</span>}
                </td>
                <td class="number">
                  <Button
                    class="small"
                    aria-label={row.with === 'link' ? `End the link ${linkWords(row)}` : `Remove ${row.name}`}
                    onClick={() => setEnding(row)}
                  >
                    {verbOf(row)}
                  </Button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {isSharing && (
        <ShareDialog
          app={app}
          name={name}
          onDone={(made) => {
            setSharing(false);
            setLink(made);
            reload();
          }}
          onClose={() => setSharing(false)}
        />
      )}
      {link && (
        <LinkDialog
          title={link.isInvitation ? `Invitation for ${link.name}` : `Link to ${name}`}
          {...(!link.isInvitation && {
            hint: 'Whoever has it uses the app without an account. You can end it at any time.',
          })}
          {...link}
          onClose={() => setLink(undefined)}
        />
      )}
      {ending && (
        <Confirm
          title={ending.with === 'link' ? `End this link to ${name}?` : `Take ${name} away from ${ending.name}?`}
          verb={verbOf(ending)}
          onDone={() => unshare(ending)}
          onClose={() => setEnding(undefined)}
        >
          <p>What they have open of it ends at once. What they wrote stays.</p>
        </Confirm>
      )}
    </Card>
  );
}

function useRoles(app: string): AppRole[] {
  const { apps } = useGateway();
  return rolesIn(apps?.find(({ id }) => id === app));
}

type MadeFor = Made & { name: string; isInvitation: boolean };

const WITH: Record<Exclude<Share['with'], 'link'>, string> = {
  person: '',
  group: 'group',
  everyone: 'who is signed in',
  invitation: 'invited',
};

const verbOf = (row: Share): string => (row.with === 'link' ? 'End' : 'Remove');

/** Who made a link, and whether it is used. */
function linkWords({ by, openedAt, void: isVoid }: Share): string {
  const made = `made by ${by ?? 'the administrator'}`;
  if (isVoid) return `${made}, who may no more share the app: it opens nothing`;
  return `${made}, ${openedAt ? `last opened ${ago(openedAt)}` : 'never opened'}`;
}

type Known = { value: string; label: string; body: Omit<Sent<'POST /svc/_apps/:id/shares'>['body'], 'role'> };

/** Whom an owner may choose; others name an e-mail address. */
async function readKnown(signal: AbortSignal): Promise<Known[]> {
  try {
    const [people, groups] = await Promise.all([
      gateway.all('GET /svc/_people', {}, ({ id }) => ({ after: id }), { signal }),
      gateway.call('GET /svc/_groups', {}, { signal }),
    ]);
    return [
      ...people.map(({ id, name, email }) => ({
        value: id,
        label: email === null ? name : `${name} (${email})`,
        body: { person: id },
      })),
      ...groups.map(({ id, name }) => ({ value: id, label: `${name} (group)`, body: { group: id } })),
    ];
  } catch (error) {
    if (error instanceof GatewayError && error.status === 403) return [];
    throw error;
  }
}

const BY_EMAIL = 'email';
const LINK = 'link';
const ANYONE: Known = { value: LINK, label: 'Whoever has a link, without an account', body: { link: true } };
const DAYS = [1, 7, 30, 365];
const EVERYONE: Known = { value: 'everyone', label: 'Everyone who is signed in', body: { everyone: true } };

type ShareDialogProps = {
  app: string;
  name: string;
  /** With the link that is to be sent, where somebody was invited. */
  onDone: (link?: MadeFor) => void;
  onClose: () => void;
};

export function ShareDialog({ app, name, onDone, onClose }: ShareDialogProps) {
  const { value: known, error: unread } = usePolled(readKnown, 'known', 0);
  const [who, setWho] = useState(BY_EMAIL);
  const [email, setEmail] = useState('');
  const [role, setRole] = useState('viewer');
  const [days, setDays] = useState('');
  const all = useRoles(app);
  const roles = who === LINK ? rolesOfLinks(all) : all;
  const { isBusy, error, run } = useWork();
  const choices = [...(known ?? []), EVERYONE, ANYONE];
  const choose = (value: string) => {
    setWho(value);
    if (value === LINK && role === 'manager') setRole('viewer');
  };
  const submit = (event: Event) => {
    event.preventDefault();
    void run(async () => {
      const whom = choices.find(({ value }) => value === who)?.body ?? { email: email.trim() };
      const ends = days !== '' && { expiresInDays: Number(days) };
      const sent = { params: { id: app }, body: { ...whom, role, ...ends } };
      const made = await gateway.call('POST /svc/_apps/:id/shares', sent);
      if (made.url === undefined) notify(`${made.name} is ${nameIn(roles, role)} of ${name}.`);
      const isInvitation = made.with === 'invitation';
      onDone(made.url === undefined ? undefined : { ...made, url: made.url, isInvitation });
    });
  };
  return (
    <Dialog title={`Share ${name}`} onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <Field label="With">
          <select value={who} onChange={({ currentTarget }) => choose(currentTarget.value)}>
            <option value={BY_EMAIL}>an e-mail address</option>
            {choices.map(({ value, label }) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </Field>
        {who === BY_EMAIL && (
          <Field label="E-mail address" hint="Who has no account gets a link to make one.">
            <input
              type="email"
              required
              autofocus
              value={email}
              onInput={({ currentTarget }) => setEmail(currentTarget.value)}
            />
          </Field>
        )}
        <AppRoleField roles={roles} role={role} onChange={setRole} />
        <Field label="Ends">
          <select value={days} onChange={({ currentTarget }) => setDays(currentTarget.value)}>
            <option value="">never</option>
            {DAYS.map((count) => (
              <option key={count} value={count}>
                in {count === 1 ? 'a day' : `${count} days`}
              </option>
            ))}
          </select>
        </Field>
        <Problem error={error ?? unread} />
        <div class="line end">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" disabled={isBusy}>
            {who === LINK ? 'Make the link' : 'Share'}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
