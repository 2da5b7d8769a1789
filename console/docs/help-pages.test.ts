/** The documents that views link to are there, and have the parts that are named. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../../testing/gateway.ts';
import { APP_VIEWS } from '../app/views.ts';
import { anchorOf, DOCUMENTS, helpAbout } from './help-pages.ts';

const textOf = (name: string) => readFileSync(join(root, /^[A-Z]+$/.test(name) ? '' : 'docs', `${name}.md`), 'utf8');

test('each document of the list is there', () => {
  for (const [name] of DOCUMENTS) assert.match(textOf(name), /^# /, name);
});

test('each view leads to a document, and to a part that it has', () => {
  const places = ['', 'automations', 'runs', 'system', 'system/insights', 'system/backups', 'system/trash'];
  const views = [...places, ...APP_VIEWS.map(({ id }) => `apps/todos/${id}`)];
  const found = views.map((view) => helpAbout({ parts: view.split('/'), query: new URLSearchParams() }));
  assert.ok(new Set(found).size > 8);
  for (const href of found) {
    const [, name = '', part] = /^#\/docs\/([A-Za-z-]+)(?:\?part=(.+))?$/.exec(href) ?? [];
    const headings = [...textOf(name).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => anchorOf(heading));
    assert.ok(part === undefined || headings.includes(part), href);
  }
});
