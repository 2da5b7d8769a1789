/** Judges the version of an agent's program: one that is too old is reported with what to do. Pure. */
import type { ProbeResult } from '../../protocol/agents/agents.ts';

/** `what` is its name for people, `install` the command that brings a version that works. */
type Wanted = { what: string; oldest: string; install: string };

/** Null for a version that is known to work. */
export function versionFault(version: string, { what, oldest, install }: Wanted): string | null {
  return isOlder(version, oldest) ? `This is ${what} ${version}; ${oldest} or newer is needed. ${install}` : null;
}

export function versionReport(version: string, wanted: Wanted): ProbeResult {
  const fault = versionFault(version, wanted);
  return { version, ...(fault === null ? {} : { fault }) };
}

function isOlder(version: string, than: string): boolean {
  const numbers = (text: string): number[] => text.split(/[.-]/).slice(0, 3).map(Number);
  const [a, b] = [numbers(version), numbers(than)];
  const at = a.findIndex((number, i) => number !== b[i]);
  return at >= 0 && (a[at] as number) < (b[at] as number);
}
