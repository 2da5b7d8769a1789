/** The console: signs in and draws the view that the address names. */
import { render } from 'preact';
import { useCallback, useEffect, useState } from 'preact/hooks';
import { addressOf } from '../protocol/http/client.ts';
import { Frame } from './frame/frame.tsx';
import { SignIn } from './frame/sign-in.tsx';
import { type GatewayError, SIGNED_OUT, setSignedOut } from './gateway.ts';
import { followLink, readSession, type Session, takeErrand, wayTo } from './session.ts';
import { readTheme, showTheme } from './theme.ts';

const RETRY_MS = 3000;
const ENDED = 'Your session has ended: its time was over, or someone signed out or replaced the token.';
const LEFT = 'You are signed out here and on the pages of all apps.';
const NOT_STORED = 'The browser did not store the session. Does it block cookies?';

/** Where a person reads why there is no way to an address. */
const explained = (address: string) => (error: GatewayError) => {
  if (error.status === 400) return addressOf('GET /svc/_enter', { query: { to: address } });
  throw error;
};

/** `refusal` and `notice` are what the sign-in form says; null when it is not asked for. */
type Asked = { refusal: string; notice: string } | null;

let errand = takeErrand();

function Console() {
  /** Undefined until there is one: what it shows stays behind the form when it ends. */
  const [session, setSession] = useState<Session | null>();
  const [asked, setAsked] = useState<Asked>(null);
  const [problem, setProblem] = useState('');

  const enter = useCallback(async (hasJustSignedIn = false) => {
    let refusal = hasJustSignedIn ? NOT_STORED : '';
    const { link, onward } = errand;
    errand = { link: null, onward };
    try {
      if (link !== null) await followLink(link).catch(({ message }: Error) => (refusal = message));
      const read = await readSession();
      setProblem('');
      if (read?.signedIn === false) return setAsked({ refusal, notice: '' });
      // What is shown now stays until the browser has left.
      if (onward !== null) return location.replace(await wayTo(onward).catch(explained(onward)));
      setSignedOut(false);
      setAsked(null);
      setSession(read);
    } catch {
      setProblem('The gateway does not answer. Trying again…');
      setTimeout(() => void enter(), RETRY_MS);
    }
  }, []);

  useEffect(() => {
    void enter();
    const ended = () => setAsked((last) => last ?? { refusal: '', notice: ENDED });
    // A link of `svc open` in a tab that is open already.
    const changed = () => {
      if (location.hash === '' || location.hash.startsWith('#/')) return;
      errand = takeErrand();
      void enter();
    };
    addEventListener(SIGNED_OUT, ended);
    addEventListener('hashchange', changed);
    return () => {
      removeEventListener(SIGNED_OUT, ended);
      removeEventListener('hashchange', changed);
    };
  }, [enter]);

  /** Somebody may have signed in meanwhile, in another tab. */
  useEffect(() => {
    if (asked === null) return;
    const seen = async () => {
      if (document.visibilityState === 'visible' && (await readSession().catch(() => null))?.signedIn) void enter();
    };
    document.addEventListener('visibilitychange', seen);
    return () => document.removeEventListener('visibilitychange', seen);
  }, [asked, enter]);

  const leave = () => {
    setAsked({ refusal: '', notice: LEFT });
    setSignedOut(true);
  };
  return (
    <>
      {problem && session === undefined && <p class="starting">{problem}</p>}
      {asked && <SignIn {...asked} onward={errand.onward} onSignedIn={() => void enter(true)} />}
      {session !== undefined && (
        <div hidden={asked !== null}>
          <Frame session={session} onSignedOut={leave} />
        </div>
      )}
    </>
  );
}

showTheme(readTheme());
render(<Console />, document.body);
