/** Ctrl-C for commands that have something to clean up: the first one asks them to end, the second ends them. */
import { CommandError } from './failure.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** The signal's reason is the error to end with. */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const interrupt = () => controller.abort(new CommandError('Interrupted; nothing was left behind.'));
  for (const name of SIGNALS) process.once(name, interrupt);
  try {
    return await work(controller.signal);
  } finally {
    for (const name of SIGNALS) process.off(name, interrupt);
  }
}
