/**
 * The files of an app that its page names: finds what an address leads to, and collects why the page cannot be one document.
 * Addresses count from the page's own folder, `/svc/<app>/`.
 */
import type { InputIssue } from '../../../protocol/errors.ts';
import { PAGE_FILE } from '../../../protocol/http/mcp-app.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { staticType } from '../../../protocol/rules/static-files.ts';

/** Any host that no page names; with the path of a page, so that addresses can go from the root. */
const HOST = 'http://page.invalid';
/** Addresses that stand for their content, or for nothing that is loaded. */
const CONTAINED = /^(?:data|blob|about|javascript|mailto|tel):|^#|^$/i;

/** What an address leads to. Null: nothing of the app, which stays as it is. */
type Found = { path: string; fragment: string } | null;

export class PageFiles {
  readonly faults: InputIssue[] = [];
  /** What the page says its addresses count from; of its own file when empty. */
  base = '';
  /** Bytes that all files add to the document so far. */
  total = 0;
  /** The same of each. */
  readonly sizes = new Map<string, number>();
  readonly #root: string;
  readonly #paths: ReadonlySet<string>;
  readonly #read: (path: string) => Buffer;

  constructor(app: string, paths: Iterable<string>, read: (path: string) => Buffer) {
    this.#root = `${HOST}/svc/${app}/`;
    this.#paths = new Set(paths);
    this.#read = read;
  }

  /** `from` is the file with the address; an address of another origin is a fault of it. */
  find(address: string, from: string): Found {
    if (CONTAINED.test(address.trim())) return null;
    const file = new URL(encodeURI(from), this.#root);
    const at = from === PAGE_FILE && URL.canParse(this.base, file.href) ? new URL(this.base, file) : file;
    if (!URL.canParse(address, at.href)) return null;
    const url = new URL(address, at);
    if (url.origin !== HOST) {
      this.fault(
        from,
        `It needs ${url.origin === 'null' ? url.protocol : url.origin}, and there is only what is in the app.`,
        'origin',
      );
      return null;
    }
    const path = url.href.startsWith(this.#root)
      ? decoded(url.pathname.slice(new URL(this.#root).pathname.length))
      : '';
    return this.#paths.has(path) && staticType(path) !== undefined ? { path, fragment: url.hash } : null;
  }

  /** The address of a file that means the same from anywhere. */
  addressOf(path: string): string {
    return new URL(encodeURI(path), this.#root).pathname;
  }

  fault(path: string, message: string, keyword: string): void {
    if (
      this.faults.length < LIMITS.inputIssues &&
      !this.faults.some((one) => one.path === path && one.message === message)
    )
      this.faults.push({ path, message, keyword });
  }

  /** Empty once there is too much: a sheet that is imported again and again would have no end. */
  text(path: string): string {
    if (this.isTooLarge) return '';
    const bytes = this.#read(path);
    this.#count(path, bytes.length);
    return this.isTooLarge ? '' : bytes.toString().replace(/^\uFEFF/, '');
  }

  /** The file as an address that contains it. */
  #dataUrl({ path, fragment }: NonNullable<Found>): string {
    const bytes = this.#read(path);
    const type = (staticType(path) as string).replace('; ', ';');
    const url = `data:${type};base64,${bytes.toString('base64')}${fragment}`;
    this.#count(path, url.length);
    return url;
  }

  /** The address in its place, if it leads to a file of the app, and there is not too much yet. */
  inlined(address: string, from: string): string | null {
    const found = this.find(address, from);
    return found && !this.isTooLarge ? this.#dataUrl(found) : null;
  }

  /** Whether more was read than a document may have. */
  get isTooLarge(): boolean {
    return this.total > LIMITS.mcpPageBytes;
  }

  #count(path: string, bytes: number): void {
    this.total += bytes;
    this.sizes.set(path, (this.sizes.get(path) ?? 0) + bytes);
  }
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return '';
  }
}
