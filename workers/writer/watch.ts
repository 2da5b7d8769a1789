/** The watch thread: tells the supervisor when the main thread is stuck in a statement, and ends an orphan that is. */
import { Kind } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { openLink } from '../link.ts';
import { Pulse, StuckDetector } from './pulse.ts';

const LOOKS = 10;

export function watch(memory: SharedArrayBuffer, supervisorSocket: string, ticket: string): void {
  const everyMs = LIMITS.writerStuckMs / LOOKS;
  const pulse = new Pulse(memory);
  const detector = new StuckDetector(everyMs, LIMITS.writerStuckMs);
  const link = openLink(supervisorSocket, ticket, {
    onFrame: () => {},
    // The main thread ends by itself when the supervisor is gone, unless it cannot.
    onClose: () => setTimeout(() => process.kill(process.pid, 'SIGKILL'), LIMITS.terminateMs),
  });
  setInterval(() => {
    if (detector.look(pulse.read())) link.send([Kind.stuck, pulse.name(), LIMITS.writerStuckMs]);
  }, everyMs);
}
