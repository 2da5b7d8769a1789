/** Files that go with a message to an agent: reads them, finds their types, and uploads them. */
import { isUtf8 } from 'node:buffer';
import { readFileSync, statSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { LIMITS } from '../../protocol/limits.ts';
import { formatBytes } from '../../protocol/text/units.ts';
import { CommandError, UsageError } from '../failure.ts';
import { type Client, ofFile } from './client.ts';

/** As `attachments` of a message names it. */
export type Attachment = { sha256: string; name: string };
type LocalFile = { name: string; type: string; bytes: Buffer };

/** Uploads them in this order. Throws before the first upload for a file that agents do not take. */
export async function attach(client: Client, app: string, paths: string[], cwd: string): Promise<Attachment[]> {
  const most = LIMITS.chatAttachments;
  if (paths.length > most) throw new UsageError(`A message takes at most ${most} files.`);
  const attachments: Attachment[] = [];
  for (const { name, type, bytes } of paths.map((path) => readLocal(path, cwd))) {
    const sent = { params: { id: app }, body: bytes };
    const { sha256 } = await client.call('POST /_svc-conversations/apps/:id/blobs', sent, ofFile(type));
    attachments.push({ sha256, name });
  }
  return attachments;
}

function readLocal(path: string, cwd: string): LocalFile {
  const most = LIMITS.attachmentBytes;
  const file = resolve(cwd, path);
  let bytes: Buffer;
  try {
    if (statSync(file).size > most)
      throw new CommandError(`${path} is larger than ${formatBytes(most)}.`, 'Send a smaller one, or a part of it.');
    bytes = readFileSync(file);
  } catch (error) {
    throw error instanceof CommandError
      ? error
      : new CommandError(
          `The file ${path} cannot be read.`,
          'Check its path: --attach <file>, from the current folder.',
        );
  }
  const type = imageType(bytes) ?? (isUtf8(bytes) && !bytes.includes(0) ? 'text/plain' : null);
  if (type === null)
    throw new CommandError(
      `${path}: agents take images (PNG, JPEG, GIF, WebP) and texts in UTF-8.`,
      'Convert it to one of these, or describe its content in the message.',
    );
  return { name: basename(file), type, bytes };
}

/** By its first bytes: the name of a file may be wrong. */
function imageType(bytes: Buffer): string | null {
  const head = bytes.toString('latin1', 0, 12);
  if (head.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png';
  if (head.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  if (/^GIF8[79]a/.test(head)) return 'image/gif';
  return /^RIFF[\s\S]{4}WEBP/.test(head) ? 'image/webp' : null;
}
