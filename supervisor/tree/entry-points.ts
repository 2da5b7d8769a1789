/** Finds the files that other processes and threads run: always the built ones, also when this code runs from source. */
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isAppId } from '../../protocol/ids.ts';
import { bindingFolders } from '../../storage/sqlite.ts';

/** The folder that holds our package.json: above `dist/` when built, above `supervisor/` when run from source. */
export const packageRoot: string = (() => {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder);
  return folder;
})();

export function entryPoint(name: 'writer' | 'host' | 'jobs' | 'job' | 'agents' | 'sql' | 'window'): string {
  // What starts seldom is a module, without a cache of its code.
  const extension = name === 'agents' || name === 'window' ? 'js' : 'cjs';
  return join(packageRoot, 'dist', `${name}.${extension}`);
}

/** Files of the console and the page bridge. */
export function consoleFile(name: string): string {
  return join(packageRoot, 'dist', 'console', name);
}

/** A document of the package, or a picture in one. */
export function documentFile(name: string): string {
  return join(packageRoot, ...(/^[A-Z]+\.md$/.test(name) ? [] : ['docs']), name);
}

/** The instructions of an agent, by mode. */
export function groundingFile(mode: 'data' | 'full'): string {
  return join(packageRoot, 'dist', 'grounding', `${mode}.md`);
}

/** A template's app folder, with the files that it shares with others; without an id, the folder of all of them. */
export function templateFolder(id = ''): string {
  return join(packageRoot, 'dist', 'templates', id);
}

/** The ids of the templates that come with the gateway. */
export function templateIds(): string[] {
  return readdirSync(templateFolder()).filter(isAppId).sort();
}

/**
 * Paths that handler hosts, the jobs process and those for SQL of callers read: their code and the native module. Under both
 * names if a folder is a symbolic link, because the module loader reads the link itself.
 */
export function ownReadable(): string[] {
  const { packages, searched } = bindingFolders();
  const beside = [...packages.map(dirname), ...searched.filter((folder) => existsSync(folder))];
  const wanted = [join(packageRoot, 'dist'), join(packageRoot, 'package.json'), ...beside];
  return withRealPaths(wanted);
}

/** The same paths, and where they really are. All of them must exist. */
export function withRealPaths(paths: string[]): string[] {
  return [...new Set(paths.flatMap((path) => [path, realpathSync(path)]))];
}
