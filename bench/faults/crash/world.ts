/** A data directory in a known state, and the gateway on it whose crashes are planned (storage/crash-point). */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Layout } from '../../../storage/layout.ts';
import { TestGateway } from '../../../testing/gateway.ts';

/** `passing`: at which passing of the point, from 1. `tree` takes every process of the gateway along. */
export type Crash = { point: string; passing: number; mode: 'process' | 'tree' };

export type Passed = { point: string; pid: number };

/** Two, so that an upload over two others has something to prune. */
const VERSION_RETENTION = 2;

/** A folder that rounds are copied from. `appsDir` is outside of it when the apps lie on another file system. */
export type Scene = { name: string; folder: string } & Places;

export type Places = { appsDir: string | null; store: 'tarball' | 'git' };

export class World {
  readonly folder: string;
  readonly appsDir: string | null;
  readonly layout: Layout;
  readonly gateway: TestGateway;
  /** Whether the gateway's own process runs. */
  alive = false;
  readonly plan: string;

  constructor(folder: string, { appsDir, store }: Places) {
    this.folder = folder;
    this.appsDir = appsDir;
    this.plan = join(folder, 'plan');
    this.layout = new Layout(join(folder, 'data'), appsDir ?? undefined, store === 'git' ? 'code-store' : undefined);
    mkdirSync(folder, { recursive: true });
    const config = { log: 'warn', versionRetention: VERSION_RETENTION, ...(appsDir === null ? {} : { appsDir }) };
    writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
    this.setPlan([]);
    const flags = ['--config', join(folder, 'config.json'), '--store', store];
    this.gateway = new TestGateway(this.layout.dataDir, flags, this.environment);
  }

  /** The state of `scene` in a folder of its own. */
  static copy(scene: Scene, folder: string): World {
    const appsDir = scene.appsDir === null ? null : join(scene.appsDir, '..', `${folder.replaceAll('/', '_')}-apps`);
    const options = { recursive: true, preserveTimestamps: true, verbatimSymlinks: true };
    cpSync(join(scene.folder, 'data'), join(folder, 'data'), options);
    if (scene.appsDir !== null && appsDir !== null) cpSync(scene.appsDir, appsDir, options);
    return new World(folder, { appsDir, store: scene.store });
  }

  get environment(): Record<string, string> {
    return { SVC_CRASH_PLAN: this.plan };
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

  /** What is passed from here on is recorded anew. */
  setPlan(crashes: Crash[]): void {
    writeFileSync(`${this.plan}.passed`, '');
    writeFileSync(this.plan, crashes.map(({ point, passing, mode }) => `${point} ${passing} ${mode}\n`).join(''));
  }

  /** Those that have not come are not to come any more; what was passed stays recorded. */
  cancelPlan(): void {
    writeFileSync(this.plan, '');
  }

  /** Crashes that are still to come. */
  pending(): number {
    return readFileSync(this.plan, 'utf8').split('\n').filter(Boolean).length;
  }

  passed(): Passed[] {
    return readFileSync(`${this.plan}.passed`, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => {
        const [point = '', pid] = line.split(' ');
        return { point, pid: Number(pid) };
      });
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
    if (this.appsDir !== null) rmSync(this.appsDir, { recursive: true, force: true });
  }
}
