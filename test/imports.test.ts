// The layers of docs/architecture.md: imports point one way, workers and supervisor never meet, and no files import each other in a circle.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
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
