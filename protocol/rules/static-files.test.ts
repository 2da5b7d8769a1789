import assert from 'node:assert/strict';
import { test } from 'node:test';
import { staticType } from './static-files.ts';

const served: [path: string, type: string][] = [
  ['index.html', 'text/html; charset=utf-8'],
  ['assets/Logo.SVG', 'image/svg+xml'],
  ['lib/chunk.min.mjs', 'text/javascript; charset=utf-8'],
  ['lib/actions/menu.js', 'text/javascript; charset=utf-8'],
  ['data.json', 'application/json; charset=utf-8'],
  ['manifest.webmanifest', 'application/manifest+json'],
  ['queries.js', 'text/javascript; charset=utf-8'],
];
const refused = [
  'app.json',
  'App.JSON',
  'sub/app.json',
  '_registry.json',
  'data.sqlite',
  'queries/list.js',
  'Actions/add.js',
  'migrations/0001_init.sql',
  'automations/daily/automation.json',
  '.env.json',
  'a/.git/config.json',
  '../index.html',
  'a/../index.html',
  'a//index.html',
  '/index.html',
  'a\\index.html',
  'index.html\0.js',
  'notes.md',
  'tests/app.test.js',
  'lib/Dates.TEST.js',
  'program.exe',
  'LICENSE',
  'js',
  'x.__proto__',
  '',
];

test('files are served by extension', () => {
  for (const [path, type] of served) assert.equal(staticType(path), type, path);
});

test('reserved, hidden, unsafe and unlisted names are not served', () => {
  for (const path of refused) assert.equal(staticType(path), undefined, path);
});
