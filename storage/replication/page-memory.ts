/** Lends memory for single pages, and takes it back: pages of commits come and go by the thousand a second. */

/** Of any size of page; 4 MiB where pages have the usual size. */
const MOST = 1024;

const free: Uint8Array[] = [];

/** Of what it holds nothing is known. */
export function takePage(bytes: number): Uint8Array {
  const page = free.pop();
  // Databases have pages of one size as a rule.
  return page?.length === bytes ? page : new Uint8Array(bytes);
}

/** Nobody reads it any more. A page that is a part of larger memory is not kept. */
export function givePage(page: Uint8Array): void {
  if (free.length < MOST && isOwn(page)) free.push(page);
}

/** It holds no more memory than its own. */
export function isOwn({ length, buffer }: Uint8Array): boolean {
  return length === buffer.byteLength;
}
