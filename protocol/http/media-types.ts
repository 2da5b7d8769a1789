/** Maps the endings of file names to media types, for uploads and downloads by name. */

/** Extension → content type of an app's files. Files with other extensions are not served. */
export const STATIC_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.htm': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.map': 'application/json; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.webp': 'image/webp',
  '.gif': 'image/gif',
  '.ico': 'image/x-icon',
  '.woff': 'font/woff',
  '.woff2': 'font/woff2',
  '.ttf': 'font/ttf',
  '.otf': 'font/otf',
};

/** Ending → media type: parts of pages, and other files that people keep. The first ending of a type is its usual one. */
const MEDIA_TYPES: Readonly<Record<string, string>> = {
  ...STATIC_TYPES,
  '.txt': 'text/plain; charset=utf-8',
  '.md': 'text/markdown; charset=utf-8',
  '.csv': 'text/csv; charset=utf-8',
  '.ics': 'text/calendar; charset=utf-8',
  '.xml': 'application/xml',
  '.pdf': 'application/pdf',
  '.zip': 'application/zip',
  '.gz': 'application/gzip',
  '.avif': 'image/avif',
  '.heic': 'image/heic',
  '.mp3': 'audio/mpeg',
  '.m4a': 'audio/mp4',
  '.ogg': 'audio/ogg',
  '.wav': 'audio/wav',
  '.mp4': 'video/mp4',
  '.webm': 'video/webm',
  '.mov': 'video/quicktime',
};

/** By the name of a file; undefined for an ending that is not known. */
export function mediaTypeOf(name: string): string | undefined {
  const ending = /\.[a-z0-9]+$/.exec(name.toLowerCase())?.[0] ?? '';
  return Object.hasOwn(MEDIA_TYPES, ending) ? MEDIA_TYPES[ending] : undefined;
}

/** The usual ending of names for a media type, with its dot; the empty string for a type that is not known. */
export function endingOf(type: string): string {
  const essence = essenceOf(type);
  return Object.keys(MEDIA_TYPES).find((ending) => essenceOf(MEDIA_TYPES[ending] as string) === essence) ?? '';
}

/** `text/plain` of `Text/plain; charset=utf-8`. */
export function essenceOf(type: string): string {
  return (type.split(';')[0] as string).trim().toLowerCase();
}
