/** Writes numbers, sizes, times and shell words. */
import { plural as pluralOf } from '../protocol/text/units.ts';

export { formatBytes as bytes } from '../protocol/text/units.ts';

/** In the language of the browser. */
export const plural = (count: number, noun: string): string => pluralOf(count, noun, []);

export function duration(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return `${Math.floor(ms / 1000)} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** How long something took: what is short counts here. */
export function took(ms: number): string {
  if (ms < 1) return `${+ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms < 10 ? +ms.toFixed(1) : Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms);
}

/** The clocks of browser and gateway may differ a little, so a time in the future counts as now. */
export const ago = (at: number): string => (Date.now() - at < 1000 ? 'just now' : `${duration(Date.now() - at)} ago`);

export const ahead = (at: number): string => (at - Date.now() < 1000 ? 'now' : `in ${duration(at - Date.now())}`);

export const clock = (at: number): string =>
  new Date(at).toLocaleString([], { dateStyle: 'medium', timeStyle: 'medium' });

/** A word of a POSIX shell. */
export const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** A colour of its own for each app, the same wherever it is shown. */
export function hueOf(id: string): number {
  let hash = 0;
  for (const char of id) hash = (hash * 31 + char.codePointAt(0)!) % 360;
  return hash;
}
