/** For tests: real uploads with automations into a real directory, with the catalog and the switches; nothing runs. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pino } from 'pino';
import { Registry } from '../storage/apps/registry.ts';
import { Layout } from '../storage/layout.ts';
import { AutomationCatalog } from '../supervisor/automations/catalog.ts';
import { Enablement } from '../supervisor/automations/enablement.ts';
import { Deployments } from '../supervisor/deployments/deploy.ts';
import { ArchiveStore } from '../supervisor/deployments/store/code-store.ts';
import type { Jobs } from '../supervisor/jobs/jobs.ts';
import { appFiles, tarball } from './archive.ts';
import { openJobs } from './jobs.ts';
import { standIn } from './stand-in.ts';

export const ORIGIN = 'http://127.0.0.1:8787';

/** Job threads and a folder for the data directories of one test file; `close` after all its tests. */
export async function openWorkshop() {
  const root = mkdtempSync(join(tmpdir(), 'automations-'));
  const opened = await openJobs(root);
  const { jobs } = opened;
  let directories = 0;
  return {
    start: () => startIn(join(root, String(++directories)), jobs),
    async close(): Promise<void> {
      await opened.close();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

async function startIn(dataDir: string, jobs: Jobs) {
  const layout = new Layout(dataDir);
  const log = pino({ enabled: false });
  const registry = await Registry.open({ layout, userVersion: async () => 0, makeDurable: async () => {}, log });
  const catalog = new AutomationCatalog({ layout, registry, log });
  const deployments = new Deployments({
    layout,
    registry,
    store: new ArchiveStore(layout),
    share: async () => {},
    jobs,
    databases: standIn({
      userVersion: async () => 0,
      migrate: async () => [],
      makeDurable: async () => {},
      close: async () => {},
    }),
    apps: standIn({
      swap: (app) => catalog.load(app),
      versionsAtWork: () => new Set(),
      stop: async (app) => catalog.forget(app),
      forget: async () => {},
      loadRestored: async () => {},
    }),
    versionRetention: 2,
    addresses: { holderOf: (slug) => catalog.bySlug(slug)?.app, of: (app) => catalog.slugsOf(app), shared: null },
    log,
  });
  const enablement = new Enablement({ layout, registry, deployments, catalog, log });
  const upload = (automations: Record<string, string>, version = '1', id = 'notes') => {
    const files = Object.entries(automations).flatMap(([name, text]) => [
      [`automations/${name}/automation.json`, text],
      [`automations/${name}/handler.js`, 'export default () => {};'],
    ]);
    const archive = tarball({ ...appFiles(id, { version }), ...Object.fromEntries(files) });
    return deployments.upload(id, Readable.from([archive]), { origin: ORIGIN });
  };
  /** The file of a live automation. */
  const fileOf = (id: string, app = 'notes') => {
    const versionId = registry.loaded(app)?.active?.versionId ?? '';
    return layout.app(app).version(versionId).automation(id);
  };
  return { layout, registry, catalog, deployments, enablement, upload, fileOf };
}
