/**
 * Counts what a newcomer has to find a way through (`npm run counts`): lines of code by folder, files that share a name, words of the
 * HTTP reference, and the files of ours that a read, a write, a fire, a turn and a publication pass. A file is passed when one of its functions runs in any process between a request and its
 * answer, each of five times, and not when nothing is asked. What loads or starts is therefore not counted; what runs at intervals
 * never does here.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { parse } from 'acorn';
import { full } from 'acorn-walk';
import { type Plugin, transformSync } from 'esbuild';
import { appOf, automation } from '../testing/apps.ts';
import { tarball } from '../testing/archive.ts';
import { ENDS_WITH_PARENT, root } from '../testing/gateway.ts';
import { STUB_RUNNERS } from '../testing/stub-runner.ts';
import { buildAll } from './build.mjs';

const PRODUCT = ['protocol', 'storage', 'workers', 'supervisor', 'cli', 'console', 'bin'];
const TIMES = 5;
/** What an answer leaves behind, such as a note in a log, is done by then. */
const SETTLE_MS = 150;
const MARK = 'passed\t';
/** In each module: a heartbeat or the like would run between a request and its answer by chance, and count as passed. */
const NO_INTERVALS = 'const setInterval = (run) => globalThis.setInterval(run, 2 ** 31 - 1);';

function filesIn(...folders: string[]): string[] {
  const files = execFileSync('git', ['ls-files', ...folders], { cwd: root, encoding: 'utf8' }).split('\n');
  return files.filter((file) => /\.(tsx?|js|mjs|c)$/.test(file) && !/\.test\./.test(file));
}

function sharedNames(): number {
  const names = filesIn(...PRODUCT).map((file) => basename(file));
  return names.filter((name) => names.indexOf(name) !== names.lastIndexOf(name)).length;
}

function wordsOfReference(): number {
  const pages = readdirSync(join(root, 'docs')).filter((name) => /^http-.*\.md$/.test(name));
  return pages.reduce((sum, name) => sum + readFileSync(join(root, 'docs', name), 'utf8').split(/\s+/).length, 0);
}

function linesIn(folder: string): number {
  return filesIn(folder).reduce((sum, file) => sum + readFileSync(join(root, file), 'utf8').split('\n').length - 1, 0);
}

/**
 * Has every function say on standard error which file it is of, each file once in a while: a full pipe would hold up the daemon. The
 * daemon's processes get its own standard error.
 */
const instrument: Plugin = {
  name: 'instrument',
  setup(build) {
    build.onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const file = relative(root, path);
      const source = readFileSync(path, 'utf8').replace(
        "stdio: ['pipe', 'ignore', 'pipe']",
        "stdio: ['pipe', 'ignore', 'inherit']",
      );
      const { code } = transformSync(source, { loader: 'ts', target: 'es2022' });
      const edits: [number, string][] = [];
      full(parse(code, { ecmaVersion: 'latest', sourceType: 'module' }), (node) => {
        const { type, body } = node as unknown as { type: string; body: { type: string; start: number; end: number } };
        if (!['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'].includes(type)) return;
        if (body.type === 'BlockStatement') edits.push([body.start + 1, '__passed();']);
        else edits.push([body.start, '(__passed(),'], [body.end, ')']);
      });
      let text = code;
      for (const [at, added] of edits.sort(([a], [b]) => b - a)) text = text.slice(0, at) + added + text.slice(at);
      const line = JSON.stringify(`${MARK}${file}\n`);
      const passed =
        `import { writeSync as __write } from 'node:fs'; const __now = performance.now.bind(performance); let __at = -1e9;
        const __passed = () => {
          if (__now() - __at < ${SETTLE_MS / 2}) return;
          for (__at = __now(); ; ) try { __write(2, ${line}); return; } catch (error) { if (error.code !== 'EAGAIN') return; }
        };`.replaceAll('\n', '');
      return { contents: `${passed} ${NO_INTERVALS}\n${text}`, loader: 'js' };
    });
  },
};

type Passed = { files: Set<string> };

/** The daemon of an instrumented build, and the files that were passed since they were taken last. */
class Counted {
  readonly #url: string;
  readonly #token: string;
  readonly #passed: Passed;
  readonly stop: () => Promise<void>;

  private constructor(child: ChildProcess, { url, token }: { url: string; token: string }, passed: Passed) {
    this.#url = url;
    this.#token = token;
    this.#passed = passed;
    const ended = once(child, 'exit');
    this.stop = async () => {
      child.kill('SIGTERM');
      await ended;
    };
  }

  static async start(folder: string): Promise<Counted> {
    await buildAll(join(folder, 'dist'), [instrument]);
    for (const name of ['package.json', 'bin']) cpSync(join(root, name), join(folder, name), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    mkdirSync(join(folder, 'data'));
    const config = join(folder, 'config.json');
    writeFileSync(config, JSON.stringify(STUB_RUNNERS));
    const serve = [
      'serve',
      '--json',
      '--config',
      config,
      '--data-dir',
      join(folder, 'data'),
      '--port',
      '0',
      '--store',
      'git',
    ];
    const child = spawn(process.execPath, [ENDS_WITH_PARENT, join(folder, 'bin/svc.js'), ...serve], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const passed: Passed = { files: new Set() };
    createInterface({ input: child.stderr }).on('line', (line) => {
      if (line.startsWith(MARK)) passed.files.add(line.slice(MARK.length));
    });
    const [ready] = (await once(child.stdout, 'data')) as [Buffer];
    return new Counted(child, JSON.parse(ready.toString()) as { url: string; token: string }, passed);
  }

  async call(method: string, path: string, body?: object | Buffer): Promise<Record<string, unknown>> {
    const isArchive = Buffer.isBuffer(body);
    const response = await fetch(`${this.#url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.#token}`,
        'content-type': isArchive ? 'application/gzip' : 'application/json',
      },
      ...(body !== undefined && { body: isArchive ? new Uint8Array(body) : JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} was answered ${response.status}: ${text}`);
    const isStream = response.headers.get('content-type') === 'text/event-stream';
    return isStream ? { events: text } : (JSON.parse(text) as Record<string, unknown>);
  }

  /** Files that `request` passes each time, after it was made a few times before. `prepare` comes before each. */
  async filesOf(
    request: () => Promise<unknown>,
    prepare = async (_n: number): Promise<unknown> => {},
  ): Promise<string[]> {
    let always: Set<string> | null = null;
    for (let n = -TIMES; n < TIMES; n++) {
      await prepare(n);
      await pause(SETTLE_MS);
      this.#passed.files = new Set();
      await request();
      await pause(SETTLE_MS);
      const passed = this.#passed.files;
      if (n >= 0) always = new Set([...(always ?? passed)].filter((file) => passed.has(file)));
    }
    return [...(always ?? [])].sort();
  }
}

const APP = appOf('counted', {
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT) STRICT;'],
  queries: { get: "({ db }) => db.get('SELECT count(*) AS n FROM notes')" },
  actions: { put: "async ({ db }) => { await db.run('INSERT INTO notes (text) VALUES (?)', 'x'); return {}; }" },
  files: {
    'automations/work/automation.json': automation(),
    'automations/work/handler.js':
      "export default ({ ctx }) => ctx.tool('svc_read', { app: 'counted', query: 'get', input: {} });\n",
  },
});

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-counts-'));
  const lines = PRODUCT.map((name) => [name, linesIn(name)] as const);
  const counts = new Map([
    ['product lines', lines.reduce((sum, [, count]) => sum + count, 0)],
    ['bench lines', linesIn('bench')],
    ['files that share a name', sharedNames()],
    ['words of the reference', wordsOfReference()],
  ]);
  const daemon = await Counted.start(folder);
  try {
    await daemon.call('POST', '/svc/_apps/counted/upload', tarball(APP));
    const { sessionId } = await daemon.call('POST', '/svc/_sessions', {});
    const edit = `/svc/_sessions/${sessionId as string}`;
    const kinds: [string, () => Promise<unknown>, ((n: number) => Promise<unknown>)?][] = [
      [
        'files of a read',
        () => daemon.call('POST', '/svc/_tool/svc_read', { app: 'counted', query: 'get', input: {} }),
        // So that the query runs: a kept result passes fewer files.
        () => daemon.call('POST', '/svc/_tool/svc_write', { app: 'counted', action: 'put', input: {} }),
      ],
      [
        'files of a write',
        () => daemon.call('POST', '/svc/_tool/svc_write', { app: 'counted', action: 'put', input: {} }),
      ],
      [
        'files of a turn',
        () => daemon.call('POST', '/svc/counted/_chat', { windowId: 'counted', message: 'say Hello' }),
      ],
      ['files of a fire', () => daemon.call('POST', '/svc/_automations/counted/work/run', {})],
      [
        'files of a publication',
        () => daemon.call('POST', `${edit}/publish`, { app: 'counted', message: 'Change it' }),
        (n) => daemon.call('PUT', `${edit}/apps/counted/files/notes-${n + TIMES}.txt`, Buffer.from(`text ${n}`)),
      ],
    ];
    const beating = new Set(await daemon.filesOf(async () => {}));
    for (const [name, request, prepare] of kinds) {
      const files = (await daemon.filesOf(request, prepare)).filter((file) => !beating.has(file));
      counts.set(name, files.length);
      if (process.argv.includes('--files')) process.stdout.write(`${name}:\n  ${files.join('\n  ')}\n`);
    }
  } finally {
    await daemon.stop();
    rmSync(folder, { recursive: true, force: true });
  }
  for (const [name, count] of counts) {
    process.stdout.write(`${name}: ${count}\n`);
    if (name === 'product lines') for (const [part, of] of lines) process.stdout.write(`  ${part}: ${of}\n`);
  }
}

await main();
