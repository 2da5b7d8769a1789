/** One thing that `svc doctor` looked at. */

/** `warning`: it works, but not as well or as safely as it could. `problem`: it does not work. */
export type Check = { name: string; state: 'ok' | 'warning' | 'problem'; finding: string; fix?: string };

export const ok = (name: string, finding: string): Check => ({ name, state: 'ok', finding });
export const warning = (name: string, finding: string, fix: string): Check => ({
  name,
  state: 'warning',
  finding,
  fix,
});
export const problem = (name: string, finding: string, fix: string): Check => ({
  name,
  state: 'problem',
  finding,
  fix,
});
