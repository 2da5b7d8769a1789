/**
 * The documents are executed and compared with the code: every `sh` block runs, in its document's order, in a folder
 * that looks like a clone of the project, with the gateway of `npm start` running on it where a block asks one. The
 * documents that need no other gateway share that one, and each begins with its first apps. What a fenced block's info
 * string means:
 *
 *     sh gateway             `svc serve …`, instead of `npm start` when it comes first: runs from here on, on any free port; what
 *                            it exports holds for the blocks that follow, other lines are run before
 *     sh                     run with bash -euo pipefail; commands about the clone itself are checked instead (CLONE_COMMANDS)
 *     sh claude              the same, where this program is installed (scripts/agents); in its document `svc` is a program too,
 *                            in the others its commands run in the process of the test
 *     js notes/actions/x.js  written to that path, for the blocks that follow; any language of FILE_LANGUAGES
 *     text, json             shown only
 * A browser checks what the text says about a page, after the block that makes it true (RESULTS). A document about
 * agents has a model server at MODEL_ADDRESS, which repeats the message.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { COMMANDS, COMMON_OPTIONS, CONNECTION_OPTIONS } from '../cli/commands.ts';
import { EXIT } from '../cli/failure.ts';
import { ERROR_CODES, type ErrorCode } from '../protocol/errors.ts';
import { NEXT_STEPS } from '../protocol/next-steps.ts';
import { RESOURCES } from '../protocol/routes/resources.ts';
import { pathsOf } from '../protocol/routes/row.ts';
import { CONFIG_KEYS, checkConfig, defaultConfig } from '../supervisor/config.ts';
import { allRoutes } from '../supervisor/routes/all.ts';
import type { Services } from '../supervisor/services.ts';
import { Clone, MODEL_ADDRESS, PROGRAMS_FOLDER, RUNS_PROGRAMS } from '../testing/clone.ts';
import { root } from '../testing/gateway.ts';
import { type ModelStub, startModelStub } from '../testing/model-stub.ts';
import { withoutChromium } from './browser/chromium.ts';
import { openPage, RESULTS } from './docs-results.ts';

type Block = { info: string; text: string; line: number };

const FILE_LANGUAGES = ['js', 'ts', 'json', 'sql', 'html', 'css'];
/** Programs that documents talk about. */
const PROGRAMS = ['claude', 'codex'];
const HAS_PROGRAMS = RUNS_PROGRAMS && existsSync(PROGRAMS_FOLDER);
/** A command that asks a gateway, or its address. */
const USES_GATEWAY = /\bsvc (?!(?:new|test)\b)|127\.0\.0\.1:8787/;
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

/** Whether a block needs a program of another vendor. */
function isProgram(info: string): boolean {
  const [language, name] = info.split(' ');
  return language === 'sh' && name !== undefined && PROGRAMS.includes(name);
}

function whyMissing(program = ''): string | false {
  return existsSync(join(PROGRAMS_FOLDER, program))
    ? false
    : `${program} is not installed: npm ci --prefix scripts/agents`;
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

function usesGateway(text: string): boolean {
  return blocksOf(text).some(({ info, text }) => info.startsWith('sh') && USES_GATEWAY.test(text));
}

/** Whether it needs the gateway of `npm start` and no other. */
function canShare(text: string): boolean {
  return usesGateway(text) && blocksOf(text).every(({ info }) => info !== 'sh gateway');
}

// Both at a time: one after the other would take several minutes.
describe('the documents', { concurrency: 2 }, () => {
  describe('with the gateway of npm start', { concurrency: 1 }, () => {
    const host = new Clone();
    before(() => host.start());
    after(() => host.remove());
    for (const document of documents) if (canShare(document.text)) runs(document, host);
  });

  describe('with gateways of their own, or none', { concurrency: 1 }, () => {
    for (const document of documents) if (!canShare(document.text)) runs(document, null);
  });
});

/** The tests of a document, which uses the gateway of `host` or has its own. */
function runs({ name, text }: (typeof documents)[number], host: Clone | null): void {
  describe(name, { concurrency: 1 }, () => {
    const blocks = blocksOf(text);
    const clone = new Clone(host, HAS_PROGRAMS && blocks.some(({ info }) => isProgram(info)));
    const [first] = blocks.filter(({ info }) => info === 'sh' || info === 'sh gateway');
    let model: ModelStub | undefined;
    before(async () => {
      if (text.includes(MODEL_ADDRESS)) {
        model = await startModelStub();
        clone.useModel(model);
      }
      if (!host && first?.info === 'sh' && usesGateway(text)) await clone.start();
    });
    after(async () => {
      await clone.remove();
      await model?.close();
    });

    for (const { info, text: content, line } of blocks) {
      const [language = '', path, ...rest] = info.split(' ');
      if (info === 'text') continue;
      if (info === 'json') continue;
      if (isProgram(info) && !RUNS_PROGRAMS) continue;
      const skip = isProgram(info) && whyMissing(path);
      test(`line ${line}: ${info}`, { skip }, async () => {
        if (info === 'sh gateway') {
          await clone.serve(content);
          return;
        }
        if (info === 'sh' || isProgram(info)) {
          await clone.run(content);
          return;
        }
        assert.ok(FILE_LANGUAGES.includes(language) && path !== undefined && rest.length === 0, 'unknown info string');
        clone.write(path, content);
      });
      for (const { app, what, look } of RESULTS.filter((one) => one.document === name && content.includes(one.after)))
        test(`line ${line}: then ${what}`, { skip: withoutChromium() }, async () => {
          const page = await openPage(clone, app);
          await look(page, clone);
          await page.context().close();
        });
    }

    test('links lead to existing targets', () => {
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
        assert.ok(headings.includes(anchor), `${target}: this heading does not exist`);
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

test('each result is checked after one block', () => {
  for (const { document, after: words, what } of RESULTS)
    assert.equal(
      blocksOf(textOf(document)).filter(({ text }) => text.includes(words)).length,
      1,
      `${document}: ${what}`,
    );
});

test('README.md starts with the two commands', () => {
  const [first, second] = blocksOf(textOf('README.md')).filter(({ info }) => info === 'sh');
  assert.deepEqual([first?.text, second?.text], ['npm ci && npm start\n', 'npm ci && npm test\n']);
});

test('every row of the threat table in SECURITY.md names existing tests', () => {
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

test('SECURITY.md and docs/reliability.md say the same of how long an endless write delays others', () => {
  const [, delayed] = /delays other apps' writes for \[([\d.]+ s)\]/.exec(textOf('SECURITY.md')) ?? [];
  const [, waited] = /the others wait ([\d.]+ s)/.exec(textOf('docs/reliability.md')) ?? [];
  assert.ok(delayed);
  assert.equal(delayed, waited);
});

test('every promise in docs/reliability.md names existing campaigns and tests', () => {
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

test('the HTTP reference has every route, and no other', () => {
  const routes = allRoutes({ automations: {} } as Services).map(
    ({ method, path, needs }) => `${method} ${path}${needs === 'anyone' ? ' (open)' : ''}`,
  );
  const declared = RESOURCES.flatMap(({ rows }) =>
    rows.flatMap((row) =>
      pathsOf(row).map((path) => `${row.method} ${path}${row.needs === 'anyone' ? ' (open)' : ''}`),
    ),
  );
  assert.deepEqual(declared.sort(), routes.sort());
});

test('docs/http-api.md lists every error code with its status, its meaning and what to do, and no other', () => {
  const listed = rowsOf(textOf('docs/http-api.md')).filter(([code = '']) => /^`[A-Z_]+`$/.test(code));
  const table = Object.entries(ERROR_CODES).map(([code, { status, when }]) => [
    `\`${code}\``,
    String(status),
    when,
    NEXT_STEPS[code as ErrorCode],
  ]);
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
  const { dataDir, appsDir, handlerHosts, appMemoryMb, ...defaults } = defaultConfig('');
  for (const [key, value] of Object.entries(defaults)) {
    const row = keys.find(([name]) => name === `\`${key}\``);
    assert.deepEqual(codes(row?.[1]), [typeof value === 'string' ? value : JSON.stringify(value)], key);
  }
  const other = ['notices', 'people', 'sign-in'].flatMap((name) =>
    blocksOf(textOf(`docs/${name}.md`)).filter(({ info }) => /^json [\w.-]+$/.test(info)),
  );
  const examples = [...other, ...blocksOf(text).filter(({ info }) => info.startsWith('json '))];
  assert.ok(other.length > 0 && examples.length > 1);
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
