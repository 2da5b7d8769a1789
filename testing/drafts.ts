/** For tests: a gateway with its real processes, whose drafts come from plain folders. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pino } from 'pino';
import { unknownSession } from '../protocol/ids.ts';
import { damagedData } from '../storage/apps/app-data.ts';
import { unknownApp } from '../storage/apps/registry.ts';
import type { GitStoreServices } from '../supervisor/authoring/open-authoring.ts';
import { resolveConfig } from '../supervisor/config.ts';
import { Databases } from '../supervisor/databases.ts';
import type { ChangeStreams } from '../supervisor/dispatch/change-streams.ts';
import { Drafts } from '../supervisor/drafts/drafts.ts';
import { assemble } from '../supervisor/wiring.ts';
import { type Ending, serveExchanges } from './exchange-server.ts';
import { TestGateway } from './gateway.ts';
import { standIn } from './stand-in.ts';

/** Sessions as folders: `<root>/<session>/<app>/`. */
export class FolderSessions {
  readonly #root: string;
  #edited: (session: string, app: string) => void = () => {};
  #closed: (session: string) => Promise<void> = async () => {};

  constructor(root: string) {
    this.#root = root;
  }

  /** A session with these apps, or these files of an app written into it; null removes one. */
  write(session: string, app: string, files: Record<string, string | Buffer | null>): void {
    for (const [name, content] of Object.entries(files)) {
      const path = join(this.path(session, app), name);
      if (content === null) rmSync(path, { recursive: true });
      else {
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, content);
      }
    }
  }

  /** The same through the gateway, which announces it. */
  put(session: string, app: string, files: Record<string, string | Buffer | null>): void {
    this.write(session, app, files);
    this.#edited(session, app);
  }

  async close(session: string): Promise<void> {
    rmSync(join(this.#root, session), { recursive: true });
    await this.#closed(session);
  }

  path(session: string, app: string): string {
    return join(this.#root, session, app);
  }

  async has(session: string): Promise<boolean> {
    return existsSync(join(this.#root, session));
  }

  async folder(session: string, app: string): Promise<string> {
    if (!(await this.has(session))) throw unknownSession(session);
    if (!existsSync(this.path(session, app))) throw unknownApp(app);
    return this.path(session, app);
  }

  async apps(session: string): Promise<string[]> {
    if (!(await this.has(session))) throw unknownSession(session);
    return readdirSync(join(this.#root, session)).sort();
  }

  onEdited(told: (session: string, app: string) => void): void {
    this.#edited = told;
  }

  onClosed(told: (session: string) => Promise<void>): void {
    this.#closed = told;
  }
}

export type DraftGateway = {
  gateway: TestGateway;
  sessions: FolderSessions;
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
  const sessions = new FolderSessions(join(dataDir, 'apps', '_sessions'));
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
    const databases = new Databases(tree, layout, async (key, damage) => damagedData(key, damage));
    drafts = new Drafts({ ...services, source: standIn(sessions), databases, jobs });
    services.gitStore = { drafts } as GitStoreServices;
    changes = services.changes;
    await drafts.open();
    gateway.url = `http://127.0.0.1:${await serveExchanges(ending, parts.pipeline.handle)}`;
  };
  const stop = async (): Promise<void> => {
    for (const end of ends.splice(0)) await end();
  };
  await start();
  return {
    gateway,
    sessions,
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
