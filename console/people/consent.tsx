/** Asks whether a program may be connected: says which, to what and in which role, and goes back to it with the answer. */
import { useEffect, useState } from 'preact/hooks';
import { LIMITS } from '../../protocol/limits.ts';
import type { Received } from '../../protocol/routes/api.ts';
import { gateway } from '../gateway.ts';
import { readSession } from '../session.ts';
import { Button, Field, Problem } from '../ui/parts.tsx';
import { useWork } from '../work.ts';
import { nameIn, rolesIn, saysOf } from './roles.ts';

type Request = Received<'POST /svc/_oauth/request'>;

const DAYS = LIMITS.refreshTokenMs / LIMITS.dayMs;
const HERE = 'a program on this computer';

/** `query` is what the program asked with; `onClose` leaves it without an answer. */
export function Consent({ query, onClose }: { query: string; onClose: () => void }) {
  const [shown, setShown] = useState<{ request: Request; self: string }>();
  const [problem, setProblem] = useState<Error>();
  useEffect(() => {
    const read = async () => {
      const request = await gateway.call('POST /svc/_oauth/request', { body: { query } });
      setShown({ request, self: (await readSession())?.person?.name ?? 'the administrator' });
    };
    read().catch(setProblem);
  }, [query]);
  return (
    <main class="signin">
      {problem && (
        <div class="card stack">
          <h1>The program cannot be connected</h1>
          <Problem error={problem} />
          <div class="line">
            <Button onClick={onClose}>Open the console</Button>
          </div>
        </div>
      )}
      {shown && <Question query={query} {...shown} />}
    </main>
  );
}

function Question({ query, request, self }: { query: string; request: Request; self: string }) {
  const { name, host, app, workspace, roles, defined, problem, back } = request;
  // What it needs most often, or the most there is for a person with less.
  const [role, setRole] = useState(roles.includes('editor') ? 'editor' : (roles.at(-1) ?? ''));
  const known = rolesIn({ roles: defined });
  const { isBusy, error, run } = useWork();
  const connect = (event: Event) => {
    event.preventDefault();
    void run(async () => {
      const { url } = await gateway.call('POST /svc/_oauth/consent', { body: { query, role } });
      location.assign(url);
    });
  };
  const what = app === null ? 'all your apps' : workspace === null ? app.name : `the draft of ${app.name}`;
  return (
    <form class="card stack" onSubmit={connect}>
      <h1>{problem === null ? `Connect a program to ${what}?` : 'The program cannot be connected'}</h1>
      <p>
        It calls itself <strong>{name}</strong>, which nobody has checked. The answer goes to{' '}
        <strong>{host ?? HERE}</strong>.
      </p>
      {problem === null ? (
        <>
          <p>
            Go on only if you have just begun this in that program. It will act as <strong>{self}</strong>.
          </p>
          <Field label="Its role" hint={saysOf(known, role, 'It')}>
            <select value={role} onChange={({ currentTarget: { value } }) => setRole(value)}>
              {roles.map((one) => (
                <option key={one} value={one}>
                  {nameIn(known, one)}
                </option>
              ))}
            </select>
          </Field>
          <p class="hint">
            Never more than you may{app === null && ' in each app'}. It ends {DAYS} days after its last use, and when
            you end it under your account.
          </p>
        </>
      ) : (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <Problem error={error} />
      <div class="line">
        {problem === null && (
          <Button type="submit" kind="primary" disabled={isBusy}>
            Connect
          </Button>
        )}
        <Button onClick={() => location.assign(back)}>
          {problem === null ? 'Do not connect' : `Back to ${host ?? 'the program'}`}
        </Button>
      </div>
    </form>
  );
}
