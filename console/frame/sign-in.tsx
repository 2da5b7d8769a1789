/** Asks for the access token where this browser has no session. */
import { useEffect, useState } from 'preact/hooks';
import { signIn } from '../session.ts';
import { Button } from '../ui/parts.tsx';

type Asked = { refusal: string; notice: string; onward: string | null; onSignedIn: () => void };

/** `notice` says why it is asked again, `onward` where it goes on to. */
export function SignIn({ refusal, notice, onward, onSignedIn }: Asked) {
  const [problem, setProblem] = useState(refusal);
  const [token, setToken] = useState('');
  useEffect(() => setProblem(refusal), [refusal]);
  const submit = (event: Event) => {
    event.preventDefault();
    signIn(token.trim()).then(onSignedIn, (error: Error) => setProblem(error.message));
  };
  return (
    <main class="signin">
      <form class="card" onSubmit={submit}>
        <h1>Sign in to this gateway</h1>
        {notice && <p role="status">{notice}</p>}
        <p class="hint">
          Paste the access token that <code>svc token</code> prints, or follow a link that <code>svc open</code> prints.
        </p>
        <label class="label" for="token">
          Access token
        </label>
        <div class="line">
          <input
            id="token"
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
        {problem && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        {onward && <p class="hint">Continue to {new URL(onward, location.origin).href}</p>}
      </form>
    </main>
  );
}
