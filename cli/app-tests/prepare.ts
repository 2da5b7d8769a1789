/** Uploads an app once for all of its tests: each of them starts from a copy of that data directory. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { packApp, readAppId } from '../dev/app-folder.ts';
import { type Prepared, startParts } from './parts.ts';

/** Rejects with the error of an upload when the app cannot be made live. The caller removes `root` after the tests. */
export async function prepareApp(folder: string): Promise<{ prepared: Prepared; root: string }> {
  const app = readAppId(folder);
  const archive = await packApp(folder);
  const root = mkdtempSync(join(tmpdir(), 'svc-test-'));
  const dataDir = join(root, 'data');
  try {
    const parts = await startParts(dataDir);
    try {
      const { webhooks } = await parts.services.deployments.upload(app, Readable.from([archive]));
      const minted = webhooks.flatMap((one) => ('secret' in one ? [[one.automationId, one.secret] as const] : []));
      return { prepared: { folder, app, dataDir, minted: Object.fromEntries(minted) }, root };
    } finally {
      await parts.end(0);
    }
  } catch (error) {
    rmSync(root, { recursive: true, force: true });
    throw error;
  }
}
