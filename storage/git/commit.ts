/** Commits and annotated tags as text. */
import type { GitAuthor } from '../../protocol/git-jobs.ts';
import { damagedObject, type ObjectType } from './object.ts';

export type Signature = { author: GitAuthor; at: number };
export type Commit = { tree: string; parents: string[]; at: number };
export type Tag = { target: string; type: ObjectType; at: number; message: string };

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
  const { fields } = parse(content);
  const tree = fields.find(([key]) => key === 'tree')?.[1];
  if (tree === undefined) throw damagedObject(id, 'is no whole commit');
  return {
    tree,
    parents: fields.filter(([key]) => key === 'parent').map(([, value]) => value),
    at: time(fields.find(([key]) => key === 'committer')?.[1]),
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
  // A line that begins with a space goes on with the one before it, which is none of those that matter here.
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
