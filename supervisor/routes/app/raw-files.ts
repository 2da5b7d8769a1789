/** Answers with a file of an app's code as a download that no browser runs: pages have other addresses. */
import { SvcError } from '../../../protocol/errors.ts';
import { type Exchange, PRIVATE } from '../../edge/edge.ts';
import { noneMatch } from '../../http/assets.ts';

const RAW = {
  'content-type': 'application/octet-stream',
  'content-disposition': 'attachment',
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; sandbox",
  'cache-control': 'no-cache',
  ...PRIVATE,
};

export function answerRaw(exchange: Exchange, { sha, bytes }: { sha: string; bytes: Uint8Array }): void {
  const etag = `"${sha}"`;
  if (noneMatch(exchange.header('if-none-match'), etag)) exchange.send(304, { ...RAW, etag }, '');
  else exchange.send(200, { ...RAW, etag }, Buffer.from(bytes));
}

/** `rest` is what follows `files`, undecoded. Throws `BAD_REQUEST`. */
export function pathOf(rest: string): string {
  try {
    return decodeURIComponent(rest.slice(1));
  } catch {
    throw new SvcError('BAD_REQUEST', 'The address has a malformed percent-encoding.');
  }
}
