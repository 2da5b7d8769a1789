/** Sets the time of `Date` in the thread of a tested app, where it stands still. */
import { uncountable } from '../effects.ts';

const RealDate = Date;
const { now } = Date;
const { construct, get } = Reflect;

/** Null outside tests. */
let shown: number | null = null;

/** `Date` shows this time from now on, in milliseconds since the epoch. Call it before app code is loaded. */
export function showTime(at: number): void {
  // A kept result would show the time before.
  uncountable();
  if (shown === null) replaceDate();
  shown = at;
}

/** What `Date.now()` shows in the app's code at this time of the machine's clock. */
export function shownTime(moment: number): number {
  return shown === null ? moment : shown + moment - now();
}

function replaceDate(): void {
  const nowShown = (): number => shown as number;
  const TestDate = new Proxy(RealDate, {
    construct: (date, given, as) => construct(date, given.length === 0 ? [shown] : given, as) as object,
    apply: () => new RealDate(shown as number).toString(),
    get: (date, name, as) => (name === 'now' ? nowShown : get(date, name, as)),
  });
  RealDate.prototype.constructor = TestDate;
  globalThis.Date = TestDate;
}
