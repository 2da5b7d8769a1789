/**
 * The image, without Docker, which needs its own daemon: the test collects the context by .dockerignore, builds it as
 * the Dockerfile says, and starts the files of the image with its command and without the packages for development.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { parse } from 'yaml';
import { DEFAULTS } from '../protocol/limits.ts';
import { freePort } from '../testing/free-port.ts';
import { ENDS_WITH_PARENT, root } from '../testing/gateway.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

type Instruction = { name: string; rest: string };

/** The stages of the Dockerfile, each from its FROM on. */
function stages(): Instruction[][] {
  const all: Instruction[][] = [];
  for (const line of readFileSync(join(root, 'Dockerfile'), 'utf8').split('\n')) {
    const [, name = '', rest = ''] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    if (name === 'FROM') all.push([]);
    if (name !== '') all.at(-1)?.push({ name, rest });
  }
  return all;
}

const [build = [], image = []] = stages();
const of = (stage: Instruction[], name: string) => stage.filter((one) => one.name === name).map(({ rest }) => rest);
const listOf = (name: string): string[] => JSON.parse(of(image, name)[0] ?? '[]');

/** What .dockerignore keeps out of the context: names at the top, or anywhere (`**` before them), or by extension. */
function isIgnored(path: string): boolean {
  const patterns = readFileSync(join(root, '.dockerignore'), 'utf8').split('\n');
  return patterns.some((pattern) => {
    if (pattern === '' || pattern.startsWith('#')) return false;
    if (pattern.startsWith('**/*')) return path.endsWith(pattern.slice(4));
    if (pattern.startsWith('**/')) return path.split('/').includes(pattern.slice(3));
    return path === pattern || path.startsWith(`${pattern}/`);
  });
}

describe('the image', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-image-'));
  const context = join(folder, 'context');
  const made = join(folder, 'svc');

  before(() => {
    cpSync(root, context, { recursive: true, filter: (path) => !isIgnored(relative(root, path)) });
    symlinkSync(join(root, 'node_modules'), join(context, 'node_modules'));
    execFileSync(process.execPath, ['scripts/build.mjs'], { cwd: context });
    mkdirSync(made);
    for (const copied of of(image, 'COPY')) {
      const [from, ...paths] = copied.split(' ');
      assert.equal(from, '--from=build');
      const to = join(made, paths.pop() ?? '');
      for (const path of paths.map((one) => relative('/svc', one))) {
        if (path === 'node_modules') copyPackages(to);
        else cpSync(join(context, path), basename(to) === path ? to : join(to, path), { recursive: true });
      }
    }
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  /** Those that `npm prune --omit=dev` leaves. */
  function copyPackages(to: string): void {
    const listed = execFileSync('npm', ['ls', '--omit=dev', '--all', '--parseable'], {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const modules = join(root, 'node_modules');
    for (const path of listed.split('\n').filter((one) => one.startsWith(`${modules}/`))) {
      const isOwn = (inner: string) => !relative(path, inner).split('/').includes('node_modules');
      cpSync(path, join(to, relative(modules, path)), { recursive: true, filter: isOwn });
    }
  }

  test("its context has no build results and no gateway's data", () => {
    const names = readdirSync(context);
    for (const name of ['.git', 'dist', '.svc', 'site', 'test']) {
      assert.ok(isIgnored(name) && isIgnored(`${name}/x`), name);
      assert.ok(name === 'dist' || !names.includes(name), name);
    }
    assert.ok(isIgnored('node_modules') && isIgnored('scripts/agents/node_modules/x'));
    assert.ok(of(build, 'RUN').join('\n').includes('npm ci'));
    assert.ok(of(build, 'RUN').join('\n').includes('npm run build && npm prune --omit=dev'));
    for (const copied of of(build, 'COPY')) {
      for (const path of copied.split(' ').slice(0, -1)) assert.ok(existsSync(join(context, path)), path);
    }
  });

  test('it runs as a separate user, with a volume for data, the port of the gateway, and packages of production', () => {
    assert.deepEqual(of(image, 'USER'), ['node']);
    assert.deepEqual(of(image, 'VOLUME'), ['/data']);
    assert.deepEqual(of(image, 'EXPOSE'), [String(DEFAULTS.port)]);
    assert.deepEqual(of(image, 'STOPSIGNAL'), ['SIGTERM']);
    const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    // Some of them are also dependencies of other packages.
    for (const name of ['typescript', 'playwright-core', 'tsx', 'axe-core', 'highlight.js']) {
      assert.ok(Object.hasOwn(devDependencies, name), name);
      assert.ok(!existsSync(join(made, 'node_modules', name)), name);
    }
  });

  test('its command serves, its health check says so, and SIGTERM stops it', async (t) => {
    const port = await freePort();
    const [init, ...separator] = listOf('ENTRYPOINT');
    assert.deepEqual([init, separator], ['tini', ['--']]);
    const [command, ...args] = listOf('CMD');
    assert.equal(command, 'svc');
    const more = ['--with', 'todos', '--port', String(port), '--json'];
    const child = spawn(process.execPath, [ENDS_WITH_PARENT, join(made, 'bin/svc.js'), ...args, ...more], {
      cwd: made,
      env: { PATH: process.env.PATH, HOME: folder, NODE_ENV: 'production', SVC_DATA_DIR: join(folder, 'data') },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    t.after(() => child.kill('SIGKILL'));
    let log = '';
    child.stderr.on('data', (chunk: Buffer) => (log += chunk));
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const { value = '{}' } = await inTime(lines.next(), `the start: ${log}`, LONG_MS);
    const { token } = JSON.parse(value);
    assert.ok(token, log);

    const [, health = ''] = /CMD (\[.*\])$/.exec(of(image, 'HEALTHCHECK')[0] ?? '') ?? [];
    const [program = '', ...script] = JSON.parse(health) as string[];
    assert.equal(program, 'node');
    assert.ok(script.join(' ').includes(`127.0.0.1:${DEFAULTS.port}/`));
    const check = async (): Promise<number> => {
      const here = script.map((one) => one.replace(`:${DEFAULTS.port}/`, `:${port}/`));
      const checked = execFile(process.execPath, here);
      const [code] = await inTime(once(checked, 'exit'), 'the health check', LONG_MS);
      return code;
    };
    assert.equal(await check(), 0);

    const ask = async (path: string, body?: unknown) => {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
        headers: { authorization: `Bearer ${token}` },
        ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
      });
      assert.equal(answer.status, 200, `${path}: ${await answer.clone().text()}`);
      return answer.json();
    };
    // The database, the templates, and the documents that the gateway reads are in the image.
    await ask('/svc/_tool/svc_read', { app: 'todos', query: 'list', input: { filter: 'open' } });
    assert.ok(JSON.stringify(await ask('/svc/_templates')).includes('kanban'));
    await ask('/svc/_openapi.json');

    const exit = once(child, 'exit');
    child.kill('SIGTERM');
    assert.deepEqual(await inTime(exit, 'the end', LONG_MS), [0, null], log);
    assert.equal(await check(), 1);
  });
});

test('the compose file is valid, and matches the files beside it', () => {
  const compose = parse(readFileSync(join(root, 'deploy/compose.yaml'), 'utf8'));
  const { gateway, caddy } = compose.services;
  const mounted = [...gateway.volumes, ...caddy.volumes].map((volume: string) => volume.split(':')[0] ?? '');
  for (const source of mounted) {
    if (source.startsWith('.')) assert.ok(existsSync(join(root, 'deploy', source)), source);
    else assert.ok(Object.hasOwn(compose.volumes, source), source);
  }
  assert.equal(caddy.environment.GATEWAY, `gateway:${DEFAULTS.port}`);
  const asked = [...readFileSync(join(root, 'deploy/Caddyfile'), 'utf8').matchAll(/\{\$(\w+)/g)].map(
    ([, name]) => name,
  );
  assert.deepEqual([...new Set(asked)].sort(), Object.keys(caddy.environment).sort());
  const { trustedProxies, host } = JSON.parse(readFileSync(join(root, 'deploy/config.json'), 'utf8'));
  assert.deepEqual(trustedProxies, [compose.networks.default.ipam.config[0].subnet]);
  assert.equal(host, '0.0.0.0');
  assert.deepEqual(gateway.command.slice(0, 2), listOf('CMD').slice(0, 2));
});
