// Runs the tests on other versions of Node: `npm run test:nodes -- 24 26 router`. Numbers are versions (all that are supported
// unless some are given), the rest goes to scripts/test.mjs. Each gets a copy of this tree and what `npm ci` installs with it.
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, lstatSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SUPPORTED = ['20', '22', '24', '26'];
const PROGRAMS = ['scripts/agents/node_modules', 'scripts/openclaw/node_modules'];
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const given = process.argv.slice(2);
const isVersion = (word) => /^\d+(\.\d+)*$/.test(word);
const versions = given.some(isVersion) ? given.filter(isVersion) : SUPPORTED;
const rest = given.filter((word) => !isVersion(word));

/**
 * The binary comes from the package that the package `node` would install with a script of its own, which newer versions
 * of npm do not run.
 */
function installNode(version, folder) {
  const isApple = process.platform === 'darwin' && process.arch === 'arm64';
  const name = `${isApple ? 'node-bin' : 'node'}-${process.platform}-${process.arch}`;
  execFileSync('npm', ['install', '--silent', '--no-save', '--prefix', folder, `${name}@${version}`]);
  return join(folder, 'node_modules', name, 'bin');
}

function copyTree(to) {
  const listed = execFileSync('git', ['ls-files', '-coz', '--exclude-standard'], { cwd: root, encoding: 'utf8' });
  for (const path of listed.split('\0')) {
    const from = join(root, path);
    if (path === '' || !existsSync(from) || !lstatSync(from).isFile()) continue;
    mkdirSync(dirname(join(to, path)), { recursive: true });
    copyFileSync(from, join(to, path));
  }
}

/** Whether all of them pass. */
function testOn(version, folder) {
  const bin = installNode(version, join(folder, 'node'));
  const tree = join(folder, 'tree');
  copyTree(tree);
  const env = { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` };
  const run = (...args) => spawnSync('npm', args, { cwd: tree, env, stdio: 'inherit' }).status === 0;
  // What tests drive beside the gateway, where it is installed: no file of it depends on the version.
  for (const programs of PROGRAMS)
    if (existsSync(join(root, programs))) symlinkSync(join(root, programs), join(tree, programs));
  return run('ci') && run('test', '--', ...rest);
}

const results = versions.map((version) => {
  const folder = mkdtempSync(join(tmpdir(), `svc-node-${version}-`));
  const began = performance.now();
  try {
    console.log(`== Node ${version}`);
    const passed = testOn(version, folder);
    return { version, passed, seconds: Math.round((performance.now() - began) / 1000) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
for (const { version, passed, seconds } of results)
  console.log(`Node ${version}: ${passed ? 'passed' : 'FAILED'} in ${seconds} s`);
process.exitCode = results.every(({ passed }) => passed) ? 0 : 1;
