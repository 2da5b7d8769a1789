/** Runs one piece of work at a time, and says whether it is busy and why it failed. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { GatewayError } from './gateway.ts';

export type Work = {
  isBusy: boolean;
  error: GatewayError | undefined;
  /** Resolves to whether `work` succeeded; does nothing while something is under way. */
  run(work: () => Promise<unknown>): Promise<boolean>;
  /** Forgets what went wrong. */
  clear(): void;
};

export function useWork(): Work {
  const [state, setState] = useState<{ isBusy: boolean; error?: GatewayError }>({ isBusy: false });
  const isRunning = useRef(false);
  const isGone = useRef(false);
  useEffect(
    () => () => {
      isGone.current = true;
    },
    [],
  );
  const run = useCallback(async (work: () => Promise<unknown>) => {
    if (isRunning.current) return false;
    isRunning.current = true;
    setState({ isBusy: true });
    try {
      await work();
      if (!isGone.current) setState({ isBusy: false });
      return true;
    } catch (error) {
      if (!isGone.current) setState({ isBusy: false, error: error as GatewayError });
      return false;
    } finally {
      isRunning.current = false;
    }
  }, []);
  const clear = useCallback(() => setState(({ isBusy }) => ({ isBusy })), []);
  return { isBusy: state.isBusy, error: state.error, run, clear };
}
