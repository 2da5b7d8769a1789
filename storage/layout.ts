/** Names every path of a gateway's files (specification, "Data directory"). Pure: touches no disk. */
import { basename, join, resolve } from 'node:path';
import { COMMONS_FILE } from '../protocol/wire/commons.ts';

/** Names below a folder are fields of the class that extends this one. */
class Folder {
  readonly dir: string;

  constructor(dir: string) {
    this.dir = dir;
  }
}

/** The files of one app, all below `<appsDir>/<id>/`. */
export class AppPaths extends Folder {
  /** `{ "activeVersion", "activatedAt" }`; missing while no version is active. */
  readonly current = join(this.dir, 'current.json');
  /** When the app was removed and what its versions were: in the trash, and on the way there and back. */
  readonly removed = join(this.dir, 'removed.json');
  readonly data = join(this.dir, 'data.sqlite');
  readonly settings = join(this.dir, 'settings.json');
  /** Slug → key of the webhooks that are signed; never in the code, never served. */
  readonly webhookKeys = join(this.dir, 'webhook-keys.json');
  /** Its secrets, encrypted; missing while it has none. */
  readonly secrets = join(this.dir, 'secrets.json');
  readonly logs = join(this.dir, 'logs.jsonl');
  /** Transcripts of chat windows, and their index. */
  readonly chatDir = join(this.dir, '_chat');
  readonly backupsDir = join(this.dir, 'backups');
  /** Files that go with messages to agents, each under the SHA-256 of its content in hex. */
  readonly attachmentsDir = join(this.dir, '_attachments');
  /** What the app keeps beside its database, each under the SHA-256 of its content in hex, its type in `<sha256>.type`. */
  readonly blobsDir = join(this.dir, '_blobs');
  /** Code as uploaded, one folder a version. */
  readonly versionsDir = join(this.dir, 'versions');
  /**
   * Files derived from the code, made anew when they are damaged: `version.json`, `files.json`, `static.json`,
   * `validators.js`, `page.html`, `automations.json`, `static/`, `erased/`.
   */
  readonly preparedDir = join(this.dir, 'prepared');

  /** The folders of a tag, `<id>/v<n>`, are called `v<n>`; its code is then a link to where the git store keeps it. */
  version(versionId: string): VersionPaths {
    const folder = versionId.slice(versionId.indexOf('/') + 1);
    return new VersionPaths(join(this.versionsDir, folder), join(this.preparedDir, folder));
  }

  /** The version id of a folder's name; other folders give no valid id. */
  versionOf(folder: string): string {
    return folder.startsWith('v_') ? folder : `${basename(this.dir)}/${folder}`;
  }
}

/** The git store, all below `appsStoreRoot` (specification, "Stores of code"). */
export class CodeStorePaths extends Folder {
  /** The bare repository: one tree, `apps/<id>/…`. */
  readonly repository = join(this.dir, 'apps.git');
  /** Checked-out code: `<sha>/apps/<id>/…`, only the app that the commit published. */
  readonly mainDir = join(this.dir, 'worktrees', 'main');
  readonly workspacesDir = join(this.dir, 'worktrees', 'sessions');
  /** The commit of `main` that is live, in hex. */
  readonly activeMain = join(this.dir, 'active-main');
  /** In a cluster: the number of its last change that the repository has. */
  readonly shared = join(this.dir, 'shared.json');
  /** How `svc convert` renames versions, while it runs: after a crash the next start finishes it. */
  readonly conversion = join(this.dir, 'conversion.json');

  /** The code of one app as a commit has it. */
  materialized(sha: string, app: string): string {
    return join(this.mainDir, sha, 'apps', app);
  }

  workspace(sessionId: string): WorkspacePaths {
    return new WorkspacePaths(join(this.workspacesDir, sessionId));
  }
}

/** One workspace's draft worktree. */
export class WorkspacePaths extends Folder {
  /** When it was made, and the commits that its apps were taken from. */
  readonly record = join(this.dir, 'session.json');
  readonly appsDir = join(this.dir, 'apps');

  app(id: string): string {
    return join(this.appsDir, id);
  }
}

class CodeAndPrepared {
  readonly code: string;
  readonly prepared: string;

  constructor(code: string, prepared: string) {
    this.code = code;
    this.prepared = prepared;
  }
}

/** One version: its code and what was prepared from it. An upload's staging folder has the same two parts. */
export class VersionPaths extends CodeAndPrepared {
  readonly manifest = join(this.code, 'app.json');
  readonly migrationsDir = join(this.code, 'migrations');
  readonly automationsDir = join(this.code, 'automations');
  /** A `VersionSummary`; a version is whole when this file and the code folder exist. */
  readonly summary = join(this.prepared, 'version.json');
  /** Path → `StaticEntry`. */
  readonly static = join(this.prepared, 'static.json');
  /** Copies that are served instead of the code's files: HTML with the bridge, `.br` and `.gz`; and drawn icons. */
  readonly staticDir = join(this.prepared, 'static');
  readonly validators = join(this.prepared, 'validators.js');
  /** A `CommonsScript`, where there can be one. */
  readonly commons = join(this.prepared, COMMONS_FILE);
  /** The page as one document, where it can be one. */
  readonly page = join(this.prepared, 'page.html');
  /** TypeScript modules without types, by path, as handlers run them. A folder in place of one has the file `fault`, which says why. */
  readonly erasedDir = join(this.prepared, 'erased');
  /** Path → bytes and SHA-256 of the other prepared files but `version.json`, by which damage is noticed. */
  readonly preparedList = join(this.prepared, 'files.json');
  /** Id → `automation.json` as uploaded, before the gateway wrote into it. */
  readonly automations = join(this.prepared, 'automations.json');

  /** The one file that defines an automation. */
  automation(id: string): string {
    return join(this.automationsDir, id, 'automation.json');
  }

  /** The handler of an automation, without the ending: `.js` or `.ts`. */
  automationHandler(id: string): string {
    return join(this.automationsDir, id, 'handler');
  }
}

class Roots {
  readonly dataDir: string;
  readonly appsDir: string;
  /** Uploads and their staging folders: on the file system of the apps, so that a rename puts them into place. */
  readonly tmpDir: string;
  /** Null on the tarball backend. */
  readonly codeStore: CodeStorePaths | null;

  /** `appsDir` defaults to `<dataDir>/apps`; a relative one is taken from the data directory, and so is `appsStoreRoot`. */
  constructor(dataDir: string, appsDir?: string, appsStoreRoot?: string) {
    this.dataDir = resolve(dataDir);
    this.appsDir = resolve(this.dataDir, appsDir ?? 'apps');
    this.tmpDir = appsDir === undefined ? join(this.dataDir, 'tmp') : join(this.appsDir, '_tmp');
    this.codeStore = appsStoreRoot === undefined ? null : new CodeStorePaths(resolve(this.dataDir, appsStoreRoot));
  }
}

export class Layout extends Roots {
  readonly token = join(this.dataDir, 'token.bin');
  /** What browser sessions are signed with where a host owns authentication, and no token is; of the same form. */
  readonly sessionKey = join(this.dataDir, 'session-key.bin');
  /** Key of all apps' secrets; made with the first secret. */
  readonly secretKey = join(this.dataDir, 'secrets.key');
  /** Key by which push services know the gateway; made with the first browser that agrees to notices. */
  readonly pushKey = join(this.dataDir, 'push.key');
  readonly lock = join(this.dataDir, 'lock');
  readonly profile = join(this.dataDir, 'profile.json');
  /** Records of running processes; mode 0700. */
  readonly runDir = join(this.dataDir, 'run');
  readonly children = join(this.runDir, 'children.json');
  /** `{ "instance" }`: the last run of this directory as a node of a cluster. */
  readonly node = join(this.runDir, 'node.json');
  /** Where the sockets are. */
  readonly sockets = join(this.runDir, 'sockets.json');
  /** Which process `svc desktop` started as the gateway. */
  readonly startedDaemon = join(this.runDir, 'desktop.json');
  /** Where the process that holds the windows of `svc desktop` listens, and its lock. */
  readonly window = join(this.runDir, 'window.json');
  readonly windowLock = join(this.runDir, 'window.lock');
  /** What the browser of `svc desktop` keeps. */
  readonly browserDir = join(this.dataDir, 'desktop');
  /** `{ "format", "svcVersion" }`: the format of the directory, and the release that last ran on it. */
  readonly format = join(this.dataDir, 'format.json');
  /** A migration of the format that is under way. */
  readonly formatJournal = join(this.dataDir, 'migration.json');
  /** Files as they were before the last migrations of the format. */
  readonly migrationsDir = join(this.dataDir, 'migrations');
  /** State of backups on schedule: the times, the last results, their files. */
  readonly backupRecord = join(this.dataDir, 'backups.json');
  readonly trashDir = join(this.dataDir, 'trash');
  /** The catalog of `templatesUrl` and the archives that it names, as they were last fetched. */
  readonly templatesCache = join(this.dataDir, 'templates-cache');
  /** Empty folders for agents, by app and window. Not in the temporary folder: there their programs put no helpers. */
  readonly agentsDir = join(this.dataDir, 'agents');
  /** The last known models and tools of the runners. */
  readonly modelCatalog = join(this.dataDir, 'model-catalog.json');
  readonly runtimeDb = join(this.dataDir, 'runtime.sqlite');
  /** In a cluster in place of `runtime.sqlite`: a database for each bucket. */
  readonly runtimeDir = join(this.dataDir, 'runtime');
  readonly identityDb = join(this.dataDir, 'identity.sqlite');
  readonly analyticsDb = join(this.dataDir, 'analytics.sqlite');
  readonly registry = join(this.appsDir, '_registry.json');
  /** Changes of apps that are under way, a file for each app. */
  readonly journalDir = join(this.dataDir, 'journal');
  /** Where the code of these apps is kept; missing on the tarball backend. */
  readonly storeMark = join(this.appsDir, '_store.json');

  app(id: string): AppPaths {
    return new AppPaths(join(this.appsDir, id));
  }

  runtimeOfBucket(bucket: number): string {
    return join(this.runtimeDir, `${bucket}.sqlite`);
  }

  intent(app: string): string {
    return join(this.journalDir, `${app}.json`);
  }

  /** A removed app; `entry` is `<id>-<ms>`. */
  trashed(entry: string): AppPaths {
    return new AppPaths(join(this.trashDir, entry));
  }

  /** The folders of an app's conversations, in which agents work that get no files. */
  agentFolders(app: string): string {
    return join(this.agentsDir, app);
  }

  agentFolder(app: string, windowId: string): string {
    return join(this.agentFolders(app), windowId);
  }

  /** The drafts of a workspace: their data, logs and settings, never their code. */
  drafts(sessionId: string): string {
    return join(this.appsDir, '_drafts', sessionId);
  }
}
