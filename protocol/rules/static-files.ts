/**
 * Decides which files of an app may be served, and with which content type (specification, "Static files").
 */
import { STATIC_TYPES } from '../http/media-types.ts';
import { PACKAGES_FOLDER } from './handler-imports.ts';

const RESERVED_NAMES = new Set(['data.sqlite', '_registry.json', 'app.json']);
const RESERVED_FOLDERS = new Set(['queries', 'actions', 'migrations', 'automations', PACKAGES_FOLDER]);

/** Tests of an app: `svc test` runs them. They are stored with the code, and never served, checked or run by a gateway. */
const TEST_FILE = /\.test\.(?:js|ts)$/;

/** Whether a file of an app, by its name or path, is a test. */
export function isTestFile(path: string): boolean {
  return TEST_FILE.test(path);
}

/**
 * The content type of a file of an app, or undefined when it is never served. `path` is relative, decoded and uses `/`.
 * Reserved names are reserved in any folder and in any case; reserved folders are those at the top.
 */
export function staticType(path: string): string | undefined {
  const segments = path.toLowerCase().split('/');
  if (RESERVED_FOLDERS.has(segments[0] as string)) return undefined;
  for (const segment of segments) {
    if (segment === '' || segment.startsWith('.') || /[\\\0]/.test(segment)) return undefined;
  }
  const name = segments[segments.length - 1] as string;
  const dot = name.lastIndexOf('.');
  if (dot <= 0 || RESERVED_NAMES.has(name) || isTestFile(name)) return undefined;
  const extension = name.slice(dot);
  return Object.hasOwn(STATIC_TYPES, extension) ? STATIC_TYPES[extension] : undefined;
}
