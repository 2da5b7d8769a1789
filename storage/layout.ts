/** Every path of a gateway's files in one place (specification, "What the service does", item 12). Pure: touches no disk. */
import { join, resolve } from 'node:path';

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

  version(versionId: string): VersionPaths {
    return new VersionPaths(join(this.versionsDir, versionId), join(this.preparedDir, versionId));
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
  readonly runtimeDb: string;
  readonly identityDb: string;
  readonly analyticsDb: string;
  readonly registry: string;

  /** `appsDir` defaults to `<dataDir>/apps`; a relative one is taken from the data directory. */
  constructor(dataDir: string, appsDir?: string) {
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
    this.runtimeDb = join(this.dataDir, 'runtime.sqlite');
    this.identityDb = join(this.dataDir, 'identity.sqlite');
    this.analyticsDb = join(this.dataDir, 'analytics.sqlite');
    this.registry = join(this.appsDir, '_registry.json');
  }

  app(id: string): AppPaths {
    return new AppPaths(join(this.appsDir, id));
  }
}
