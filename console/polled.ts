/** Polls the gateway while the page is visible. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { BACK, type GatewayError, isSignedOut, SIGNED_IN, unreachable } from './gateway.ts';

/** `value` is the last answer, also while `error` says why a newer request failed. */
export type Polled<T> = { value: T | undefined; error: GatewayError | undefined; reload: () => void };

const REFRESH_MS = 3000;
/** Time for one answer. A connection may be lost silently, and an old value must not pass for a current one. */
const LIMIT_MS = 20_000;

/**
 * What `load` resolves to; again after `everyMs` while the page is visible, at once when `key` changes or `reload` is called. With
 * `everyMs` 0 it is read once, and again after a failure when the gateway is back. An answer that comes after `key` has changed is
 * dropped.
 */
export function usePolled<T>(
  load: (signal: AbortSignal) => Promise<T>,
  key: string,
  everyMs: number = REFRESH_MS,
): Polled<T> {
  const [state, setState] = useState<{ key: string; value?: T; error?: GatewayError }>({ key });
  const [asked, setAsked] = useState(0);
  const loader = useRef(load);
  loader.current = load;

  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isReading = false;
    let hasFailed = false;
    const read = async () => {
      clearTimeout(timer);
      if (isReading || isSignedOut()) return;
      isReading = true;
      const late = new AbortController();
      const limit = setTimeout(() => late.abort(unreachable()), LIMIT_MS);
      try {
        const value = await loader.current(AbortSignal.any([abort.signal, late.signal]));
        hasFailed = false;
        if (!abort.signal.aborted) setState({ key, value });
      } catch (error) {
        if (abort.signal.aborted) return;
        hasFailed = true;
        setState((last) => ({ ...(last.key === key ? last : { key }), error: error as GatewayError }));
      } finally {
        clearTimeout(limit);
        isReading = false;
      }
      if (everyMs > 0 && document.visibilityState === 'visible' && !abort.signal.aborted) {
        timer = setTimeout(read, everyMs);
      }
    };
    const seen = () => {
      if (everyMs > 0 && document.visibilityState === 'visible') void read();
    };
    const back = () => {
      if (hasFailed) void read();
    };
    void read();
    document.addEventListener('visibilitychange', seen);
    addEventListener(SIGNED_IN, read);
    addEventListener(BACK, back);
    return () => {
      abort.abort();
      clearTimeout(timer);
      removeEventListener(SIGNED_IN, read);
      removeEventListener(BACK, back);
      document.removeEventListener('visibilitychange', seen);
    };
  }, [key, everyMs, asked]);

  const reload = useCallback(() => setAsked((count) => count + 1), []);
  const current = state.key === key ? state : { value: undefined, error: undefined };
  return { value: current.value, error: current.error, reload };
}
