import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Knob } from '../../protocol/manifest.ts';
import type { PlaceKind } from '../http/access/places.ts';
import { webManifest } from './web-manifest.ts';

const DRAWN = ['icon-192.png', 'icon-512.png', 'icon-maskable-512.png', 'apple-touch-icon.png'];
const ACCENT: Knob = {
  key: 'appAccent',
  label: 'Accent',
  type: 'swatch',
  default: '#0a7',
  options: [{ label: 'Green', value: '#0a7' }],
};

type Given = { files?: string[]; knobs?: Knob[]; settings?: Record<string, unknown>; kind?: PlaceKind };

function made({ files = DRAWN, knobs = [], settings = {}, kind = 'page' }: Given = {}): Record<string, unknown> {
  const version = { name: 'Notes "1"', knobs };
  return JSON.parse(webManifest({ version, settings, place: { kind }, serves: (path) => files.includes(path) }));
}

test('an origin of one page is the app, elsewhere its folder is', () => {
  assert.deepEqual(made(), {
    name: 'Notes "1"',
    start_url: '/',
    scope: '/',
    display: 'standalone',
    icons: [
      { src: 'icon-192.png', sizes: '192x192', type: 'image/png', purpose: 'any' },
      { src: 'icon-512.png', sizes: '512x512', type: 'image/png', purpose: 'any' },
      { src: 'icon-maskable-512.png', sizes: '512x512', type: 'image/png', purpose: 'maskable' },
    ],
  });
  for (const kind of ['shared', 'embedded', 'loopback'] as const) {
    // An id would be relative to the origin, which is that of all apps here: the address of the start is the app's.
    const { id, start_url, scope } = made({ kind });
    assert.deepEqual([id, start_url, scope], [undefined, './', './'], kind);
  }
});

test('its colour is the accent that is stored, else the default one', () => {
  const knobs = [ACCENT];
  assert.equal(made({ knobs }).theme_color, '#0a7');
  for (const colour of ['#B22222', 'rebeccapurple', 'oklch(62% 0.2 30)', 'rgb(1, 2, 3)'])
    assert.equal(made({ knobs, settings: { appAccent: colour } }).theme_color, colour);
  for (const other of ['', 'var(--x', '#12', 'a b', 'red; x', `x(${'1'.repeat(100)})`, 7, null, ['red']])
    assert.equal(made({ settings: { appAccent: other } }).theme_color, undefined, String(other));
});

test('where nothing is drawn, its icon is the SVG of the app', () => {
  assert.deepEqual(made({ files: [] }).icons, [{ src: 'icon.svg', sizes: 'any', type: 'image/svg+xml' }]);
});
