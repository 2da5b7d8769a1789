/** For tests: a gateway with its real processes, whose drafts come from plain folders. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pino } from 'pino';
import { unknownWorkspace } from '../protocol/ids.ts';
import { damagedData } from '../storage/apps/app-data.ts';
import { unknownApp } from '../storage/apps/registry.ts';
import { namesIn } from '../storage/files/atomic-file.ts';
import type { GitStoreServices } from '../supervisor/authoring/open-authoring.ts';
import { resolveConfig } from '../supervisor/config.ts';
import { Databases } from '../supervisor/databases.ts';
import type { ChangeStreams } from '../supervisor/dispatch/change-streams.ts';
import { Drafts } from '../supervisor/drafts/drafts.ts';
import { assemble } from '../supervisor/wiring.ts';
import { type Ending, serveExchanges } from './exchange-server.ts';
import { TestGateway } from './gateway.ts';
import { standIn } from './stand-in.ts';

/** Workspaces as folders: `<root>/<workspace>/<app>/`. */
export class FolderWorkspaces {
  readonly #root: string;
  #edited: (workspace: string, app: string) => void = () => {};
  #closed: (workspace: string) => Promise<void> = async () => {};

  constructor(root: string) {
    this.#root = root;
  }

  /** A workspace with these apps, or these files of an app written into it; null removes one. */
  write(workspace: string, app: string, files: Record<string, string | Buffer | null>): void {
    for (const [name, content] of Object.entries(files)) {
      const path = join(this.path(workspace, app), name);
      if (content === null) rmSync(path, { recursive: true });
      else {
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, content);
      }
    }
  }

  /** The same through the gateway, which announces it. */
  put(workspace: string, app: string, files: Record<string, string | Buffer | null>): void {
    this.write(workspace, app, files);
    this.#edited(workspace, app);
  }

  async close(workspace: string): Promise<void> {
    rmSync(join(this.#root, workspace), { recursive: true });
    await this.#closed(workspace);
  }

  path(workspace: string, app: string): string {
    return join(this.#root, workspace, app);
  }

  async has(workspace: string): Promise<boolean> {
    return existsSync(join(this.#root, workspace));
  }

  async folder(workspace: string, app: string): Promise<string> {
    if (!(await this.has(workspace))) throw unknownWorkspace(workspace);
    if (!existsSync(this.path(workspace, app))) throw unknownApp(app);
    return this.path(workspace, app);
  }

  async found(): Promise<string[]> {
    return namesIn(this.#root);
  }

  async apps(workspace: string): Promise<string[]> {
    if (!(await this.has(workspace))) throw unknownWorkspace(workspace);
    return readdirSync(join(this.#root, workspace)).sort();
  }

  onEdited(told: (workspace: string, app: string) => void): void {
    this.#edited = told;
  }

  async share(): Promise<void> {}

  onClosed(told: (workspace: string) => Promise<void>): void {
    this.#closed = told;
  }
}

export type DraftGateway = {
  gateway: TestGateway;
  workspaces: FolderWorkspaces;
  dataDir: string;
  /** Those of the running gateway. */
  changes(): ChangeStreams;
  drafts(): Drafts;
  /** Ends it and starts another one on the same folders. */
  restart(): Promise<void>;
  /** Ends it and removes its folder. */
  end(): Promise<void>;
};

export async function startDrafts(): Promise<DraftGateway> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-drafts-'));
  const dataDir = join(folder, 'data');
  const workspaces = new FolderWorkspaces(join(dataDir, 'apps', '_sessions'));
  const gateway = new TestGateway(dataDir, []);
  const ends: (() => unknown)[] = [];
  const ending: Ending = { after: (end) => ends.push(end), diagnostic: console.error };
  let changes: ChangeStreams | undefined;
  let drafts: Drafts | undefined;
  const start = async (): Promise<void> => {
    const log = pino({ level: 'warn' });
    const parts = await assemble(resolveConfig(dataDir, { handlerHosts: 1 }), log, {
      auth: false,
      authorize: undefined,
      trustHost: false,
      kind: 'plugin',
      extensions: {},
      listening: () => null,
      onFatal: ending.diagnostic,
    });
    ending.after(() => parts.end(1000));
    const { services, jobs } = parts;
    const { tree, layout } = services;
    const databases = new Databases(tree, layout, async (key, damage) => damagedData(key, damage), null);
    drafts = new Drafts({ ...services, source: standIn(workspaces), databases, jobs, refusalOf: () => null });
    services.gitStore = { drafts } as GitStoreServices;
    changes = services.changes;
    await drafts.arrive({
      apps: [],
      workspaces: [...(await workspaces.found()), ...(await namesIn(layout.drafts('')))],
    });
    gateway.url = `http://127.0.0.1:${await serveExchanges(ending, parts.pipeline.handle)}`;
  };
  const stop = async (): Promise<void> => {
    for (const end of ends.splice(0)) await end();
  };
  await start();
  return {
    gateway,
    workspaces,
    dataDir,
    changes: () => changes as ChangeStreams,
    drafts: () => drafts as Drafts,
    restart: async () => {
      await stop();
      await start();
    },
    end: async () => {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
