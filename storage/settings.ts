/**
 * Reads and writes an app's stored settings, `settings.json` beside its data (specification, "Settings of pages"). They survive
 * every version.
 */
import { basename } from 'node:path';
import { SvcError } from '../protocol/errors.ts';
import { LIMITS } from '../protocol/limits.ts';
import { isRecord } from '../protocol/shapes/shape.ts';
import { readJson, writeFileAtomic } from './files/atomic-file.ts';
import type { AppPaths } from './layout.ts';

type Settings = Record<string, unknown>;

/** `{}` when none were stored: the manifest's defaults apply where a setting is missing. Rejects with `STORE_DAMAGED`. */
export async function readSettings(app: AppPaths): Promise<Settings> {
  const value = await readJson(app.settings, null);
  if (value === undefined) return {};
  if (isRecord(value)) return value;
  const what = `The file ${basename(app.settings)} of "${basename(app.dir)}" is damaged`;
  throw new SvcError('STORE_DAMAGED', `${what}: store the settings again, or put the file of a backup in its place.`);
}

/** Replaces them. Throws `BAD_REQUEST` when they are no object, `PAYLOAD_TOO_LARGE` over `LIMITS.settingsBytes`. */
export async function writeSettings(app: AppPaths, settings: unknown): Promise<Settings> {
  if (!isRecord(settings)) throw new SvcError('BAD_REQUEST', 'Settings must be a JSON object.');
  const text = JSON.stringify(settings);
  if (Buffer.byteLength(text) > LIMITS.settingsBytes)
    throw new SvcError('PAYLOAD_TOO_LARGE', `Settings may have at most ${LIMITS.settingsBytes} bytes.`);
  await writeFileAtomic(app.settings, text);
  return settings;
}
