/** The app that the scenarios call, and automations for it, as the files of an upload. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { HistoryKeep, Trigger } from '../protocol/automations/automation.ts';
import { automation } from '../testing/apps.ts';
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
export function largeFile(): Files {
  large ??= incompressible(2 ** 20);
  return { [LARGE_FILE]: large };
}
let large: Buffer | null = null;

type Files = Record<string, Buffer | string>;

/** The app's files under an id, with further files. */
export function benchApp(id = APP, extra: Files = {}): Files {
  const names = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' }).filter((name) => name.includes('.'));
  const files = Object.fromEntries(names.map((name) => [name, readFileSync(join(FOLDER, name), 'utf8')]));
  const manifest = JSON.parse(files['app.json'] as string) as object;
  return { ...files, 'app.json': JSON.stringify({ ...manifest, id, cache: id === CACHED_APP }), ...extra };
}

/** The two files of an automation that does nothing: the way to it and back is what is measured. */
export function automationFiles(id: string, triggers: Trigger[], keep: HistoryKeep = 'all'): Record<string, string> {
  return {
    [`automations/${id}/automation.json`]: automation({ triggers, history: { keep } }),
    [`automations/${id}/handler.js`]: "export default async () => ({ summary: 'done' });\n",
  };
}

/** Bytes that compress no better than a photograph does, the same in every run. */
export function incompressible(bytes: number, seed = 1): Buffer {
  const random = new Random(seed);
  return Buffer.from(Array.from({ length: bytes }, () => random.between(0, 255)));
}
