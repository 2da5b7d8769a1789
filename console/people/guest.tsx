/** Opens a link to an app: leads on to the app, or says why the link does not work. */
import { useEffect, useState } from 'preact/hooks';
import { openLink } from '../session.ts';
import { Button, Problem } from '../ui/parts.tsx';

export function Guest({ code, onSignIn }: { code: string; onSignIn: () => void }) {
  const [problem, setProblem] = useState<Error>();
  useEffect(() => {
    setProblem(undefined);
    openLink(code).then((address) => location.replace(address), setProblem);
  }, [code]);
  if (problem === undefined) return <p class="starting">Opening the app…</p>;
  return (
    <main class="signin">
      <div class="card stack">
        <h1>This link does not work</h1>
        <Problem error={problem} />
        <p class="hint">Or sign in, if you have an account here.</p>
        <div class="line">
          <Button onClick={onSignIn}>Sign in</Button>
        </div>
      </div>
    </main>
  );
}
