/** Says which files of a folder are no part of an app: `svc push` does not send them, and an import does not take them. Pure. */
import { STORED_EXTENSIONS } from './archive-rules.ts';

/** Why a file or folder of this name is left out, whatever is in it; null when it is not. */
export function nameReason(name: string): 'hidden' | 'dependencies' | 'database' | null {
  if (name.startsWith('.')) return 'hidden';
  if (name === 'node_modules') return 'dependencies';
  return name === '_registry.json' || name.startsWith('data.sqlite') ? 'database' : null;
}

/** Whether the gateway stores files of this name. */
export function isStored(name: string): boolean {
  return STORED_EXTENSIONS.has(name.slice(name.lastIndexOf('.')).toLowerCase());
}

/** Whether a file is left out, for its name or that of a folder above it. */
export function isLeftOut(path: string): boolean {
  const names = path.split('/');
  if (names.some((name) => /^\.{1,2}$/.test(name))) return false;
  return names.some((name) => nameReason(name) !== null) || !isStored(path);
}
