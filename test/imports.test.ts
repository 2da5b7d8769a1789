/**
 * What files refer to. Imports are the layers of docs/architecture.md: they point one way, workers and supervisor never meet, and no
 * files import each other in a circle. Comments cite docs/specification.md, and nothing that is not there.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** What the files of a folder may import besides their own folder. */
const MAY_IMPORT: Record<string, string[]> = {
  protocol: ['schemas'],
  storage: ['protocol'],
  workers: ['protocol', 'storage'],
  supervisor: ['protocol', 'storage'],
  cli: ['protocol', 'storage', 'supervisor'],
  testing: ['protocol', 'storage', 'workers', 'supervisor', 'cli'],
  bench: ['protocol', 'storage', 'workers', 'supervisor', 'cli', 'testing'],
  'hosts/desktop/src': ['hosts', 'protocol', 'storage', 'supervisor', 'cli'],
  'hosts/openclaw/src': ['hosts', 'protocol', 'supervisor'],
  test: ['protocol', 'storage', 'workers', 'supervisor', 'cli', 'testing'],
};

function sources(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .map((name) => join(folder, name));
}

function relativeImports(file: string): string[] {
  const text = readFileSync(join(root, file), 'utf8');
  return [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map((match) =>
    normalize(join(dirname(file), match[1] as string)),
  );
}

for (const [folder, allowed] of Object.entries(MAY_IMPORT)) {
  test(`${folder}/ imports only ${[folder, ...allowed].join(', ')}`, () => {
    const files = sources(folder);
    assert.ok(files.length > 0);
    for (const file of files) {
      for (const target of relativeImports(file)) {
        const layer = target.split('/')[0] as string;
        assert.ok(layer === folder || allowed.includes(layer), `${file} imports ${target}`);
      }
    }
  });
}

test('no product file lists folders with an option of Node that enters links: `storage/files/list-tree.ts` enters none', () => {
  for (const file of ['protocol', 'storage', 'workers', 'supervisor', 'cli'].flatMap(sources)) {
    const text = readFileSync(join(root, file), 'utf8');
    assert.doesNotMatch(text, /readdir(?:Sync)?\([^;]*?recursive: true/, file);
  }
});

test('no files import each other in a circle, types included', () => {
  const files = Object.keys(MAY_IMPORT).flatMap(sources);
  const imports = new Map(files.map((file) => [file, relativeImports(file)]));
  const done = new Set<string>();
  const follow = (file: string, way: string[]): void => {
    assert.ok(!way.includes(file), [...way.slice(way.indexOf(file)), file].join(' → '));
    if (done.has(file)) return;
    for (const target of imports.get(file) ?? []) follow(target, [...way, file]);
    done.add(file);
  };
  for (const file of files) follow(file, []);
});

test('only storage/sqlite.ts loads SQLite, because it chooses the binding', () => {
  for (const file of Object.keys(MAY_IMPORT).flatMap(sources)) {
    const text = readFileSync(join(root, file), 'utf8');
    assert.doesNotMatch(text, /import (?!type )[^;]*'better-sqlite3|import\('better-sqlite3/, file);
  }
});

/** Where people write: no packages, and nothing that a build or a run makes. */
function written(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return MADE.test(entry.name) ? [] : written(path);
    return /\.(?:[cm]?[jt]sx?|css|html|md|sh|c)$/.test(entry.name) ? [path] : [];
  });
}
const MADE = /^(?:\..*|node_modules|dist|dist-tests|packed|release|results|site)$/;

/** The comments of a source, each in one line; a document as a whole. */
function commentsOf(file: string): string[] {
  const text = readFileSync(join(root, file), 'utf8');
  const comments = file.endsWith('.md')
    ? [text]
    : (text.match(/\/\*[\s\S]*?\*\/|(?<!\S)\/\/.*(?:\n\s*\/\/.*)*/g) ?? []);
  return comments.map((comment) => comment.replace(/\s*\n\s*(?:\*|\/\/)?\s*/g, ' '));
}

/** The titles of a document, without their numbers; none of a document that is not there. */
function titlesOf(document: string): string[] {
  const path = join(root, document);
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  return [...text.matchAll(/^#{2,} (?:[\d.]+ )?(.+)$/gm)].map(([, title = '']) => title);
}

const SPECIFICATION = 'docs/specification.md';
/** As `specification, "Runs" and "Schedules"`, or with the path of a document in place of the first word. */
const CITATION = /\b(specification|docs\/[\w-]+\.md), ("[^"]+"(?:(?:, | and )"[^"]+")*)/g;
/** A place that no title names, which is one of another text. RFCs have numbers of their own. */
const ELSEWHERE = [
  /(?<!\bRFC \d{3,5}, )\bsections? \d.{0,20}/gi,
  /\b(?:architecture|decisions?|design|specification), (?!")(?:items? )?[\d`].{0,20}/gi,
  /\((?!specification\b)[a-z][a-z -]*, "[A-Z][^"]*"/g,
  /\bthe specification\b(?! of ).{0,20}/gi,
];

/** What a comment cites that is not there, or is another text. */
function deadIn(comment: string): string[] {
  const missing = [...comment.matchAll(CITATION)].filter(([, text = '', cited = '']) => {
    const titles = titlesOf(text === 'specification' ? SPECIFICATION : text);
    return [...cited.matchAll(/"([^"]+)"/g)].some(([, title = '']) => !titles.includes(title));
  });
  return [...missing, ...ELSEWHERE.flatMap((place) => [...comment.matchAll(place)])].map(([words]) => words);
}

test('comments cite titles of docs/specification.md, or of another document by its path, that are there', () => {
  const titles = titlesOf(SPECIFICATION);
  assert.deepEqual([...new Set(titles)], titles, 'each title is there once');
  const dead = written('.').flatMap((file) =>
    commentsOf(file)
      .flatMap(deadIn)
      .map((words) => `${file}: ${words}`),
  );
  assert.deepEqual(dead, []);
});
