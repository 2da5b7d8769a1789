/** Texts of `validators.js` that can be distinguished from others. */
import { createHash } from 'node:crypto';

/** The text with a mark at its end, still intact according to its first line. */
export function withMark(text: string, mark: string): string {
  const [line = '', ...rest] = text.split('\n');
  const body = `${rest.join('\n')}\n${mark}`;
  const hash = createHash('sha256').update(body).digest('hex');
  return `${line.slice(0, line.lastIndexOf(' '))} ${hash}\n${body}`;
}
