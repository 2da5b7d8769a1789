/** Objects of a git repository: their id, their form when stored, and the error when one is damaged. */
import { createHash } from 'node:crypto';
import { SvcError } from '../../protocol/errors.ts';

const TYPES = ['commit', 'tree', 'blob', 'tag'] as const;
export type ObjectType = (typeof TYPES)[number];
export type GitObject = { type: ObjectType; content: Buffer };

export function isObjectType(text: string): text is ObjectType {
  return (TYPES as readonly string[]).includes(text);
}

export function isObjectId(text: string): boolean {
  return /^[0-9a-f]{40}$/.test(text);
}

/** The object's name: the SHA-1 of its type, size and content. */
export function objectId(type: ObjectType, content: Uint8Array): string {
  return createHash('sha1').update(header(type, content)).update(content).digest('hex');
}

/** The form in which it is compressed and stored. */
export function wrapObject(type: ObjectType, content: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(header(type, content)), content]);
}

/** The object in that form. Throws when it is none. */
export function unwrapObject(raw: Buffer): GitObject {
  const end = raw.indexOf(0);
  const [type = '', size] = raw.toString('latin1', 0, Math.max(end, 0)).split(' ');
  const content = raw.subarray(end + 1);
  if (!isObjectType(type) || Number(size) !== content.length) throw new Error('The object is incomplete.');
  return { type, content };
}

function header(type: ObjectType, content: Uint8Array): string {
  return `${type} ${content.length}\0`;
}

export function damaged(what: string, cause?: unknown): SvcError {
  return new SvcError(
    'STORE_DAMAGED',
    `The git repository is damaged: ${what}. Run "git fsck" there to list all errors; restore it from a clone or a backup.`,
    cause === undefined ? {} : { cause },
  );
}

export function damagedObject(id: string, how: string, cause?: unknown): SvcError {
  return damaged(`object ${id} ${how}`, cause);
}
