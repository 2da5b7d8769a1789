/** Wires the parts that need the git store: workspaces, their drafts, and making apps in them. */

import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { draftKey } from '../../protocol/ids.ts';
import type { Registry } from '../../storage/apps/registry.ts';
import type { Layout } from '../../storage/layout.ts';
import type { Config } from '../config.ts';
import type { Deployments } from '../deployments/deploy.ts';
import type { RepositoryAccess } from '../deployments/store/git-store.ts';
import type { Apps } from '../dispatch/apps.ts';
import type { DraftsOptions } from '../drafts/draft.ts';
import { Drafts } from '../drafts/drafts.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { templateFolder } from '../tree/entry-points.ts';
import { Authoring } from './authoring.ts';
import { CodeTransfer } from './code-transfer.ts';
import { DraftTests, type DraftTestsOptions } from './draft-tests.ts';
import { Templates } from './templates.ts';
import type { SharedWorkspaces } from './workspace-folders.ts';
import { Workspaces } from './workspaces.ts';

type AuthoringParts = {
  layout: Layout;
  config: Config;
  registry: Registry;
  deployments: Deployments;
  apps: Apps;
  jobs: Jobs;
  /** Null on the tarball backend. */
  repository: RepositoryAccess | null;
  /** Null for a gateway of its own. */
  shared: SharedWorkspaces | null;
  /** Whether this node serves an app of this id. */
  serves(id: string): boolean;
} & Omit<DraftsOptions, 'source' | 'jobs'> &
  Omit<DraftTestsOptions, 'workspaces'>;

/** Null on the tarball backend. */
export type GitStoreServices = {
  workspaces: Workspaces;
  drafts: Drafts;
  tests: DraftTests;
  authoring: Authoring;
  code: CodeTransfer;
} | null;

/** Throws `NO_GIT_STORE`. */
export function gitStoreOf({ gitStore }: { gitStore: GitStoreServices }): NonNullable<GitStoreServices> {
  if (gitStore) return gitStore;
  throw new SvcError('NO_GIT_STORE', 'Drafts need the git store: stop the gateway, then svc convert --store git.');
}

export function openTemplates({ layout, config, log }: { layout: Layout; config: Config; log: Logger }): Templates {
  return new Templates({ folder: templateFolder(), cacheDir: layout.templatesCache, url: config.templatesUrl, log });
}

export function openAuthoring(parts: AuthoringParts, templates: Templates): GitStoreServices {
  const { layout, config, registry, deployments, apps, jobs, log, repository, shared, serves } = parts;
  const store = layout.codeStore;
  if (store === null || repository === null) return null;
  const { git } = repository;
  const draftsOf = (workspace: string, app: string) => layout.app(draftKey(workspace, app)).dir;
  const author = config.commitAuthor;
  const workspaces = new Workspaces({ store, git, shared, draftsOf, author, jobs, registry, deployments, log });
  const drafts = new Drafts({ ...parts, source: workspaces });
  const authoring = new Authoring({ workspaces, templates, jobs, registry, apps, serves });
  const code = new CodeTransfer({ git, deployments, tmpDir: layout.tmpDir, log });
  const tests = new DraftTests({ ...parts, workspaces });
  return { workspaces, drafts, tests, authoring, code };
}
