/** Checks entries of the configuration, such as MCP servers and runners, member by member. Pure. */

/** A fault of the configuration: where below its key, and what must stand there. */
export type EntryFault = { at: string; wanted: string };

export type MemberCheck = (value: unknown) => EntryFault | null;

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

/** The first fault of an object of entries by name, or null; `at` is the path below it, such as `git.args[0]`. */
export function entriesFault(value: unknown, wanted: string, entryFault: MemberCheck): EntryFault | null {
  if (!isObject(value)) return { at: '', wanted };
  for (const [name, entry] of Object.entries(value)) {
    if (!NAME.test(name))
      return { at: name, wanted: 'named with 1 to 64 letters, digits, "_" and "-", the first a letter or digit' };
    const fault = entryFault(entry);
    if (fault) return { at: fault.at === '' ? name : `${name}.${fault.at}`, wanted: fault.wanted };
  }
  return null;
}

/** The first fault of an entry that may have these members and no others, or null. */
export function membersFault(entry: Record<string, unknown>, members: Record<string, MemberCheck>): EntryFault | null {
  for (const [member, value] of Object.entries(entry)) {
    const check = Object.hasOwn(members, member) ? members[member] : undefined;
    if (!check) return { at: member, wanted: `one of ${Object.keys(members).join(', ')}` };
    const fault = check(value);
    if (fault) return { at: `${member}${fault.at}`, wanted: fault.wanted };
  }
  return null;
}

export const text: MemberCheck = (value) =>
  isText(value) && value !== '' ? null : { at: '', wanted: 'a non-empty string without NUL' };

export const texts: MemberCheck = (value) => {
  if (!Array.isArray(value)) return { at: '', wanted: 'a list of strings' };
  const wrong = value.findIndex((item) => !isText(item));
  return wrong < 0 ? null : { at: `[${wrong}]`, wanted: 'a string without NUL' };
};

/** An object whose names and texts match. */
export const strings =
  (name: RegExp, text: RegExp, wanted: string): MemberCheck =>
  (value) => {
    if (!isObject(value)) return { at: '', wanted: 'an object of strings' };
    const isWrong = ([key, item]: [string, unknown]) => !name.test(key) || typeof item !== 'string' || !text.test(item);
    const wrong = Object.entries(value).find(isWrong);
    return wrong === undefined ? null : { at: `.${wrong[0]}`, wanted };
  };

export const environment: MemberCheck = strings(/^[^=\0]+$/, /^[^\0]*$/, 'a variable name with a string without NUL');

/** `instead` says where a user and password belong. */
export const webAddress =
  (instead: string): MemberCheck =>
  (value) => {
    const parsed = typeof value === 'string' && URL.canParse(value) ? new URL(value) : null;
    const plain = parsed?.username === '' && parsed.password === '';
    return plain && (parsed?.protocol === 'http:' || parsed?.protocol === 'https:')
      ? null
      : { at: '', wanted: `an http or https address without user and password; ${instead}` };
  };

export const oneOf =
  (allowed: readonly string[]): MemberCheck =>
  (value) =>
    allowed.includes(value as string) ? null : { at: '', wanted: `one of ${allowed.join(', ')}` };

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && !value.includes('\0');
}
