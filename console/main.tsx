/** The console: signs in and draws the view that the address names. */
import { render } from 'preact';
import { useCallback, useEffect, useState } from 'preact/hooks';
import { addressOf } from '../protocol/http/client.ts';
import { Frame } from './frame/frame.tsx';
import { SignIn } from './frame/sign-in.tsx';
import { type GatewayError, SIGNED_OUT, setSignedOut } from './gateway.ts';
import { Consent } from './people/consent.tsx';
import { Guest } from './people/guest.tsx';
import { Join } from './people/join.tsx';
import { ProviderFailed } from './people/providers.tsx';
import {
  enterSession,
  type FromProvider,
  finishProvider,
  followLink,
  readSession,
  type Session,
  takeBegun,
  takeErrand,
  wayTo,
} from './session.ts';
import { readTheme, showTheme } from './theme.ts';

const RETRY_MS = 3000;
const ENDED = 'Your session has ended: its time was over, or someone signed out or replaced the token.';
const LEFT = 'You are signed out here and on the pages of all apps.';
const NOT_BEGUN = 'This sign-in was not begun in this browser, or another one was begun since. Begin again.';
const NOT_STORED = 'The browser did not store the session. Does it block cookies?';

/** Where a person reads why there is no way to an address. */
const explained = (address: string) => (error: GatewayError) => {
  if (error.status === 400) return addressOf('GET /svc/_enter', { query: { to: address } });
  throw error;
};

const hasCode = (...codes: (string | null)[]): boolean => codes.some((code) => code !== null);

/** A guest, at an address that all apps share, has one app and no console. */
const isNobody = (session: Session | null): boolean => session !== null && (!session.signedIn || session.guest);

/** `refusal` and `notice` are what the sign-in form says; null when it is not asked for. */
type Asked = { refusal: string; notice: string } | null;

let errand = takeErrand();

/** Ends a sign-in at a provider, and goes on to where it was begun for. */
async function comeBack(from: FromProvider): Promise<void> {
  const begun = takeBegun(from);
  if (begun === null) throw new Error(NOT_BEGUN);
  errand = { ...errand, onward: begun.onward, authorize: begun.authorize };
  await finishProvider(from);
  if (begun.view !== null) history.replaceState(null, '', `${location.pathname}${begun.view}`);
}

function Console() {
  /** Undefined until there is one: what it shows stays behind the form when it ends. */
  const [session, setSession] = useState<Session | null>();
  const [asked, setAsked] = useState<Asked>(null);
  const [problem, setProblem] = useState('');
  /** The code of an invitation that somebody is about to take. */
  const [invited, setInvited] = useState<string | null>(null);
  /** The code of a link to an app that is opened. */
  const [guest, setGuest] = useState<string | null>(null);
  /** What a program asks for that somebody is about to connect. */
  const [authorize, setAuthorize] = useState<string | null>(null);
  /** Why a sign-in at a provider did not work. */
  const [failed, setFailed] = useState<Error | null>(null);

  const enter = useCallback(async (hasJustSignedIn = false) => {
    let refusal = hasJustSignedIn ? NOT_STORED : '';
    const { link, invitation, guest, provider } = errand;
    errand = { ...errand, link: null, invitation: null, guest: null, provider: null };
    setGuest(guest);
    if (hasCode(invitation, guest)) return setInvited(invitation);
    if (provider !== null) {
      const error = await comeBack(provider).catch((error: Error) => error);
      if (error !== undefined) return setFailed(error);
      refusal = NOT_STORED;
    }
    try {
      if (link !== null) await followLink(link).catch(({ message }: Error) => (refusal = message));
      const read = await enterSession().catch((error: Error) => {
        refusal = error.message;
        return readSession();
      });
      setProblem('');
      if (isNobody(read)) return setAsked({ refusal, notice: '' });
      const { authorize, onward } = errand;
      // What is shown now stays until the browser has left.
      if (onward !== null) return location.replace(await wayTo(onward).catch(explained(onward)));
      setSignedOut(false);
      setAsked(null);
      errand = { ...errand, authorize: null };
      // Who is asked to sign in again comes back to what they were asked.
      if (authorize !== null) setAuthorize(authorize);
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
      {invited !== null && (
        <Join
          code={invited}
          onDone={(hasJoined) => {
            setInvited(null);
            void enter(hasJoined);
          }}
        />
      )}
      {guest !== null && (
        <Guest
          code={guest}
          onSignIn={() => {
            setGuest(null);
            void enter();
          }}
        />
      )}
      {failed && (
        <ProviderFailed
          error={failed}
          onDone={() => {
            setFailed(null);
            void enter();
          }}
        />
      )}
      {asked && invited === null && failed === null && (
        <SignIn {...asked} onward={errand.onward} authorize={errand.authorize} onSignedIn={() => void enter(true)} />
      )}
      {authorize !== null && asked === null && invited === null && failed === null && (
        <Consent key={authorize} query={authorize} onClose={() => setAuthorize(null)} />
      )}
      {session !== undefined && (
        <div hidden={asked !== null || invited !== null || authorize !== null || failed !== null}>
          <Frame session={session} onSignedOut={leave} />
        </div>
      )}
    </>
  );
}

showTheme(readTheme());
render(<Console />, document.body);
