/** A data directory in a known state, and the gateway on it whose crashes are planned. */
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Layout } from '../../../storage/layout.ts';
import { TestGateway } from '../../../testing/gateway.ts';
import { CrashPlan } from '../../../testing/shim/crash.ts';

/** Two, so that an upload over two others has something to prune. */
const VERSION_RETENTION = 2;

/** A folder that rounds are copied from. `appsDir` is outside of it when the apps lie on another file system. */
export type Scene = { name: string; folder: string } & Places;

/** `shim` is the library that crashes are planned with. */
export type Places = { appsDir: string | null; store: 'tarball' | 'git'; shim: string };

export class World {
  readonly folder: string;
  readonly appsDir: string | null;
  readonly layout: Layout;
  readonly gateway: TestGateway;
  /** Whether the gateway's own process runs. */
  alive = false;
  readonly plan: CrashPlan;

  constructor(folder: string, { appsDir, store, shim }: Places) {
    this.folder = folder;
    this.appsDir = appsDir;
    this.layout = new Layout(join(folder, 'data'), appsDir ?? undefined, store === 'git' ? 'code-store' : undefined);
    mkdirSync(folder, { recursive: true });
    const config = { log: 'warn', versionRetention: VERSION_RETENTION, ...(appsDir === null ? {} : { appsDir }) };
    writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
    const watched = [this.layout.dataDir, ...(appsDir === null ? [] : [appsDir])];
    this.plan = new CrashPlan(shim, join(folder, 'plan'), watched);
    const flags = ['--config', join(folder, 'config.json'), '--store', store];
    this.gateway = new TestGateway(this.layout.dataDir, flags, this.plan.env);
  }

  /** The state of `scene` in a folder of its own. */
  static copy(scene: Scene, folder: string): World {
    const appsDir = scene.appsDir === null ? null : join(scene.appsDir, '..', `${folder.replaceAll('/', '_')}-apps`);
    const options = { recursive: true, preserveTimestamps: true, verbatimSymlinks: true };
    cpSync(join(scene.folder, 'data'), join(folder, 'data'), options);
    if (scene.appsDir !== null && appsDir !== null) cpSync(scene.appsDir, appsDir, options);
    return new World(folder, { ...scene, appsDir });
  }

  /** Rejects when it ends before it is ready. */
  async start(): Promise<void> {
    try {
      await this.gateway.start();
    } catch (error) {
      await this.gateway.exited();
      throw error;
    }
    this.alive = true;
    void this.gateway.exited().then(() => {
      this.alive = false;
    });
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
    if (this.appsDir !== null) rmSync(this.appsDir, { recursive: true, force: true });
  }
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
