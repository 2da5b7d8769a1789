/** The watch thread: tells the supervisor when the main thread is stuck in a statement, and ends an orphan that is. */
import { Kind } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { openLink } from '../link.ts';
import { Begun } from './begun.ts';
import { Pulse, StuckDetector } from './pulse.ts';

/** Of `Pulse` and `Begun`. */
export type WatchedMemory = { pulse: SharedArrayBuffer; begun: SharedArrayBuffer };

const LOOKS = 10;

export function watch(memory: WatchedMemory, supervisorSocket: string, ticket: string): void {
  const everyMs = LIMITS.writerStuckMs / LOOKS;
  const pulse = new Pulse(memory.pulse);
  const begun = new Begun(performance, memory.begun);
  const detector = new StuckDetector(everyMs, LIMITS.writerStuckMs);
  const link = openLink(supervisorSocket, ticket, {
    onFrame: () => {},
    // The main thread ends by itself when the supervisor is gone, unless it cannot.
    onClose: () => setTimeout(() => process.kill(process.pid, 'SIGKILL'), LIMITS.terminateMs),
  });
  setInterval(() => {
    const beat = pulse.read();
    if (!detector.look(beat) || beat === null || !pulse.halt(beat)) return;
    link.send([Kind.stuck, pulse.name(), LIMITS.writerStuckMs, begun.read()]);
  }, everyMs);
}
