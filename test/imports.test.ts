// The layers of docs/architecture.md: imports point one way, and workers and supervisor never meet.
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
