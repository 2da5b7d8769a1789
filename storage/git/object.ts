/** Encodes and decodes git objects: their ids, their stored form, and the content of commits, tags and trees. */
import { createHash } from 'node:crypto';
import { SvcError } from '../../protocol/errors.ts';
import { matching } from '../../protocol/shapes/schema.ts';
import type { GitAuthor } from '../../protocol/wire/git-jobs.ts';

const TYPES = ['commit', 'tree', 'blob', 'tag'] as const;
export type ObjectType = (typeof TYPES)[number];
export type GitObject = { type: ObjectType; content: Buffer };

export function isObjectType(text: string): text is ObjectType {
  return (TYPES as readonly string[]).includes(text);
}

const ID = /^[0-9a-f]{40}$/;
export const OBJECT_ID = matching(ID, 'the id of a git object');

export function isObjectId(text: string): boolean {
  return ID.test(text);
}

/** The object's name: the SHA-1 of its type, size and content. */
export function objectId(type: ObjectType, content: Uint8Array): string {
  return createHash('sha1').update(header(type, content)).update(content).digest('hex');
}

/** The form in which it is compressed and stored. */
export function wrapObject(type: ObjectType, content: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(header(type, content)), content]);
}

/** The object in that form. Throws when it is incomplete. */
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

export type Signature = { author: GitAuthor; at: number };
export type Commit = { tree: string; parents: string[]; at: number; message: string };
type Tag = { target: string; type: ObjectType; at: number; message: string };

export function serializeCommit(commit: Signature & { tree: string; parents: string[]; message: string }): Buffer {
  const { tree, parents, message } = commit;
  const signature = sign(commit);
  const lines = [
    `tree ${tree}`,
    ...parents.map((parent) => `parent ${parent}`),
    `author ${signature}`,
    `committer ${signature}`,
  ];
  return Buffer.from(`${lines.join('\n')}\n\n${messageText(message)}`);
}

export function serializeTag(tag: Signature & { name: string; target: string; message: string }): Buffer {
  const { name, target, message } = tag;
  const lines = [`object ${target}`, 'type commit', `tag ${name}`, `tagger ${sign(tag)}`];
  return Buffer.from(`${lines.join('\n')}\n\n${messageText(message)}`);
}

export function parseCommit(id: string, content: Buffer): Commit {
  const { fields, message } = parse(content);
  const tree = fields.find(([key]) => key === 'tree')?.[1];
  if (tree === undefined) throw damagedObject(id, 'is no whole commit');
  return {
    tree,
    parents: fields.filter(([key]) => key === 'parent').map(([, value]) => value),
    at: time(fields.find(([key]) => key === 'committer')?.[1]),
    message,
  };
}

export function parseTag(id: string, content: Buffer): Tag {
  const { fields, message } = parse(content);
  const field = new Map(fields);
  const target = field.get('object');
  const type = field.get('type');
  if (target === undefined || type === undefined) throw damagedObject(id, 'is no whole tag');
  return { target, type: type as ObjectType, at: time(field.get('tagger')), message };
}

function parse(content: Buffer): { fields: [string, string][]; message: string } {
  const text = content.toString('utf8');
  const end = text.indexOf('\n\n');
  const head = end < 0 ? text : text.slice(0, end);
  // A line that begins with a space continues the one before it; the fields read here have no such lines.
  const fields = head
    .split('\n')
    .filter((line) => !line.startsWith(' '))
    .map((line): [string, string] => {
      const space = line.indexOf(' ');
      return [line.slice(0, space), line.slice(space + 1)];
    });
  return { fields, message: end < 0 ? '' : text.slice(end + 2) };
}

/** Characters that would end a name or an address are left out, as git does. */
function sign({ author, at }: Signature): string {
  const name = author.name.replace(/[<>\p{Cc}]/gu, '').trim() || 'svc';
  const email = author.email.replace(/[<>\p{Cc}]/gu, '').trim();
  return `${name} <${email}> ${Math.floor(at / 1000)} +0000`;
}

function time(signature: string | undefined): number {
  const seconds = /> (\d+) [+-]\d{4}$/.exec(signature ?? '')?.[1];
  return seconds === undefined ? 0 : Number(seconds) * 1000;
}

function messageText(message: string): string {
  return `${message.replaceAll('\0', '').trimEnd()}\n`;
}

/** Git's mode of a folder. */
export const FOLDER_MODE = '40000';

export type TreeEntry = { mode: string; name: string; id: string };

export function parseTree(id: string, content: Buffer): TreeEntry[] {
  const entries: TreeEntry[] = [];
  for (let at = 0; at < content.length; ) {
    const space = content.indexOf(0x20, at);
    const end = content.indexOf(0, space);
    if (space < 0 || end < 0 || end + 21 > content.length) throw damagedObject(id, 'is no whole tree');
    entries.push({
      mode: content.toString('latin1', at, space),
      name: content.toString('utf8', space + 1, end),
      id: content.toString('hex', end + 1, end + 21),
    });
    at = end + 21;
  }
  return entries;
}

/** In the order of git, which sorts a folder as if its name ended with a slash. */
export function serializeTree(entries: TreeEntry[]): Buffer {
  const keyed = entries.map((entry) => ({
    entry,
    key: Buffer.from(entry.mode === FOLDER_MODE ? `${entry.name}/` : entry.name),
  }));
  keyed.sort((a, b) => a.key.compare(b.key));
  return Buffer.concat(
    keyed.flatMap(({ entry }) => [Buffer.from(`${entry.mode} ${entry.name}\0`), Buffer.from(entry.id, 'hex')]),
  );
}
