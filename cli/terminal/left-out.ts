/** Files of a folder that are not sent, on one line. */
import type { LeftOut } from '../dev/app-folder.ts';

/** Names listed of what is left out. */
const LISTED = 6;

export function drawLeftOut(leftOut: LeftOut[]): string {
  const names = leftOut.slice(0, LISTED).map(({ path, reason }) => `${path} (${reason})`);
  const more = leftOut.length - names.length;
  return `Left out: ${names.join(', ')}${more > 0 ? `, and ${more} more` : ''}`;
}
