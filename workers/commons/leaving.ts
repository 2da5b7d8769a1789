/** Lets the code of a resident move its app out of the commons. One for each realm. */
import type { LeaveReason } from '../../protocol/wire/commons.ts';

type Leave = (reason: LeaveReason, detail: string) => void;

let tell: Leave = () => {};

export function onLeave(leave: Leave): void {
  tell = leave;
}

/** The app goes on in a thread of its own, and its calls run again there: what the handler does from here on is not seen. */
export function leave(reason: LeaveReason, detail: string): never {
  tell(reason, detail);
  throw new Error('The app goes on in a thread of its own.');
}
