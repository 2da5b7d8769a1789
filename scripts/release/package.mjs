// Makes the package that users install, release/svc-gateway-<version>.tgz: `npm run package` prints its path. It is what `npm pack`
// makes, with dependencies chosen so that from Node 22 on an installation runs no script and needs no compiler.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { extract } from 'tar';
import { INSIDE } from '../build.mjs';

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
/** Where everything goes that is made for users. */
export const RELEASE = join(root, 'release');

const readJson = (path) => JSON.parse(readFileSync(path, 'utf8'));
const folderOf = (name) => join(root, 'node_modules', name);
const writeJson = (path, value) => writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`);

/** Of the packages that another one has for each system, those for the systems of ours. */
function forOurSystems(name, os) {
  const endings = os.flatMap((system) => [`${system}-x64`, `${system}-arm64`]);
  const { optionalDependencies } = readJson(join(folderOf(name), 'package.json'));
  const isOurs = (other) => endings.some((ending) => other.endsWith(ending));
  return Object.fromEntries(Object.entries(optionalDependencies).filter(([other]) => isOurs(other)));
}

/** The package.json that users get, of the clone's. */
export function packageForUsers({ scripts, devDependencies, allowScripts, overrides, ...ours }) {
  const versionOf = (alias) => alias.slice(alias.lastIndexOf('@') + 1);
  const [compiled, prebuilt] = ['better-sqlite3-12', 'better-sqlite3-13'].map((name) =>
    versionOf(ours.optionalDependencies[name]),
  );
  return {
    ...ours,
    // What is inside the files of dist/ is not installed beside them.
    dependencies: Object.fromEntries(Object.entries(ours.dependencies).filter(([name]) => !INSIDE.test(name))),
    // It is in the package, without its script, which only looks for its program. The program is a package for each system.
    bundleDependencies: ['esbuild'],
    optionalDependencies: {
      // npm takes the version whose `engines` have the Node that installs it: 13, whose binaries are in it, or 12 on Node 20.
      'better-sqlite3': `${compiled} || ${prebuilt}`,
      ...forOurSystems('esbuild', ours.os),
      ...forOurSystems('msgpackr-extract', ours.os),
    },
  };
}

/** The licences of packages that are inside our files: those that their maps name, and those that the console imports. */
function licences() {
  const dist = join(root, 'dist');
  const maps = readdirSync(dist).filter((name) => name.endsWith('.map'));
  const sources = maps.flatMap((name) => readJson(join(dist, name)).sources);
  const inside = sources.map((path) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
  const parts = readdirSync(join(root, 'console'), { recursive: true }).filter((name) => /\.(?:js|tsx?)$/.test(name));
  const imported = parts.flatMap((name) =>
    [...readFileSync(join(root, 'console', name), 'utf8').matchAll(/ '((?:@[\w-]+\/)?[\w-]+)(?:\/[^']*)?'/g)].map(
      ([, found]) => found,
    ),
  );
  const names = [...new Set([...inside, ...imported])].filter((name) => name && existsSync(folderOf(name)));
  const texts = names.sort().flatMap((name) => {
    const { license } = readJson(join(folderOf(name), 'package.json'));
    const files = readdirSync(folderOf(name)).filter((file) => /^licen[cs]e/i.test(file));
    return [`== ${name}: ${license}`, ...files.map((file) => readFileSync(join(folderOf(name), file), 'utf8').trim())];
  });
  return `${texts.join('\n\n')}\n`;
}

/** Packs this tree, which is built, into a folder; answers the path of the package. */
export function makePackage(folder = RELEASE) {
  mkdirSync(folder, { recursive: true });
  const work = mkdtempSync(join(tmpdir(), 'svc-package-'));
  const pack = (cwd, to) =>
    join(
      to,
      execFileSync('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', to], {
        cwd,
        encoding: 'utf8',
      }).trim(),
    );
  try {
    extract({ file: pack(root, work), cwd: work, sync: true });
    const made = join(work, 'package');
    writeJson(join(made, 'package.json'), packageForUsers(readJson(join(root, 'package.json'))));
    writeFileSync(join(made, 'dist/licences.txt'), licences());
    const [from, to] = [folderOf('esbuild'), join(made, 'node_modules/esbuild')];
    for (const path of ['lib', 'LICENSE.md', 'README.md'])
      cpSync(join(from, path), join(to, path), { recursive: true });
    // npm takes what a package in a bundle depends on for a part of the bundle.
    const { scripts, bin, optionalDependencies, ...esbuild } = readJson(join(from, 'package.json'));
    writeJson(join(to, 'package.json'), esbuild);
    return pack(made, folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Builds this tree as it is packed. */
export function buildForUsers() {
  execFileSync(process.execPath, [join(root, 'scripts/build.mjs'), '--types'], { stdio: ['ignore', 2, 2] });
}

// Only the path goes to standard output, for `npm install -g "$(npm run --silent package)"`. A folder is for the tests, which
// have built the tree.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder] = process.argv.slice(2);
  if (folder === undefined) buildForUsers();
  console.log(makePackage(folder));
}
