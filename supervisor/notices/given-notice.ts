/** Checks what an app gives to `ctx.notify`, and counts it against the limit of an hour (specification, "Notices"). */

import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isRecord } from '../../protocol/shapes/shape.ts';

const MEMBERS = ['title', 'text', 'url'];

/** `url` is absolute, or null. */
export type GivenNotice = { title: string; text: string; url: string | null };

/**
 * `page` is the address that a relative `url` begins at, null where none is known: then such a notice has no link. Throws
 * `BAD_REQUEST`, the member in `path`.
 */
export function givenNotice(given: unknown, page: string | null): GivenNotice {
  if (!isRecord(given)) throw bad('', 'ctx.notify takes an object: { title, text, url? }.');
  const unknown = Object.keys(given).find((member) => !MEMBERS.includes(member));
  if (unknown !== undefined) throw bad(unknown.slice(0, LIMITS.textChars), 'A notice has title, text and url.');
  const title = textOf(given, 'title', LIMITS.noticeTitleChars).replace(/\p{Cc}+/gu, ' ');
  const text = textOf(given, 'text', LIMITS.noticeTextChars).replace(/[^\P{Cc}\n\t]/gu, '');
  return { title, text, url: urlOf(given.url, page) };
}

function textOf(given: Record<string, unknown>, member: string, most: number): string {
  const value = given[member];
  const text = typeof value === 'string' ? value.trim() : '';
  if (text !== '' && text.length <= most) return text;
  throw bad(member, `"${member}" of a notice must be a text of 1 to ${most} characters.`);
}

function urlOf(value: unknown, page: string | null): string | null {
  if (value === undefined || value === null) return null;
  const wanted = `"url" of a notice must be an http or https address, or relative to the app's page, of at most ${LIMITS.noticeUrlChars} characters.`;
  if (typeof value !== 'string' || value.length > LIMITS.noticeUrlChars) throw bad('url', wanted);
  // Some base, to tell relative ones from wrong ones.
  const base = page ?? 'http://localhost/';
  if (!URL.canParse(value, base)) throw bad('url', wanted);
  const { protocol, href, username, password } = new URL(value, base);
  const isWeb = protocol === 'http:' || protocol === 'https:';
  if (!isWeb || username !== '' || password !== '') throw bad('url', wanted);
  return page === null && !URL.canParse(value) ? null : href;
}

function bad(path: string, message: string): SvcError {
  return new SvcError('BAD_REQUEST', message, path === '' ? {} : { path });
}

/** Counts by name in fixed windows: one opens with the first count. */
export class HourlyLimit {
  readonly #now: () => number;
  readonly #windows = new Map<string, { opened: number; count: number }>();

  /** `now` gives milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Counts one more: 0, or if there are as many as there may be, the milliseconds until there may be more. */
  take(name: string): number {
    const now = this.#now();
    let window = this.#windows.get(name);
    if (window === undefined || now - window.opened >= LIMITS.noticeWindowMs || now < window.opened) {
      window = { opened: now, count: 0 };
      this.#windows.set(name, window);
    }
    if (window.count >= LIMITS.noticesInWindow) return window.opened + LIMITS.noticeWindowMs - now;
    window.count++;
    return 0;
  }

  forget(name: string): void {
    this.#windows.delete(name);
  }
}
