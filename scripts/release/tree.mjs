// Installs the package as its users do, with the Node that the Debian package and the single file bring: in one folder, until we end.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { makeCodeCaches } from '../code-caches.mjs';
import { buildForUsers, makePackage, root } from './package.mjs';

/** The long-term release with single executables that carry archives; the package that has its program. */
const NODE = `node-${process.platform}-${process.arch}@26.12.1`;

/** Resolves with the paths of Node's program and of the installed package, and its version. */
export async function installTree() {
  if (process.platform !== 'linux') throw new Error('The Debian package and the single file are made on Linux.');
  // Not in this clone, whose packages would be found as well.
  const folder = mkdtempSync(join(tmpdir(), 'svc-tree-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const npm = (args, path = process.env.PATH) =>
    execFileSync('npm', args, { env: { ...process.env, PATH: path }, stdio: ['ignore', 2, 2] });
  npm(['install', '--silent', '--no-save', '--prefix', join(folder, 'node'), NODE]);
  const node = join(folder, 'node/node_modules', NODE.split('@')[0], 'bin/node');
  buildForUsers();
  const packed = makePackage();
  // As it is installed by that Node: from Node 22 on no script runs.
  const path = `${dirname(node)}${delimiter}${process.env.PATH}`;
  npm(['install', '--silent', '--global', '--ignore-scripts', '--prefix', folder, packed], path);
  const installed = join(folder, 'lib/node_modules/svc-gateway');
  removeForeign(installed);
  await makeCodeCaches(installed, node);
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  return { folder, node, installed, version };
}

/** Removes what other systems need, and what compilers and readers of types need. */
function removeForeign(installed) {
  const sqlite = join(installed, 'node_modules/better-sqlite3');
  for (const name of ['deps', 'src']) rmSync(join(sqlite, name), { recursive: true, force: true });
  const own = [`linux-${process.arch}.node`, `linuxmusl-${process.arch}.node`];
  for (const name of readdirSync(join(sqlite, 'prebuilds')))
    if (!own.includes(name)) rmSync(join(sqlite, 'prebuilds', name));
  for (const name of readdirSync(installed, { recursive: true }))
    if (/\.d\.[cm]?ts(?:\.map)?$/.test(name)) rmSync(join(installed, name));
}
