/** Reads the id of the app in an existing archive. */
import { createHash, type Hash } from 'node:crypto';
import { statSync } from 'node:fs';
import { basename } from 'node:path';
import { list } from 'tar';
import { contentHash } from '../../protocol/content-hash.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { ORIGIN_FILE } from '../../protocol/rules/archive-rules.ts';
import { formatBytes } from '../../protocol/text/units.ts';
import { CommandError } from '../failure.ts';

const MAKE = 'Make it in the folder of the app: tar -czf ../app.tar.gz .';
const NAMED = /\.(?:tar\.gz|tgz)$/i;

/** Whether this path is a file that is called like an archive. */
export function isArchive(path: string): boolean {
  return NAMED.test(path) && statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

/** The id in the `app.json` at its top. Throws `CommandError` for an archive that the gateway would refuse. */
export async function readArchivedId(path: string): Promise<string> {
  const name = basename(path);
  const { size } = statSync(path);
  if (size > LIMITS.uploadBodyBytes)
    throw new CommandError(
      `${name} has ${formatBytes(size)}; an archive may have ${formatBytes(LIMITS.uploadBodyBytes)}.`,
      'Leave some files out, and make it again.',
    );
  const parts: Buffer[] = [];
  try {
    await list({
      file: path,
      strict: true,
      onReadEntry: (entry) => {
        if (/^(?:\.\/)?app\.json$/.test(entry.path)) entry.on('data', (part) => void parts.push(part));
      },
    });
  } catch (error) {
    throw new CommandError(`${name} is not a gzipped tar archive: ${(error as Error).message}.`, MAKE);
  }
  const id = idOf(Buffer.concat(parts).toString());
  if (typeof id === 'string' && id !== '') return id;
  throw new CommandError(`${name} has no app.json with an id at its top.`, MAKE);
}

/** The hash of its files, as the gateway makes it. */
export async function archivedContent(path: string): Promise<string> {
  const hashes = new Map<string, Hash>();
  await list({
    file: path,
    onReadEntry: (entry) => {
      const name = entry.path.replace(/^(?:\.\/)+/, '');
      if ((entry.type !== 'File' && entry.type !== 'OldFile') || name === ORIGIN_FILE) return;
      const hash = createHash('sha256');
      hashes.set(name, hash);
      entry.on('data', (part) => void hash.update(part));
    },
  });
  const files = [...hashes].map(([name, hash]) => ({ path: name, sha256: hash.digest('hex') }));
  return contentHash(files.sort((a, b) => (a.path < b.path ? -1 : 1)));
}

function idOf(text: string): unknown {
  try {
    return (JSON.parse(text) as { id?: unknown } | null)?.id;
  } catch {
    return undefined;
  }
}
