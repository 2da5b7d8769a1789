/** Asks who it is where this browser has no session: for a passkey or a password where the gateway has people, or for the access token. */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { canUsePasskeys } from '../people/passkeys.ts';
import { ProviderButtons } from '../people/providers.tsx';
import { enterByProxy, enterPasskey, enterPassword, readSession, type Session, signIn } from '../session.ts';
import { Button } from '../ui/parts.tsx';

type Asked = {
  refusal: string;
  notice: string;
  onward: string | null;
  authorize: string | null;
  onSignedIn: () => void;
};

/** `notice` says why it is asked again, `onward` where it goes on to, `authorize` what a program asks for then. */
export function SignIn({ refusal, notice, onward, authorize, onSignedIn }: Asked) {
  const [problem, setProblem] = useState(refusal);
  /** Undefined until the gateway has said whether it has people. */
  const [by, setBy] = useState<'account' | 'token'>();
  const [ways, setWays] = useState<Session['ways'] | null>(null);
  useEffect(() => setProblem(refusal), [refusal]);
  useEffect(() => {
    const read = async () => {
      const session = await readSession().catch(() => null);
      const { providers = [], proxy = false } = session?.ways ?? {};
      const isForPeople = session?.people === true || providers.length > 0 || proxy;
      setWays(isForPeople ? (session?.ways ?? null) : null);
      setBy(isForPeople ? 'account' : 'token');
    };
    void read();
  }, []);
  const submit = (work: () => Promise<void>) => (event: Event) => {
    event.preventDefault();
    work().then(onSignedIn, (error: Error) => setProblem(error.message));
  };
  const turn = (to: 'account' | 'token') => () => {
    setProblem('');
    setBy(to);
  };
  const about = {
    problem: problem && (
      <p class="problem" role="alert">
        {problem}
      </p>
    ),
    notice: notice && <p role="status">{notice}</p>,
    onward: onward && <p class="hint">Continue to {new URL(onward, location.origin).href}</p>,
  };
  return (
    <main class="signin">
      {by === 'token' && (
        <TokenForm {...about} submit={submit}>
          {ways !== null && (
            <Button kind="link" onClick={turn('account')}>
              Sign in to your account
            </Button>
          )}
        </TokenForm>
      )}
      {by === 'account' && ways !== null && (
        <AccountForm {...about} submit={submit} ways={ways} to={{ onward, authorize }} toToken={turn('token')} />
      )}
    </main>
  );
}

type Form = {
  problem: ComponentChildren;
  notice: ComponentChildren;
  onward: ComponentChildren;
  submit: (work: () => Promise<void>) => (event: Event) => void;
};

type AccountFormProps = Form & {
  ways: Session['ways'];
  to: Pick<Asked, 'onward' | 'authorize'>;
  toToken: () => void;
};

function AccountForm({ problem, notice, onward, submit, ways, to, toToken }: AccountFormProps) {
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const hasPasskeys = canUsePasskeys && ways.passkeys;
  return (
    <form class="card" onSubmit={submit(() => enterPassword(email.trim(), password))}>
      <h1>Sign in</h1>
      {notice}
      {hasPasskeys && (
        <div class="line">
          <Button kind="primary" onClick={submit(enterPasskey)}>
            Sign in with a passkey
          </Button>
          {ways.passwords && <span class="hint">or with your password:</span>}
        </div>
      )}
      {ways.passwords && (
        <>
          <label class="label" for="email">
            E-mail address
          </label>
          <input
            id="email"
            type="email"
            autocomplete="username"
            required
            autofocus
            value={email}
            onInput={({ currentTarget }) => setEmail(currentTarget.value)}
          />
          <label class="label" for="password">
            Password
          </label>
          <input
            id="password"
            type="password"
            autocomplete="current-password"
            required
            value={password}
            onInput={({ currentTarget }) => setPassword(currentTarget.value)}
          />
        </>
      )}
      {problem}
      <div class="line">
        {ways.passwords && (
          <Button type="submit" kind={hasPasskeys ? 'plain' : 'primary'}>
            Sign in
          </Button>
        )}
        {ways.proxy && <Button onClick={submit(enterByProxy)}>Sign in by the proxy</Button>}
        <Button kind="link" onClick={toToken}>
          Use the access token
        </Button>
      </div>
      <ProviderButtons providers={ways.providers} verb="Sign in with" sent={to} />
      <p class="hint">No account, or no way to sign in any more? Ask an owner of this gateway for a link.</p>
      {onward}
    </form>
  );
}

function TokenForm({ problem, notice, onward, submit, children }: Form & { children: ComponentChildren }) {
  const [token, setToken] = useState('');
  return (
    <form class="card" onSubmit={submit(() => signIn(token.trim()))}>
      <h1>Sign in to this gateway</h1>
      {notice}
      <p class="hint">
        Paste the access token that <code>svc token</code> prints, or follow a link that <code>svc open</code> prints.
      </p>
      <label class="label" for="token">
        Access token
      </label>
      <div class="line">
        <input
          id="token"
          class="mono"
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          autofocus
          value={token}
          onInput={({ currentTarget }) => setToken(currentTarget.value)}
        />
        <Button type="submit" kind="primary">
          Sign in
        </Button>
      </div>
      {problem}
      {children}
      {onward}
    </form>
  );
}
