// Builds the program into dist/. With --with-gateway also what the installers carry beside it: the gateway's package with all that it
// needs, and a Node of its own, for the platform and architecture of this machine.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '../..');
const NODE = '24.21.0';

await build({
  absWorkingDir: here,
  entryPoints: ['main.ts'],
  outdir: 'dist',
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node24',
  sourcemap: 'linked',
  sourcesContent: false,
  external: ['electron'],
  logLevel: 'warning',
});

if (process.argv.includes('--with-gateway')) {
  const [gateway, node] = [join(here, 'build/gateway'), join(here, 'build/node')];
  for (const folder of [gateway, node]) rmSync(folder, { recursive: true, force: true });
  mkdirSync(gateway, { recursive: true });
  const npm = (args, cwd = here) =>
    execFileSync(process.execPath, [process.env.npm_execpath, ...args], { cwd, encoding: 'utf8' });
  const isApple = process.platform === 'darwin' && process.arch === 'arm64';
  const name = `${isApple ? 'node-bin' : 'node'}-${process.platform}-${process.arch}`;
  npm(['install', '--silent', '--no-save', '--prefix', node, `${name}@${NODE}`]);
  cpSync(join(node, 'node_modules', name, 'bin'), join(node, 'bin'), { recursive: true });
  rmSync(join(node, 'node_modules'), { recursive: true, force: true });

  const [{ filename }] = JSON.parse(npm(['pack', '--json', '--pack-destination', gateway], root));
  const own = { name: 'svc-desktop-gateway', private: true, type: 'module' };
  writeFileSync(join(gateway, 'package.json'), `${JSON.stringify(own)}\n`);
  // By the Node that will run it, whose version chooses among the packages. None of them needs its install script there.
  const options = ['--silent', '--omit=dev', '--ignore-scripts', '--prefix', gateway];
  execFileSync(join(node, 'bin/node'), [process.env.npm_execpath, 'install', ...options, join(gateway, filename)]);
  rmSync(join(gateway, filename));
  // Its edge is `node:http`, and SQLite for Node 20 is of no use here: 125 MB.
  for (const unused of ['uWebSockets.js', 'better-sqlite3-12'])
    rmSync(join(gateway, 'node_modules', unused), { recursive: true, force: true });
  cpSync(join(here, 'daemon.mjs'), join(gateway, 'daemon.mjs'));
  const { version } = JSON.parse(readFileSync(join(gateway, 'node_modules/svc-gateway/package.json'), 'utf8'));
  const program = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8')).version;
  // The program would replace a gateway of another version at each start.
  if (version !== program) throw new Error(`The gateway is ${version}, the program ${program}: make them the same.`);
}
