/**
 * The documents are executed and held against the code: every `sh` block runs, in its document's order, in a folder that
 * looks like a clone of the project with the gateway of `npm start` running on it. What a fenced block's info string means:
 *
 *     sh gateway             `svc serve …`, instead of `npm start` when it comes first: runs from here on, on any free port; what
 *                            it exports holds for the blocks that follow
 *     sh claude              the same, where this program is installed (scripts/agents)
 *     sh                     run with bash -euo pipefail; commands about the clone itself are checked instead (CLONE_COMMANDS)
 *     js notes/actions/x.js  written to that path, for the blocks that follow; any language of FILE_LANGUAGES
 *     text                   shown only
 *
 * A document that talks of agents has a model server at MODEL_ADDRESS, which says again what it is told.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
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
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { COMMANDS, COMMON_OPTIONS, CONNECTION_OPTIONS } from '../cli/commands.ts';
import { EXIT } from '../cli/failure.ts';
import { ERROR_CODES } from '../protocol/errors.ts';
import { CONFIG_KEYS, checkConfig, defaultConfig } from '../supervisor/config.ts';
import { allRoutes } from '../supervisor/routes/all.ts';
import type { Services } from '../supervisor/services.ts';
import { ENDS_WITH_PARENT, root } from '../testing/gateway.ts';
import { type ModelStub, startModelStub } from '../testing/model-stub.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

type Block = { info: string; text: string; line: number };

const FILE_LANGUAGES = ['js', 'json', 'sql', 'html', 'css'];
/** Programs that documents talk about. */
const PROGRAMS = ['claude', 'codex'];
const PROGRAMS_FOLDER = join(root, 'scripts/agents/node_modules/.bin');
const ADDRESS = '127.0.0.1:8787';
const MODEL_ADDRESS = '127.0.0.1:11434';
const HTTP_METHOD = /^`(?:GET|POST|PUT|PATCH|DELETE)`$/;
const packageJson = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

const documents = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...readdirSync(join(root, 'docs')).map((name) => `docs/${name}`),
]
  .filter((name) => name.endsWith('.md'))
  .map((name) => ({ name, text: readFileSync(join(root, name), 'utf8') }));

function textOf(name: string): string {
  return documents.find((document) => document.name === name)?.text ?? assert.fail(`There is no ${name}.`);
}

function blocksOf(text: string): Block[] {
  const blocks: Block[] = [];
  let open: Block | null = null;
  for (const [i, line] of text.split('\n').entries()) {
    const fence = /^```(.*)$/.exec(line);
    if (!fence) {
      if (open) open.text += `${line}\n`;
    } else if (open) {
      blocks.push(open);
      open = null;
    } else {
      open = { info: fence[1] as string, text: '', line: i + 1 };
    }
  }
  assert.equal(open, null, 'a fenced block is not closed');
  return blocks;
}

/** The cells of every table row whose first cell is code: `| `a` | b |` → `['`a`', 'b']`. */
function rowsOf(text: string): string[][] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .slice(1, -1)
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim()),
    );
}

/** The code spans of a cell, without their marks. */
function codes(cell: string | undefined): string[] {
  return [...(cell ?? '').matchAll(/`([^`]+)`/g)].map((match) => match[1] as string);
}

/** Commands that work on the clone as a whole: nothing to run here, but what they name must exist. */
const CLONE_COMMANDS: [pattern: RegExp, check: (script: string) => void][] = [
  [/^npm (?:ci|link)$/, () => {}],
  [/^npm (start|test)$/, isScript],
  [/^npm run ([\w-]+)(?: -- .*)?$/, isScript],
];

function isScript(name: string): void {
  assert.ok(Object.hasOwn(packageJson.scripts, name), `package.json has no script "${name}"`);
}

/** Whether a line is made of such commands; checks them. */
function isAboutClone(line: string): boolean {
  return line.split(' && ').every((command) =>
    CLONE_COMMANDS.some(([pattern, check]) => {
      const match = pattern.exec(command.replace(/\s*#.*$/, '').trim());
      if (match) check(match[1] ?? '');
      return match !== null;
    }),
  );
}

/** A folder in which what the documents say works as written. */
class Clone {
  readonly folder = mkdtempSync(join(tmpdir(), 'svc-docs-'));
  readonly #env: NodeJS.ProcessEnv;
  #daemon: ChildProcess | null = null;
  #address = ADDRESS;
  #modelAddress = MODEL_ADDRESS;

  /** Its agents ask this server in place of their vendors'. */
  useModel({ url }: ModelStub): void {
    this.#modelAddress = new URL(url).host;
    Object.assign(this.#env, {
      OPENAI_BASE_URL: `${url}/v1`,
      OPENAI_API_KEY: 'key',
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: 'key',
    });
  }

  constructor() {
    for (const name of ['bin', 'examples', 'templates']) symlinkSync(join(root, name), join(this.folder, name));
    mkdirSync(join(this.folder, 'node_modules'));
    symlinkSync(root, join(this.folder, 'node_modules', packageJson.name));
    const commands = join(this.folder, '.commands');
    mkdirSync(commands);
    writeFileSync(join(commands, 'svc'), '#!/bin/sh\nexec node $NODE_FLAGS "$(dirname "$0")/../bin/svc.js" "$@"\n', {
      mode: 0o755,
    });
    // The daemon's sockets are in the folder too, and go with it.
    this.#env = {
      PATH: `${commands}:${dirname(process.execPath)}:${PROGRAMS_FOLDER}:${process.env.PATH}`,
      HOME: this.folder,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      TMPDIR: this.folder,
    };
  }

  /** Runs `npm start` without its build. */
  async start(): Promise<void> {
    const [build, serve, ...rest] = packageJson.scripts.start.split(' && ');
    assert.deepEqual([build, rest], ['npm run --silent build', []]);
    await this.#serve(serve);
  }

  /** Runs the gateway that a document starts, in place of the one before. */
  async serve(script: string): Promise<void> {
    const lines = script.trim().split('\n');
    const command = lines.pop() ?? '';
    assert.match(command, /^svc serve( |$)/);
    for (const line of lines) {
      const [, name = '', value = ''] = /^export (\w+)=(\S+)$/.exec(line) ?? assert.fail(line);
      this.#env[name] = value;
    }
    await this.#stop();
    await this.#serve(command);
  }

  /** On any free port. */
  async #serve(command: string): Promise<void> {
    this.#daemon = spawn('bash', ['-c', `exec ${command.replace(/^node /, 'node $NODE_FLAGS ')} --port 0 --json`], {
      cwd: this.folder,
      env: { ...this.#env, NODE_FLAGS: ENDS_WITH_PARENT },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    const lines = createInterface({ input: this.#daemon.stdout! })[Symbol.asyncIterator]();
    const { value, done } = await inTime(lines.next(), `the start of ${command}`, LONG_MS);
    assert.ok(!done, `${command} did not start a gateway`);
    this.#address = new URL(JSON.parse(value).url).host;
  }

  async #stop(): Promise<void> {
    if (!this.#daemon) return;
    const exit = once(this.#daemon, 'exit');
    this.#daemon.kill('SIGTERM');
    assert.deepEqual(
      await inTime(exit, 'the end of the gateway', LONG_MS),
      [0, null],
      'the gateway did not stop cleanly',
    );
    this.#daemon = null;
  }

  write(path: string, text: string): void {
    const file = join(this.folder, path);
    assert.ok(file.startsWith(join(this.folder, '/')), `${path} leads out of the folder`);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, this.#here(text));
  }

  /** Runs what is not about the clone itself; fails with everything that it printed. */
  async run(script: string): Promise<void> {
    const lines = script.split('\n').filter((line) => line.trim() !== '' && !isAboutClone(line));
    if (lines.length === 0) return;
    const shell = spawn('bash', ['-euo', 'pipefail', '-c', this.#here(lines.join('\n'))], {
      cwd: this.folder,
      env: this.#env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let printed = '';
    for (const output of [shell.stdout, shell.stderr]) output.on('data', (chunk) => (printed += chunk));
    const [code] = (await inTime(once(shell, 'close'), lines.join('\n'), LONG_MS)) as [number | null];
    assert.equal(code, 0, printed);
  }

  #here(text: string): string {
    return text.replaceAll(ADDRESS, this.#address).replaceAll(MODEL_ADDRESS, this.#modelAddress);
  }

  async remove(): Promise<void> {
    await this.#stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

for (const { name, text } of documents) {
  describe(name, () => {
    const blocks = blocksOf(text);
    const clone = new Clone();
    const [first] = blocks.filter(({ info }) => info === 'sh' || info === 'sh gateway');
    let model: ModelStub | undefined;
    before(async () => {
      if (text.includes(MODEL_ADDRESS)) {
        model = await startModelStub();
        clone.useModel(model);
      }
      if (first?.info === 'sh') await clone.start();
    });
    after(async () => {
      await clone.remove();
      await model?.close();
    });

    for (const { info, text: content, line } of blocks) {
      const [language = '', path, ...rest] = info.split(' ');
      if (info === 'text') continue;
      const isProgram = language === 'sh' && path !== undefined && PROGRAMS.includes(path);
      const skip =
        isProgram && !existsSync(join(PROGRAMS_FOLDER, path))
          ? `${path} is not installed: npm ci --prefix scripts/agents`
          : false;
      test(`line ${line}: ${info}`, { skip }, async () => {
        if (info === 'sh gateway') {
          await clone.serve(content);
          return;
        }
        if (info === 'sh' || isProgram) {
          await clone.run(content);
          return;
        }
        assert.ok(FILE_LANGUAGES.includes(language) && path !== undefined && rest.length === 0, 'unknown info string');
        clone.write(path, content);
      });
    }

    test('links lead somewhere', () => {
      for (const [, target = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^https?:/.test(target)) continue;
        const [file = '', anchor] = target.split('#');
        const path = file === '' ? name : join(dirname(name), file);
        assert.ok(existsSync(join(root, path)), `${target} does not exist`);
        if (anchor === undefined) continue;
        const headings = [...readFileSync(join(root, path), 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
          heading
            .toLowerCase()
            .replace(/[^\w\s-]/g, '')
            .replaceAll(' ', '-'),
        );
        assert.ok(headings.includes(anchor), `${target}: there is no such heading`);
      }
    });

    test('every svc command it names exists', () => {
      const names = [...COMMANDS.map((command) => command.name), 'help'];
      const shown = [...blocks.map((block) => block.text), ...codes(text.replace(/^```[\s\S]*?^```$/gm, ''))];
      for (const [, command = ''] of shown.join('\n').matchAll(/(?:^|[\s;|(])svc ([a-z]+)\b/gm)) {
        assert.ok(names.includes(command), `svc ${command}`);
      }
    });
  });
}

test('README.md starts with the two commands', () => {
  const [first, second] = blocksOf(textOf('README.md')).filter(({ info }) => info === 'sh');
  assert.deepEqual([first?.text, second?.text], ['npm ci && npm start\n', 'npm ci && npm test\n']);
});

test('every row of the threat table in SECURITY.md names tests that are there', () => {
  const rows = textOf('SECURITY.md')
    .split('\n')
    .filter((line) => /^\| (?!Who |---)/.test(line));
  assert.ok(rows.length > 30);
  for (const row of rows) {
    const [who = '', , , shown = ''] = row.slice(1, -1).split('|');
    const files = [...shown.matchAll(/`([^`]+)`/g)].map(([, file = '']) => file);
    assert.ok(files.length > 0, who);
    for (const file of files) assert.ok(existsSync(join(root, file)), `${who}: ${file}`);
  }
});

test('every promise in docs/reliability.md names campaigns and tests that are there', () => {
  const rows = textOf('docs/reliability.md')
    .split('\n')
    .filter((line) => /`(?:npm run faults|npm run fuzz|test .*)(?: -- .*)?` \|$/.test(line));
  assert.ok(rows.length > 30);
  const folders = ['protocol', 'storage', 'workers', 'supervisor', 'cli', 'bench', 'test', 'testing'];
  const tests = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.test.ts'))
      .map((name) => `${folder}/${name}`),
  );
  for (const row of rows) {
    for (const command of codes(row.split('|').at(-2))) {
      if (command === 'npm run fuzz') continue;
      const filters = /^test (.+)/.exec(command)?.[1]?.split(' ');
      const campaigns = /^npm run faults -- ([a-z ]+)/.exec(command)?.[1]?.trim().split(' ');
      for (const filter of filters ?? [])
        assert.ok(
          tests.some((path) => path.includes(filter)),
          `${filter}: ${row}`,
        );
      for (const name of campaigns ?? []) {
        const places = [`bench/faults/${name}.ts`, `bench/faults/${name}/campaign.ts`];
        assert.ok(
          places.some((path) => existsSync(join(root, path))),
          `${name}: ${row}`,
        );
      }
      assert.ok(filters ?? campaigns, command);
    }
  }
});

test('docs/http-api.md lists every route, and no other', () => {
  const listed = rowsOf(textOf('docs/http-api.md'))
    .filter(([method = '']) => HTTP_METHOD.test(method))
    .map(
      ([method, path, answers = '']) => `${codes(method)} ${codes(path)}${answers.startsWith('○') ? ' (open)' : ''}`,
    );
  const routes = allRoutes({ automations: {} } as Services).map(
    ({ method, path, needs }) => `${method} ${path}${needs === 'anyone' ? ' (open)' : ''}`,
  );
  assert.deepEqual(listed.sort(), routes.sort());
});

test('docs/http-api.md lists every error code with its status and meaning, and no other', () => {
  const listed = rowsOf(textOf('docs/http-api.md')).filter(
    ([code = '']) => /^`[A-Z_]+`$/.test(code) && !HTTP_METHOD.test(code),
  );
  const table = Object.entries(ERROR_CODES).map(([code, { status, when }]) => [`\`${code}\``, String(status), when]);
  assert.deepEqual(listed, table);
});

test('docs/http-api.md names no error code that does not exist', () => {
  const named = codes(textOf('docs/http-api.md')).filter((code) => /^[A-Z]+_[A-Z_]+$/.test(code));
  assert.deepEqual(
    named.filter((code) => !Object.hasOwn(ERROR_CODES, code) && code !== 'SQLITE_AUTH'),
    [],
  );
});

test('docs/cli.md explains every command with its arguments and options, and every exit code', () => {
  const text = textOf('docs/cli.md');
  const [general = '', ...sections] = text.split(/^### /m);
  const usages = COMMANDS.map(({ name, positionals }) => `\`svc ${name}${positionals && ` ${positionals}`}\``);
  assert.deepEqual(
    sections.map((section) => section.split('\n', 1)[0]),
    usages,
  );
  for (const [i, { name, options }] of COMMANDS.entries()) {
    for (const option of Object.keys({ ...options, ...COMMON_OPTIONS })) {
      const where = option in { ...CONNECTION_OPTIONS, ...COMMON_OPTIONS } ? general : sections[i];
      assert.ok(where?.includes(`--${option}`), `svc ${name} --${option}`);
    }
  }
  const exitCodes = rowsOf(general).map(([code]) => Number(codes(code)));
  assert.deepEqual(exitCodes, Object.values(EXIT));
});

test('docs/configuration.md lists every key with its default, and no other', () => {
  const text = textOf('docs/configuration.md');
  const keys = rowsOf(text).filter(([key]) => (CONFIG_KEYS as string[]).includes(codes(key)[0] ?? ''));
  const [table = ''] = text.split(/^## /m);
  assert.equal(keys.length, rowsOf(table).length);
  assert.deepEqual(
    keys.map(([key]) => codes(key)[0]),
    CONFIG_KEYS,
  );
  // Those of the machine, which the table has in words.
  const { dataDir, appsDir, handlerHosts, maxLiveActors, ...defaults } = defaultConfig('');
  for (const [key, value] of Object.entries(defaults)) {
    const row = keys.find(([name]) => name === `\`${key}\``);
    assert.deepEqual(codes(row?.[1]), [typeof value === 'string' ? value : JSON.stringify(value)], key);
  }
  const examples = blocksOf(text).filter(({ info }) => info.startsWith('json '));
  assert.ok(examples.length > 0);
  for (const { info, text: example } of examples) checkConfig(JSON.parse(example), info);
});

test('docs/dependencies.md lists every package with its licence, and no other', () => {
  const { dependencies, optionalDependencies, devDependencies } = packageJson;
  const listed = rowsOf(textOf('docs/dependencies.md')).flatMap(([names, licence]) =>
    codes(names).map((name) => [name, licence]),
  );
  const wanted = Object.keys({ ...dependencies, ...optionalDependencies, ...devDependencies });
  assert.deepEqual(listed.map(([name]) => name).sort(), wanted.sort());
  for (const [name = '', licence] of listed) {
    const file = join(root, 'node_modules', name, 'package.json');
    if (existsSync(file)) assert.equal(JSON.parse(readFileSync(file, 'utf8')).license, licence, name);
  }
});
