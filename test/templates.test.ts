/** In the pages of templates and examples, what is hidden is not shown. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

/** A rule that wins over those that lay out an element by its id or class. */
const HIDES = /^\[hidden\](?: \{\n {2}display: none !important;|:not\(#shown\) \{\n {2}display: none;)/m;

const folders = ['dist/templates', 'examples'].flatMap((all) => readdirSync(all).map((name) => join(all, name)));
const pages = folders.flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)));
for (const page of pages.filter((path) => path.endsWith('.html'))) {
  test(`${page}: an element with the attribute hidden is hidden, whatever its display`, () => {
    const sheets = [...readFileSync(page, 'utf8').matchAll(/<link rel="stylesheet" href="([^"]+)"/g)];
    assert.ok(sheets.some(([, sheet = '']) => HIDES.test(readFileSync(join(dirname(page), sheet), 'utf8'))));
  });
}
