/** The app that the scenarios call, packed for upload. */
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { packFiles, scanAppFolder } from '../cli/dev/app-folder.ts';
import { Random } from '../testing/random.ts';
import { ROOT } from './servers.ts';

const FOLDER = join(ROOT, 'bench/app');
export const APP = 'bench';
/** The same app, whose results are kept. */
export const CACHED_APP = 'bench-cached';
/** The migration writes notes 1 to this. */
export const ROWS = 1000;
/** What the app that is loaded has besides: a file of 1 MiB. */
export const LARGE_FILE = 'picture.png';
export function largeFile(): Record<string, Buffer> {
  large ??= incompressible(2 ** 20);
  return { [LARGE_FILE]: large };
}
let large: Buffer | null = null;

/** The archive of the app under another id, with further files. */
export async function packApp(id = APP, extra: Record<string, Buffer | string> = {}): Promise<Buffer> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-bench-app-'));
  try {
    await fillFolder(folder, id, extra);
    return await packFiles(folder, scanAppFolder(folder).files);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** The app's files under an id, with further files. */
export async function fillFolder(folder: string, id: string, extra: Record<string, Buffer | string>): Promise<void> {
  await cp(FOLDER, folder, { recursive: true });
  const manifest = JSON.parse(await readFile(join(FOLDER, 'app.json'), 'utf8')) as object;
  await writeFile(join(folder, 'app.json'), JSON.stringify({ ...manifest, id, cache: id === CACHED_APP }));
  for (const [name, content] of Object.entries(extra)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
}

/** Bytes that compress no better than a photograph does, the same in every run. */
export function incompressible(bytes: number, seed = 1): Buffer {
  const random = new Random(seed);
  return Buffer.from(Array.from({ length: bytes }, () => random.between(0, 255)));
}
