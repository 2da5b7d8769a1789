/** Reads and changes the `app.json` in an app's folder, leaving everything else in it as its author wrote it. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import { isMissing, writeFileAtomic } from '../../storage/atomic-file.ts';

/** Rejects with `INVALID_MANIFEST` when the file is not one that can be changed. An empty description removes it. */
export async function editManifest(folder: string, change: { name?: string; description?: string }): Promise<void> {
  const path = join(folder, 'app.json');
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    throw new SvcError('INVALID_MANIFEST', 'The app has no app.json in this session.', { path: 'app.json' });
  });
  const manifest = parse(text);
  const { description, ...rest } = { ...manifest, ...change };
  await writeFileAtomic(path, `${JSON.stringify(description === '' ? rest : { ...manifest, ...change }, null, 2)}\n`);
}

/** The app's name; null when the file does not say it. */
export async function readName(folder: string): Promise<string | null> {
  try {
    const { name } = parse(await readFile(join(folder, 'app.json'), 'utf8'));
    return typeof name === 'string' ? name : null;
  } catch {
    return null;
  }
}

function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Answered below.
  }
  throw new SvcError('INVALID_MANIFEST', 'The app.json of this session is not a JSON object; fix it first.', {
    path: 'app.json',
  });
}
