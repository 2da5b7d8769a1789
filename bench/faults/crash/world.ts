/** A data directory in a known state, and the gateway on it whose crashes are planned. */
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Layout } from '../../../storage/layout.ts';
import { automation } from '../../../testing/apps.ts';
import { type Answer, gatewayIn } from '../../../testing/gateway.ts';
import { CrashPlan } from '../../../testing/shim/crash.ts';
import { ledgerApp } from '../../../testing/write-ledger.ts';

/** Two, so that an upload over two others has something to prune. */
const VERSION_RETENTION = 2;

/** Where a world is: `appsDir` is outside of `folder` when the apps lie on another file system; crashes are planned with `shim`. */
export type Scene = { folder: string; appsDir: string | null; store: 'tarball' | 'git'; shim: string };

export type World = ReturnType<typeof worldOf>;

export function worldOf({ folder, appsDir, store, shim }: Scene) {
  const layout = new Layout(join(folder, 'data'), appsDir ?? undefined, store === 'git' ? 'code-store' : undefined);
  mkdirSync(folder, { recursive: true });
  const config = { versionRetention: VERSION_RETENTION, ...(appsDir === null ? {} : { appsDir }) };
  const watched = [layout.dataDir, ...(appsDir === null ? [] : [appsDir])];
  const plan = new CrashPlan(shim, join(folder, 'plan'), watched);
  const gateway = gatewayIn(folder, { store, config, env: plan.env });
  return {
    layout,
    gateway,
    plan,
    /** The token before the operation; empty where there was none. */
    oldToken: '',
    /** Rejects when it ends before it is ready, and is seen to have ended. */
    start: () =>
      gateway.start().catch(async (error) => {
        await gateway.exited();
        throw error;
      }),
    remove: () => {
      for (const path of watched.concat(folder)) rmSync(path, { recursive: true, force: true });
    },
  };
}

/** The state of `scene` in a folder of its own. */
export function copyOf(scene: Scene, folder: string): World {
  const appsDir = scene.appsDir === null ? null : join(scene.appsDir, '..', `${folder.replaceAll('/', '_')}-apps`);
  const options = { recursive: true, preserveTimestamps: true, verbatimSymlinks: true };
  cpSync(join(scene.folder, 'data'), join(folder, 'data'), options);
  if (scene.appsDir !== null && appsDir !== null) cpSync(scene.appsDir, appsDir, options);
  return worldOf({ ...scene, folder, appsDir });
}

/** One request, answered with its status. */
export const call =
  (method: string, path: string, body?: unknown) =>
  async ({ gateway }: World): Promise<number> =>
    (await gateway.call(method, path, body === undefined ? {} : { body })).status;

/** The JSON that a request is answered with; rejects for any answer but 200. */
export async function get({ gateway }: World, path: string): Promise<unknown> {
  const { status, text, json } = await gateway.call('GET', path);
  if (status !== 200) throw new Error(`GET ${path} answers ${status} ${text}`);
  return json as unknown;
}

export const SIGNED = 'automations/signed/automation.json';

/** What each version of the ledger adds; the query `which` works on data that suits its version only. */
const LATER_MIGRATIONS = {
  'migrations/0002_extra.sql': 'CREATE TABLE extra (n INTEGER NOT NULL); INSERT INTO extra VALUES (3);',
  'migrations/0003_more.sql': 'ALTER TABLE extra ADD COLUMN m INTEGER;',
};

/** An app of this version; from 3 on with two migrations more, of which the second fails when `broken`. */
export function versionOf(id: string, version: number, broken = false): Record<string, string> {
  const files = ledgerApp(id);
  const manifest = JSON.parse(files['app.json'] as string) as { version: string; queries: { name: string }[] };
  manifest.version = `${version}.0.0`;
  manifest.queries.push({ name: 'which' });
  const rows = version >= 3 ? '(SELECT count(m) + sum(n) FROM extra)' : '2';
  return {
    ...files,
    ...(version >= 3 ? LATER_MIGRATIONS : {}),
    ...(broken ? { 'migrations/0003_more.sql': 'INSERT INTO nowhere VALUES (1);' } : {}),
    'app.json': JSON.stringify(manifest),
    'queries/which.js': `export default async ({ db }) => ({ version: ${version}, ...(await db.get('SELECT ${rows} AS extra')) });`,
  };
}

/** Fires at New Year, and when it is posted to. */
export const hooked = (signing: boolean): string =>
  automation({
    triggers: [
      { kind: 'cron', expr: '0 0 1 1 *' },
      { kind: 'webhook', pending: true, signing },
    ],
  });

/** The same with two automations whose webhooks are to be minted, of which one is signed. */
export function automatedVersionOf(id: string, version: number, broken = false): Record<string, string> {
  return {
    ...versionOf(id, version, broken),
    'automations/plain/automation.json': hooked(false),
    'automations/plain/handler.js': 'export default () => {};',
    [SIGNED]: hooked(true),
    'automations/signed/handler.js': 'export default () => {};',
  };
}

export async function expectStatus(status: number, answer: Promise<Answer>): Promise<Answer> {
  const given = await answer;
  if (given.status !== status) throw new Error(`A scene could not be made: ${given.status} ${given.text}`);
  return given;
}
