/** What becomes of the calls that were in flight when their thread died. */
import type { Call } from './actor/call.ts';
import { threadEnded } from './actor/call-errors.ts';
import type { Death } from './actor/generation.ts';

/** Answers them, but for those that shall run once more if `repeat`: they are the answer. */
export function settleOrphans(death: Death, repeat: boolean): Call[] {
  const again: Call[] = [];
  for (const call of death.orphans) {
    if (call.settled) {
      call.outcomeUnknown();
      continue;
    }
    if (call.repeatable && call.attempts < 2 && repeat) {
      call.sentAt = 0;
      again.push(call);
      continue;
    }
    call.failUnknown(threadEnded(call.request.tool, death.reason));
  }
  return again;
}
