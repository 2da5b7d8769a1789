// Packs the plugin with its gateway, as a folder and as an archive that OpenClaw installs without a registry: node pack.mjs [folder]
import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildGatewayProcess, buildPlugin } from './build.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(dirname(here));
const out = resolve(process.argv[2] ?? join(here, 'packed'));
const plugin = join(out, 'plugin');
const gateway = join(out, 'gateway');
/** What a gateway behind a host's server never loads, or has another version of. */
const UNUSED = ['uWebSockets.js', 'better-sqlite3-12'];

function run(program, cwd, ...args) {
  // npm runs on the Node that this runs on: what it installs has to fit that.
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` };
  return execFileSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], env });
}

/** The archive that npm makes of the package in a folder. */
function packed(cwd) {
  const [{ filename }] = JSON.parse(run('npm', cwd, 'pack', '--json', '--ignore-scripts', '--pack-destination', out));
  return join(out, filename);
}

rmSync(out, { recursive: true, force: true });
for (const folder of [gateway, join(plugin, 'dist')]) mkdirSync(folder, { recursive: true });

// The gateway as `npm run build` has made it, with its packages: one archive, which the plugin unpacks once. OpenClaw copies the
// packages that a plugin depends on at each of its starts.
const archive = packed(root);
writeFileSync(join(gateway, 'package.json'), '{ "private": true, "type": "module" }\n');
const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-save', '--no-package-lock', '--prefer-offline'];
run('npm', gateway, 'install', ...options, archive);
rmSync(archive);
for (const name of UNUSED) rmSync(join(gateway, 'node_modules', name), { recursive: true, force: true });
await buildGatewayProcess(gateway);
const unnamed = join(out, 'gateway.tgz');
run('tar', gateway, '-czf', unnamed, '.');
const digest = hash('sha256', readFileSync(unnamed), 'hex').slice(0, 16);
renameSync(unnamed, join(plugin, 'dist', `gateway-${digest}.tgz`));
rmSync(gateway, { recursive: true });

await buildPlugin(join(plugin, 'dist'));
const { scripts: _scripts, ...manifest } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));
writeFileSync(join(plugin, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
for (const file of ['openclaw.plugin.json', 'README.md']) cpSync(join(here, file), join(plugin, file));
cpSync(join(root, 'LICENSE'), join(plugin, 'LICENSE'));
console.log(JSON.stringify({ folder: plugin, archive: packed(plugin) }));
