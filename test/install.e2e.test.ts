/**
 * The package that users install, in an empty home with npm and with npx, on the Node of this run: nothing is compiled
 * from Node 22 on, the data is in the platform's place, and commands work from any folder.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { create } from 'tar';
import { root } from '../testing/gateway.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

const [major = 0] = process.versions.node.split('.').map(Number);
/** Programs that compile; in these tests they only note that they were started. */
const COMPILERS = ['cc', 'gcc', 'g++', 'c++', 'make', 'node-gyp', 'python', 'python3'];

type Outcome = { code: number | null; stdout: string; stderr: string };

const machine = mkdtempSync(join(tmpdir(), 'svc-install-'));
const home = join(machine, 'home');
const prefix = join(machine, 'prefix');
const compiled = join(machine, 'compiled');
/** Where each platform keeps the data of applications. */
const dataDir = join(home, process.platform === 'darwin' ? 'Library/Application Support/svc' : '.local/share/svc');
let packed = '';
const env: NodeJS.ProcessEnv = {
  HOME: home,
  TMPDIR: machine,
  npm_config_prefer_offline: 'true',
  npm_config_update_notifier: 'false',
};

function run(command: string, args: string[], cwd = home): ChildProcess {
  return spawn(command, args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] });
}

async function outcomeOf(child: ChildProcess): Promise<Outcome> {
  const output = { stdout: '', stderr: '' };
  child.stdout?.on('data', (chunk) => (output.stdout += chunk));
  child.stderr?.on('data', (chunk) => (output.stderr += chunk));
  child.stdin?.end();
  const [code] = (await inTime(once(child, 'close'), child.spawnargs.join(' '), 3 * LONG_MS)) as [number | null];
  return { code, ...output };
}

/** What a command prints that succeeds. */
async function done(command: string, args: string[], cwd?: string): Promise<string> {
  const { code, stdout, stderr } = await outcomeOf(run(command, args, cwd));
  assert.equal(code, 0, `${command} ${args.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}

/** A program of the installed package. */
const svc = (args: string, cwd?: string) => done(join(prefix, 'bin/svc'), args.split(' '), cwd);

/** The first line of a gateway that starts. */
async function ready(child: ChildProcess): Promise<{ url: string; dataDir: string }> {
  running.push(child);
  let log = '';
  child.stderr?.on('data', (chunk) => (log += chunk));
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  const { value = '', done: ended } = await inTime(lines.next(), 'the start', LONG_MS);
  assert.ok(!ended, log);
  return JSON.parse(value);
}

async function stopped(child: ChildProcess): Promise<void> {
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  assert.deepEqual(await inTime(exit, 'the end', LONG_MS), [0, null]);
}

before(async () => {
  for (const folder of [home, join(machine, 'bin'), prefix]) mkdirSync(folder);
  const note = `#!/bin/sh\necho "$0 $*" >> ${compiled}\nexit 1\n`;
  for (const name of COMPILERS) writeFileSync(join(machine, 'bin', name), note, { mode: 0o755 });
  // npm may be elsewhere than this Node, which runs it.
  symlinkSync(process.execPath, join(machine, 'bin/node'));
  env.PATH = [join(machine, 'bin'), process.env.PATH].join(delimiter);
  // What this machine has downloaded before is not downloaded again.
  const setting = (name: string) => execFileSync('npm', ['config', 'get', name], { encoding: 'utf8' }).trim();
  env.npm_config_cache = setting('cache');
  // With another prefix npm does not read the settings of the machine.
  const { SVC_TEST_CERTIFICATES: certificates = setting('cafile') } = process.env;
  if (certificates !== 'null') env.npm_config_cafile = certificates;
  if (major === 20) offerSqlite();
  packed = (await done(process.execPath, [join(root, 'scripts/release/package.mjs'), machine])).trim();
});
/** Gateways; they end before their files are removed. */
const running: ChildProcess[] = [];
after(async () => {
  for (const child of running.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)) {
    const exit = once(child, 'exit');
    child.kill('SIGTERM');
    await exit;
  }
  rmSync(machine, { recursive: true, force: true, maxRetries: 5 });
});

/** On Node 20 the binary is downloaded where it can be: here from a folder, with what the clone has. */
function offerSqlite(): void {
  const clone = join(root, 'node_modules/better-sqlite3-12');
  const { version } = JSON.parse(readFileSync(join(clone, 'package.json'), 'utf8'));
  const { versions, platform, arch } = process;
  const name = `better-sqlite3-v${version}-node-v${versions.modules}-${platform}-${arch}.tar.gz`;
  create({ cwd: clone, file: join(machine, name), gzip: true, sync: true }, ['build/Release/better_sqlite3.node']);
  env.npm_config_better_sqlite3_local_prebuilds = machine;
}

/** The packages below a folder with a script that npm runs when it installs them. */
function withInstallScripts(modules: string): string[] {
  return readdirSync(modules).flatMap((name) => {
    const folder = join(modules, name);
    if (name.startsWith('@')) return withInstallScripts(folder);
    if (!existsSync(join(folder, 'package.json'))) return [];
    const { scripts = {}, gypfile } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const compiles = existsSync(join(folder, 'binding.gyp')) && gypfile !== false;
    const found = compiles || ['preinstall', 'install', 'postinstall'].some((script) => script in scripts);
    const below = join(folder, 'node_modules');
    return [...(found ? [name] : []), ...(existsSync(below) ? withInstallScripts(below) : [])];
  });
}

describe('npm install -g', { concurrency: 1 }, () => {
  const folder = join(home, 'work');
  let gateway: ChildProcess;
  let url = '';

  test('compiles nothing and runs no script from Node 22 on', async (t) => {
    const began = performance.now();
    await done('npm', ['install', '-g', '--prefix', prefix, packed]);
    const modules = join(prefix, 'lib/node_modules');
    // For the table of docs/install.md.
    const [size] = execFileSync('du', ['-sm', modules], { encoding: 'utf8' }).split('\t');
    t.diagnostic(`installed in ${((performance.now() - began) / 1000).toFixed(1)} s, on disk ${size} MiB`);
    assert.deepEqual(withInstallScripts(modules), major === 20 ? ['better-sqlite3'] : []);
    assert.equal(existsSync(compiled), false, existsSync(compiled) ? readFileSync(compiled, 'utf8') : '');
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    assert.equal((await svc('--version')).trim(), version);
    assert.match(await svc('doctor --json'), /"finding":"better-sqlite3 loads/);
  });

  test('the gateway keeps its data in the place of the platform, with a template', async () => {
    mkdirSync(folder);
    gateway = run(join(prefix, 'bin/svc-gateway'), ['--with', 'todos', '--port', '0', '--json'], folder);
    const first = await ready(gateway);
    url = first.url;
    assert.equal(first.dataDir, dataDir);
    assert.deepEqual(readdirSync(folder), []);
  });

  test('commands make, publish, test and call an app from any folder', async () => {
    await svc('new notes', folder);
    // A package that a handler imports is bundled by a program, which came without a script.
    const small = join(folder, 'notes/node_modules/small');
    mkdirSync(small, { recursive: true });
    writeFileSync(join(small, 'package.json'), '{"name":"small","version":"1.0.0","type":"module","main":"i.js"}');
    writeFileSync(join(small, 'i.js'), 'export const loud = (text) => text.toUpperCase();');
    const action = join(folder, 'notes/actions/add.js');
    const text = readFileSync(action, 'utf8');
    writeFileSync(action, `import { loud } from 'small';\nvoid loud('');\n${text}`);
    await svc('test ./notes', folder);
    await svc('push notes', folder);
    await done(join(prefix, 'bin/svc'), ['write', 'notes', 'add', '{"text":"Milk"}'], machine);
    assert.match(await svc('read notes list'), /Milk/);
    await svc('new --clone kanban --publish', machine);
    await svc('dev --help');
    assert.match(await svc('apps --json', machine), /"id":"kanban"/);
  });

  test('a port or a data directory in use is said, with what to do', async () => {
    const { port } = new URL(url);
    const other = join(machine, 'other');
    const start = (args: string[]) => outcomeOf(run(join(prefix, 'bin/svc-gateway'), args));
    const taken = await start(['--port', port, '--data-dir', other]);
    assert.equal(taken.code, 1);
    assert.match(taken.stderr, /Another gateway .* is listening on port \d+\.\n {2}Use that one: svc status/);
    const used = await start(['--port', '0']);
    assert.equal(used.code, 1);
    assert.match(used.stderr, /svc status/);
    const old = ['--import', `data:text/javascript,Object.defineProperty(process.versions,'node',{value:'18.20.4'})`];
    const tooOld = await outcomeOf(run(process.execPath, [...old, join(prefix, 'bin/svc-gateway')]));
    assert.equal(tooOld.code, 1);
    assert.match(tooOld.stderr, /needs Node 20\.19 or newer; this is 18\.20\.4\.\nInstall Node 24/);
  });

  test('removing the package leaves the data', async () => {
    await stopped(gateway);
    await done('npm', ['uninstall', '-g', '--prefix', prefix, 'svc-gateway']);
    assert.equal(existsSync(join(prefix, 'bin/svc')), false);
    assert.ok(existsSync(join(dataDir, 'token.bin')));
    assert.ok(existsSync(join(dataDir, 'code-store')));
  });
});

describe('npx svc-gateway', () => {
  test('without more words runs the gateway on the same data, and prints a link that signs a browser in', async () => {
    const npx = `npx --yes --package ${packed} svc-gateway --port 0`;
    const child = run('script', ['-qefc', npx, '/dev/null']);
    running.push(child);
    let shown = '';
    child.stdout?.on('data', (chunk) => (shown += stripVTControlCharacters(String(chunk))));
    const said = async (text: string): Promise<void> => {
      while (!shown.includes(text)) await inTime(once(child.stdout!, 'data'), `${text} in ${shown}`, 3 * LONG_MS);
    };
    await said('npm install -g svc-gateway');
    const [, link = ''] = /open +(http:\S+#link=\w+)/.exec(shown) ?? [];
    const { origin, hash } = new URL(link);
    assert.match(shown, /notes +http:/);
    assert.match(shown, /Another one: npx svc-gateway open/);
    const answer = await fetch(`${origin.replace('svc.localhost', '127.0.0.1')}/svc/_health`);
    assert.equal(answer.status, 200);
    assert.match(hash, /^#link=[0-9a-f]{64}$/);
    const exit = once(child, 'exit');
    child.stdin?.write('\x03');
    await inTime(exit, 'the end', LONG_MS);

    // Its folder is a cache.
    const service = await outcomeOf(run('npx', ['--yes', '--package', packed, 'svc-gateway', 'service', 'install']));
    assert.equal(service.code, 1);
    assert.match(
      service.stderr,
      /npx keeps its packages in a cache.*\n(?: {2}.*\n)* *Install it first: npm install -g/,
    );
  });
});
