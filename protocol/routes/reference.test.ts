/** The pages of the HTTP reference: written from the rows as they are, with examples that are true to their shapes. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Shape } from '../shapes/shape.ts';
import { fileOf, pageOf } from './reference.ts';
import { RESOURCES } from './resources.ts';

const docs = join(import.meta.dirname, '../../docs');

for (const resource of RESOURCES) {
  test(`docs/${fileOf(resource)} is what "npm run reference" writes`, () => {
    assert.equal(readFileSync(join(docs, fileOf(resource)), 'utf8'), pageOf(resource));
  });

  for (const { method, path, title, answer, example } of resource.rows)
    test(`${method} ${path}: the answer is described, and its example is true`, () => {
      assert.equal(example !== undefined, answer.json !== undefined, 'an answer with JSON has an example');
      if (answer.json !== undefined) assert.equal(new Shape(answer.json).fault(example), null);
      assert.match(title, /^[A-Z]/);
    });

  test(`${resource.name}: no two routes have one title`, () => {
    const titles = resource.rows.map(({ title }) => title);
    assert.deepEqual(titles, [...new Set(titles)]);
  });
}
