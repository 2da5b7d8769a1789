/** Tokens for programs that may use an app: lists, makes and revokes them. The text of one is shown once. */
import { useState } from 'preact/hooks';
import type { RowIn } from '../../../protocol/routes/api.ts';
import { GatewayError, gateway } from '../../gateway.ts';
import { usePolled } from '../../polled.ts';
import { notify } from '../../ui/notice.tsx';
import { Button, Card, Confirm, CopyButton, Dialog, Field, Loading, Problem } from '../../ui/parts.tsx';
import { ago, ahead, clock } from '../../words.ts';
import { useWork } from '../../work.ts';

type Token = RowIn<'GET /svc/_tokens'>;

const TOOLS = {
  read: 'read: pages, queries, streams',
  write: 'write: and actions, settings',
  all: 'all: and uploads, logs, SQL, chat',
} as const;

/** Null where the gateway's host asks who calls, and there are no tokens. */
async function readTokens(signal: AbortSignal): Promise<Token[] | null> {
  try {
    return await gateway.all('GET /svc/_tokens', {}, ({ id }) => ({ before: id }), { signal });
  } catch (error) {
    if (error instanceof GatewayError && error.status === 404) return null;
    throw error;
  }
}

export function Tokens({ app }: { app: string }) {
  const { value, error, reload } = usePolled(readTokens, 'tokens', 0);
  const [isMaking, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<Token>();
  const rows = value?.filter(({ apps }) => apps === null || apps.includes(app));
  const revoke = async ({ id, name }: Token) => {
    await gateway.call('DELETE /svc/_tokens/:id', { params: { id } });
    notify(`The token ${name} is revoked`);
    reload();
  };
  if (value === null) return null;
  return (
    <Card
      class={rows && rows.length > 0 ? 'table' : ''}
      title="Tokens for programs"
      aside={
        <Button class="small" onClick={() => setMaking(true)}>
          New token…
        </Button>
      }
    >
      {rows === undefined && (error ? <Problem error={error} retry={reload} /> : <Loading />)}
      {rows?.length === 0 && (
        <p class="none">
          No program has a token for this app yet. A token gives a script or a service only the rights it needs.
        </p>
      )}
      {rows !== undefined && rows.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>Name</th>
              <th>May</th>
              <th class="wide">Apps</th>
              <th class="wide">Last used</th>
              <th>Expires</th>
              <td />
            </tr>
          </thead>
          <tbody>
            {rows.map((token) => (
              <tr key={token.id}>
                <td>
                  <b>{token.name}</b>
                </td>
                <td>{token.tools}</td>
                <td class="wide">{token.apps === null ? 'every app' : token.apps.join(', ')}</td>
                <td class="wide">{token.lastUsedAt === null ? 'never' : ago(token.lastUsedAt)}</td>
                <td>
                  <Expiry at={token.expiresAt} />
                </td>
                <td class="number">
                  <Button class="small" aria-label={`Revoke ${token.name}`} onClick={() => setRevoking(token)}>
                    Revoke
                  </Button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {isMaking && <NewToken app={app} onMade={reload} onClose={() => setMaking(false)} />}
      {revoking && (
        <Confirm
          title={`Revoke ${revoking.name}?`}
          verb="Revoke token"
          onDone={() => revoke(revoking)}
          onClose={() => setRevoking(undefined)}
        >
          <p>
            Programs that use it are refused from now on
            {revoking.apps === null
              ? ', on every app.'
              : revoking.apps.length > 1
                ? `, on ${revoking.apps.join(', ')}.`
                : '.'}{' '}
            Their event streams end.
          </p>
        </Confirm>
      )}
    </Card>
  );
}

function Expiry({ at }: { at: number | null }) {
  if (at === null) return <>never</>;
  const isOver = at <= Date.now();
  return (
    <span title={clock(at)} class={isOver ? 'problem' : ''}>
      {isOver ? 'has expired' : ahead(at)}
    </span>
  );
}

function NewToken({ app, onMade, onClose }: { app: string; onMade: () => void; onClose: () => void }) {
  const [name, setName] = useState('');
  const [tools, setTools] = useState<Token['tools']>('read');
  const [days, setDays] = useState('90');
  const [isForAll, setForAll] = useState(false);
  const [made, setMade] = useState<string>();
  const { isBusy, error, run } = useWork();
  const make = (event: Event) => {
    event.preventDefault();
    void run(async () => {
      const body = {
        name: name.trim(),
        tools,
        ...(isForAll ? {} : { apps: [app] }),
        ...(days === '' ? {} : { expiresInDays: Number(days) }),
      };
      setMade((await gateway.call('POST /svc/_tokens', { body })).token);
      onMade();
    });
  };
  if (made !== undefined) {
    return (
      <Dialog title={`Token for ${name.trim()}`} onClose={onClose}>
        <div class="stack">
          <p>This is the only time that it is shown. Send it as “Authorization: Bearer …”.</p>
          <pre class="token-text">{made}</pre>
        </div>
        <div class="line end">
          <CopyButton text={made} label="Copy token" />
        </div>
      </Dialog>
    );
  }
  const problem = (member: string) => (error?.path === member ? error.message : undefined);
  return (
    <Dialog title="New token" onClose={onClose}>
      <form class="stack" onSubmit={make}>
        <Field label="Name" hint="Who uses it: a program or service" problem={problem('name')}>
          <input
            value={name}
            onInput={({ currentTarget }) => setName(currentTarget.value)}
            required
            maxLength={100}
            placeholder="zapier"
          />
        </Field>
        <Field label="It may" problem={problem('tools')}>
          <select value={tools} onChange={({ currentTarget }) => setTools(currentTarget.value as Token['tools'])}>
            {Object.entries(TOOLS).map(([id, text]) => (
              <option key={id} value={id}>
                {text}
              </option>
            ))}
          </select>
        </Field>
        <Field label="Days until it expires" hint="Empty: never" problem={problem('expiresInDays')}>
          <input
            type="number"
            min={1}
            max={3650}
            value={days}
            onInput={({ currentTarget }) => setDays(currentTarget.value)}
          />
        </Field>
        <label class="line">
          <input
            type="checkbox"
            checked={isForAll}
            onChange={({ currentTarget }) => setForAll(currentTarget.checked)}
          />
          For every app, including those added later
        </label>
        {error && !['name', 'tools', 'expiresInDays'].includes(error.path ?? '') && <Problem error={error} />}
        <div class="line end">
          <Button kind="primary" type="submit" disabled={isBusy}>
            Make token
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
