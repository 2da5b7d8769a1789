/** The app that the scenarios call, packed for upload. */
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packFiles, scanAppFolder } from '../cli/app-folder.ts';
import { ROOT } from './servers.ts';

const FOLDER = join(ROOT, 'bench/app');
export const APP = 'bench';
/** The migration writes notes 1 to this. */
export const ROWS = 1000;

/** The archive of the app under another id. */
export async function packApp(id = APP): Promise<Buffer> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-bench-app-'));
  try {
    await cp(FOLDER, folder, { recursive: true });
    const manifest = JSON.parse(await readFile(join(FOLDER, 'app.json'), 'utf8')) as object;
    await writeFile(join(folder, 'app.json'), JSON.stringify({ ...manifest, id }));
    return await packFiles(folder, scanAppFolder(folder).files);
  } finally {
    await rm(folder, { recursive: true });
  }
}
