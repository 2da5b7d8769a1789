/** Checks that the gateway answers and the session lasts; after a failure it checks until both are true again. */
import { keyHeaders } from '../page-key.ts';

const RETRY_MS = 1000;
const RETRY_MAX_MS = 30_000;
/** How often a page that is signed out looks whether somebody has signed in, besides when it gets the focus. */
const SIGNED_OUT_MS = 10_000;
/** A gateway that does not say within this time who is signed in is taken for unreachable. */
const CHECK_MS = 8000;

const jitter = (ms) => ms * (0.5 + Math.random() / 2);

/** Milliseconds before the next attempt after so many that failed. */
export const retryDelay = (failures) => jitter(Math.min(RETRY_MS * 2 ** failures, RETRY_MAX_MS));

/**
 * `changed(status)` hears of `online`, `offline` and `signed-out`. `check()` looks now and resolves to the status; `refused(byHost)` is
 * for a call that was refused for want of a session; `signInAddress()` is where one signs in and comes back. A hidden page
 * checks again when it becomes visible. A visitor of a public page needs no session until a call is refused for want of one.
 */
export function watchConnection(changed, { isVisitor = false } = {}) {
  let needsSession = !isVisitor;
  let status = 'online';
  let failures = 0;
  let timer;
  let checking;
  /** A host signs people in, and has no session here. */
  let isHosted = false;

  function become(next) {
    clearTimeout(timer);
    failures = next === 'offline' ? failures + 1 : 0;
    if (next !== 'online') {
      const wait = next === 'offline' ? retryDelay(failures - 1) : jitter(SIGNED_OUT_MS);
      timer = setTimeout(() => {
        if (document.visibilityState === 'visible') void check();
      }, wait);
    }
    if (next === status) return;
    status = next;
    changed(status);
  }

  async function look() {
    try {
      const init = { headers: keyHeaders(), redirect: 'manual', signal: AbortSignal.timeout(CHECK_MS) };
      const response = await fetch('/svc/_session', init);
      const { signedIn, error } = await answerOf(response);
      isHosted = error?.code === 'NOT_FOUND' || error?.code === 'UNAUTHORIZED';
      // Without sessions, an answer of the gateway means that its host let us pass.
      const isWell = !needsSession || (signedIn ?? error?.code !== 'UNAUTHORIZED');
      become(isWell ? 'online' : 'signed-out');
    } catch {
      become('offline');
    }
    return status;
  }

  function check() {
    checking ??= look().finally(() => {
      checking = undefined;
    });
    return checking;
  }

  // Neither says whether the gateway can be reached: it may be on this machine.
  for (const type of ['online', 'offline']) addEventListener(type, check);

  return {
    check,
    refused(byHost = false) {
      isHosted ||= byHost;
      needsSession = true;
      become('signed-out');
    },
    signInAddress: () =>
      isHosted ? location.href.split('#')[0] : `/svc/_enter?to=${encodeURIComponent(location.href)}`,
  };
}

/**
 * The gateway's answer. A host in front of it that wants somebody to sign in says so with a 401 of its own, or sends to where one does:
 * that becomes an `UNAUTHORIZED` with `byHost`. Rejects for everything else that is not the gateway's.
 */
export async function answerOf(response) {
  const { type, ok, status } = response;
  const answer = type === 'opaqueredirect' ? null : await response.json().catch(() => null);
  if (answer !== null && (ok || typeof answer.isError === 'boolean')) return answer;
  if (type === 'opaqueredirect' || status === 401)
    return { isError: true, error: { code: 'UNAUTHORIZED' }, byHost: true };
  throw new TypeError('This is no answer of the gateway.');
}
