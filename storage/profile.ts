/** Reads and writes `profile.json`: the kind of gateway that uses the data directory (specification, "Gateway profile"). */
import { readFile } from 'node:fs/promises';
import { isMissing, writeFileAtomic } from './files/atomic-file.ts';

/** Makes the file once; later only its `kind` changes. A damaged file is left alone. */
export async function writeProfile(path: string, kind: 'daemon' | 'desktop' | 'plugin'): Promise<void> {
  let profile: object = { id: 'local', kind, label: 'Local gateway', createdAt: new Date().toISOString() };
  try {
    const stored = JSON.parse(await readFile(path, 'utf8')) as { kind?: unknown };
    if (stored.kind === kind) return;
    profile = { ...stored, kind };
  } catch (error) {
    if (!isMissing(error)) return;
  }
  await writeFileAtomic(path, `${JSON.stringify(profile, null, 2)}\n`);
}
