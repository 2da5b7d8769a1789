/** For the tests of the git store: a repository in a temporary folder, and the git program to look at it. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { Repository } from '../storage/git/repository.ts';
import { git } from '../workers/jobs/git/operations.ts';

const hasGit = spawnSync('git', ['--version']).status === 0;
if (!hasGit && process.env.CI !== undefined) throw new Error('These tests need the git program.');
/** For tests that compare with the git program. */
export const NEEDS_GIT = { skip: hasGit ? false : 'the git program is not installed' };

export const author = { name: 'svc', email: 'svc@localhost' };

export type Files = Record<string, string | Buffer>;

export class GitFixture {
  readonly dir = mkdtempSync(join(tmpdir(), 'svc-git-'));
  readonly repository = join(this.dir, 'apps.git');
  #folders = 0;
  #at = 1_700_000_000_000;

  /** The first members of most jobs. */
  get by(): { repository: string; author: typeof author; at: number } {
    this.#at += 1000;
    return { repository: this.repository, author, at: this.#at };
  }

  async open(): Promise<string> {
    return (await git.openRepository(this.by)).main;
  }

  /** A new folder with these files. */
  folder(files: Files = {}): string {
    const folder = this.fresh();
    mkdirSync(folder);
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), content);
    }
    return folder;
  }

  /** The path of a folder that does not exist yet. */
  fresh(): string {
    this.#folders++;
    return join(this.dir, `folder-${this.#folders}`);
  }

  /** Runs git in the repository and returns its output. Throws if it fails. */
  git(...args: string[]): string {
    return execFileSync('git', args, { cwd: this.repository, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  }

  blob(sha: string): Promise<Buffer> {
    return new Repository(this.repository).objects.readAs('blob', sha);
  }

  /** Throws if git finds an error. */
  fsck(): void {
    this.git('fsck', '--strict', '--full', '--no-dangling');
  }

  remove(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Path → text of every file below the folder. */
export function contents(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = files.map((entry) => join(entry.parentPath, entry.name)).sort();
  return Object.fromEntries(paths.map((path) => [relative(folder, path), readFileSync(path, 'utf8')]));
}
