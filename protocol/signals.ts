/** Joins abort signals. */
import { setMaxListeners } from 'node:events';

// Taken before app code runs, because threads of handlers join signals too.
const { AbortController, DOMException, clearTimeout, setTimeout } = globalThis;

/** `release` detaches it from the others and from the timeout: nothing aborts it after that. */
type JoinedSignal = { signal: AbortSignal; release: () => void };

/** Aborts with the first of `signals`, or after `ms`. Node 20 may collect `AbortSignal.any` of a timeout early. */
export function joinSignals(signals: AbortSignal[], ms?: number): JoinedSignal {
  const controller = new AbortController();
  const release = () => {
    clearTimeout(timer);
    for (const signal of signals) signal.removeEventListener('abort', abort);
  };
  const end = (reason: unknown) => {
    release();
    controller.abort(reason);
  };
  const abort = (event: Event) => end((event.target as AbortSignal).reason);
  const timer = ms === undefined ? undefined : setTimeout(() => end(late()), ms);
  timer?.unref();
  // A call may have many fetches under way, and that is no leak.
  setMaxListeners(0, ...signals);
  for (const signal of signals) signal.addEventListener('abort', abort);
  const aborted = signals.find((signal) => signal.aborted);
  if (aborted !== undefined) end(aborted.reason);
  return { signal: controller.signal, release };
}

function late(): DOMException {
  return new DOMException('The operation was aborted due to timeout', 'TimeoutError');
}
