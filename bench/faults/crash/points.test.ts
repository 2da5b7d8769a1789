import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../../../testing/gateway.ts';
import { OPERATIONS } from './operations.ts';
import { FILES, POINTS, pointsTable } from './points.ts';

const FOLDERS = ['protocol', 'storage', 'workers', 'supervisor', 'cli'];

function sources(): string[] {
  return FOLDERS.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
      .map((name) => readFileSync(join(root, folder, name), 'utf8')),
  );
}

test('every crash point in the sources is one that the campaign knows, and is there once', () => {
  const found = sources().flatMap((text) => [...text.matchAll(/crashPoint\('([^']+)'/g)].map((match) => match[1]));
  assert.deepEqual(found.sort(), Object.keys(POINTS).sort());
});

test('every point and every file is crashed in an operation that exists', () => {
  const names = OPERATIONS.map(({ name }) => name);
  for (const [point, row] of Object.entries(POINTS)) assert.ok(names.includes(row.in), `${point} is in "${row.in}"`);
  for (const [file, operation] of Object.entries(FILES))
    assert.ok(names.includes(operation), `${file}: "${operation}"`);
});

test('points.md has the table of the points', () => {
  const text = readFileSync(join(root, 'bench/faults/crash/points.md'), 'utf8');
  assert.ok(text.includes(pointsTable()), `It should be:\n${pointsTable()}`);
});
