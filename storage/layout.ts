/** Every path of a gateway's files in one place (specification, "What the service does", item 12). Pure: touches no disk. */
import { basename, join, resolve } from 'node:path';

/** The files of one app, all below `<appsDir>/<id>/`. */
export class AppPaths {
  readonly dir: string;
  /** `{ "activeVersion", "activatedAt" }`; missing while no version is active. */
  readonly current: string;
  /** The activation that is under way, from before its migrations until its pointer is flipped. */
  readonly pending: string;
  /** `{ "versionId" }`: a version that goes again unless the upload that brings it ends with making it active. */
  readonly incoming: string;
  /** While it is there, the folder is removed for good, not to the trash, should the app not be registered. */
  readonly disposable: string;
  readonly data: string;
  readonly settings: string;
  /** Slug → key of the webhooks that are signed; never in the code, never served. */
  readonly webhookKeys: string;
  readonly logs: string;
  readonly backupsDir: string;
  /** Code as uploaded, one folder a version. */
  readonly versionsDir: string;
  /** What was derived from it: `version.json`, `static.json`, `validators.js`, `automations.json`, `static/`. */
  readonly preparedDir: string;

  constructor(dir: string) {
    this.dir = dir;
    this.current = join(dir, 'current.json');
    this.pending = join(dir, 'pending.json');
    this.incoming = join(dir, 'incoming.json');
    this.disposable = join(dir, 'disposable');
    this.data = join(dir, 'data.sqlite');
    this.settings = join(dir, 'settings.json');
    this.webhookKeys = join(dir, 'webhook-keys.json');
    this.logs = join(dir, 'logs.jsonl');
    this.backupsDir = join(dir, 'backups');
    this.versionsDir = join(dir, 'versions');
    this.preparedDir = join(dir, 'prepared');
  }

  /** The folders of a tag, `<id>/v<n>`, are called `v<n>`; its code is then a link to where the git store keeps it. */
  version(versionId: string): VersionPaths {
    const folder = versionId.slice(versionId.indexOf('/') + 1);
    return new VersionPaths(join(this.versionsDir, folder), join(this.preparedDir, folder));
  }

  /** The version whose folders have this name; what is not a version's is no version id. */
  versionOf(folder: string): string {
    return folder.startsWith('v_') ? folder : `${basename(this.dir)}/${folder}`;
  }
}

/** The git store, all below `appsStoreRoot` (specification, "What the service does", item 12; decisions, section 7). */
export class CodeStorePaths {
  readonly root: string;
  /** The bare repository: one tree, `apps/<id>/…`. */
  readonly repository: string;
  /** What is served of a commit: `<sha>/apps/<id>/…`, only the app that the commit published. */
  readonly mainDir: string;
  readonly sessionsDir: string;
  /** The commit of `main` that is live, in hex. */
  readonly activeMain: string;
  /** Publications that are under way, one file an app: what a crash leaves is finished or forgotten at start. */
  readonly publishingDir: string;

  constructor(root: string) {
    this.root = root;
    this.repository = join(root, 'apps.git');
    this.mainDir = join(root, 'worktrees', 'main');
    this.sessionsDir = join(root, 'worktrees', 'sessions');
    this.activeMain = join(root, 'active-main');
    this.publishingDir = join(root, 'publishing');
  }

  /** The code of one app as a commit has it. */
  materialized(sha: string, app: string): string {
    return join(this.mainDir, sha, 'apps', app);
  }

  publishing(app: string): string {
    return join(this.publishingDir, `${app}.json`);
  }

  session(sessionId: string): SessionPaths {
    return new SessionPaths(join(this.sessionsDir, sessionId));
  }
}

/** One session's draft worktree. */
export class SessionPaths {
  readonly dir: string;
  /** When it was made, and the commits that its apps were taken from. */
  readonly record: string;
  readonly appsDir: string;

  constructor(dir: string) {
    this.dir = dir;
    this.record = join(dir, 'session.json');
    this.appsDir = join(dir, 'apps');
  }

  app(id: string): string {
    return join(this.appsDir, id);
  }
}

/** One version: its code and what was prepared from it. An upload's staging folder has the same two parts. */
export class VersionPaths {
  readonly code: string;
  readonly manifest: string;
  readonly migrationsDir: string;
  readonly automationsDir: string;
  readonly prepared: string;
  /** A `VersionSummary`; the version counts as whole when this file and the code folder exist. */
  readonly summary: string;
  /** Path → `StaticEntry`. */
  readonly static: string;
  /** Copies that are served instead of the code's own: HTML with the bridge, `.br` and `.gz`. */
  readonly staticDir: string;
  readonly validators: string;
  /** Id → what its `automation.json` said when it was uploaded, before we wrote into it. */
  readonly automations: string;

  constructor(code: string, prepared: string) {
    this.code = code;
    this.manifest = join(code, 'app.json');
    this.migrationsDir = join(code, 'migrations');
    this.automationsDir = join(code, 'automations');
    this.prepared = prepared;
    this.summary = join(prepared, 'version.json');
    this.static = join(prepared, 'static.json');
    this.staticDir = join(prepared, 'static');
    this.validators = join(prepared, 'validators.js');
    this.automations = join(prepared, 'automations.json');
  }

  /** The file that is the only truth about an automation. */
  automation(id: string): string {
    return join(this.automationsDir, id, 'automation.json');
  }
}

export class Layout {
  readonly dataDir: string;
  readonly appsDir: string;
  readonly token: string;
  readonly lock: string;
  readonly profile: string;
  /** Records of what runs; mode 0700. */
  readonly runDir: string;
  readonly children: string;
  /** Where the sockets are. */
  readonly sockets: string;
  /** Uploads and their staging folders: on the file system of the apps, so that a rename puts them into place. */
  readonly tmpDir: string;
  readonly trashDir: string;
  /** The catalog of `templatesUrl` and the archives that it names, as they were last fetched. */
  readonly templatesCache: string;
  readonly runtimeDb: string;
  readonly identityDb: string;
  readonly analyticsDb: string;
  readonly registry: string;
  /** Where the code of these apps is kept; missing on the tarball backend. */
  readonly storeMark: string;
  /** Null on the tarball backend. */
  readonly codeStore: CodeStorePaths | null;

  /** `appsDir` defaults to `<dataDir>/apps`; a relative one is taken from the data directory, and so is `appsStoreRoot`. */
  constructor(dataDir: string, appsDir?: string, appsStoreRoot?: string) {
    this.dataDir = resolve(dataDir);
    this.appsDir = resolve(this.dataDir, appsDir ?? 'apps');
    this.token = join(this.dataDir, 'token.bin');
    this.lock = join(this.dataDir, 'lock');
    this.profile = join(this.dataDir, 'profile.json');
    this.runDir = join(this.dataDir, 'run');
    this.children = join(this.runDir, 'children.json');
    this.sockets = join(this.runDir, 'sockets.json');
    this.tmpDir = appsDir === undefined ? join(this.dataDir, 'tmp') : join(this.appsDir, '_tmp');
    this.trashDir = join(this.dataDir, 'trash');
    this.templatesCache = join(this.dataDir, 'templates-cache');
    this.runtimeDb = join(this.dataDir, 'runtime.sqlite');
    this.identityDb = join(this.dataDir, 'identity.sqlite');
    this.analyticsDb = join(this.dataDir, 'analytics.sqlite');
    this.registry = join(this.appsDir, '_registry.json');
    this.storeMark = join(this.appsDir, '_store.json');
    this.codeStore = appsStoreRoot === undefined ? null : new CodeStorePaths(resolve(this.dataDir, appsStoreRoot));
  }

  app(id: string): AppPaths {
    return new AppPaths(join(this.appsDir, id));
  }

  /** The drafts of a session: their data, logs and settings, never their code. */
  drafts(sessionId: string): string {
    return join(this.appsDir, '_drafts', sessionId);
  }
}
