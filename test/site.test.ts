/** The website: built from the documents, each link and anchor of it followed, a broken one refused. */
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { BrokenLinks, buildSite } from '../scripts/site/build.ts';
import { root } from '../testing/gateway.ts';

const README = `# svc-gateway

It hosts apps.

![A page](docs/page.png)

## Run it

In a clone:

\`\`\`sh
npm ci
\`\`\`

## What you get

- **Apps.** Many.

## Next

See [the guide](docs/guide.md#how).

| For | Read |
|---|---|
| using apps | [the guide](docs/guide.md) |
| working on it | [more](MORE.md) |
`;

/** A small clone with these files besides a README; without them, all links are valid. */
function clone(t: { after(remove: () => void): void }, files: Record<string, string> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-site-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'docs'));
  cpSync(join(root, 'docs/screenshot-todos.png'), join(folder, 'docs/page.png'));
  const all = {
    'README.md': README,
    'MORE.md': '# More\n\nAnd [back](README.md#run-it).\n',
    'package.json': '{ "version": "1.2.3" }',
    'docs/guide.md': '# The guide\n\n## How\n\nLike <this>.\n\n## How\n\nAnd [again](#how-1).\n',
    ...files,
  };
  for (const [name, text] of Object.entries(all)) writeFileSync(join(folder, name), text);
  return folder;
}

async function problemsOf(folder: string): Promise<string[]> {
  try {
    await buildSite(folder, join(folder, 'site'));
  } catch (error) {
    if (error instanceof BrokenLinks) return error.problems;
    throw error;
  }
  return [];
}

describe('the site of this repository', () => {
  const out = mkdtempSync(join(tmpdir(), 'svc-site-'));
  const pages = new Map<string, string>();
  before(async () => {
    await buildSite(root, out);
    for (const name of readdirSync(out).filter((one) => one.endsWith('.html'))) {
      pages.set(name, readFileSync(join(out, name), 'utf8'));
    }
  });
  after(() => rmSync(out, { recursive: true, force: true }));

  test('has a page for each document', () => {
    for (const name of readdirSync(join(root, 'docs')).filter((one) => one.endsWith('.md'))) {
      assert.ok(pages.has(name.replace(/\.md$/, '.html')), name);
    }
    for (const name of ['index.html', 'start.html', 'security.html', 'changelog.html', 'templates.html']) {
      assert.ok(pages.has(name), name);
    }
  });

  test('each of its links leads to an existing page and id', () => {
    let followed = 0;
    for (const [name, html] of pages) {
      for (const [, href = ''] of html.matchAll(/ (?:href|src|srcset)="([^"]+)"/g)) {
        if (/^https?:/.test(href)) continue;
        const [file = '', anchor] = href.split('#');
        assert.ok(file === '' || existsSync(join(out, file)), `${name}: ${href}`);
        const target = pages.get(file || name);
        if (anchor !== undefined) assert.ok(target?.includes(` id="${anchor}"`), `${name}: ${href}`);
        followed += 1;
      }
    }
    assert.ok(followed > 1000);
  });

  test('no id occurs twice, nothing is inline, and only links name other sites', () => {
    for (const [name, html] of pages) {
      const ids = [...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
      assert.deepEqual(
        ids.filter((id, i) => ids.indexOf(id) !== i),
        [],
        name,
      );
      assert.doesNotMatch(html, /<style|<script>| style="| on[a-z]+="/, name);
      assert.doesNotMatch(html, /(?:src|srcset)="https?:|<link[^>]*https?:/, name);
    }
  });

  test('every page has a unique title and description', () => {
    const titles = [...pages.values()].map((html) => /<title>(.*)<\/title>/.exec(html)?.[1] ?? '');
    assert.equal(new Set(titles).size, pages.size);
    for (const [name, html] of pages) assert.match(html, /<meta name="description" content="[^"]{10,}"/, name);
  });
});

test('a link to a missing file fails the build, and every such link is named', async (t) => {
  const folder = clone(t, { 'MORE.md': '# More\n\nTo [nowhere](docs/nowhere.md) and [elsewhere](elsewhere.md).\n' });
  assert.deepEqual(await problemsOf(folder), [
    'MORE.md: the link docs/nowhere.md leads nowhere',
    'MORE.md: the link elsewhere.md leads nowhere',
  ]);
});

test('a missing anchor fails the build', async (t) => {
  const folder = clone(t, { 'MORE.md': '# More\n\nTo [a heading](docs/guide.md#why) and [one here](#none).\n' });
  assert.deepEqual(await problemsOf(folder), [
    'MORE.md: the link docs/guide.md#why names a heading that docs/guide.md does not have',
    'MORE.md: the link #none names a heading that MORE.md does not have',
  ]);
});

test('a missing image, and a document without a title, fail the build', async (t) => {
  const folder = clone(t, { 'MORE.md': 'More\n\n![It](it.png)\n' });
  assert.deepEqual(await problemsOf(folder), [
    'MORE.md: the image it.png does not exist',
    'MORE.md: it does not begin with a heading of the first level',
  ]);
});

test('a document that the table does not name comes last, and what looks like HTML is text', async (t) => {
  const folder = clone(t, { 'docs/other.md': '# Another one\n\nText.\n' });
  assert.deepEqual(await problemsOf(folder), []);
  const page = readFileSync(join(folder, 'site/guide.html'), 'utf8');
  const labels = [...page.matchAll(/<li><a href="(\w+\.html)"[^>]*>/g)].map(([, href]) => href);
  assert.deepEqual(labels, ['start.html', 'guide.html', 'more.html', 'other.html']);
  assert.match(page, /Like &lt;this&gt;\./);
  assert.match(page, /<a rel="prev" href="start.html">.*\n<a rel="next" href="more.html">/);
});

test('a link to a file that is not a document leads to a page that shows it, a link to a folder to its files', async (t) => {
  const folder = clone(t, { 'MORE.md': '# More\n\nThe [settings](config/a.json), or [all](config).\n' });
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, 'config/a.json'), '{ "a": "<b>" }\n');
  assert.deepEqual(await problemsOf(folder), []);
  assert.match(
    readFileSync(join(folder, 'site/more.html'), 'utf8'),
    /href="config-a\.json\.html".*href="config\.html"/,
  );
  assert.match(readFileSync(join(folder, 'site/config.html'), 'utf8'), /<a href="config-a\.json\.html">a\.json<\/a>/);
  assert.match(readFileSync(join(folder, 'site/config-a.json.html'), 'utf8'), /&quot;&lt;b&gt;&quot;/);
});

test('a README without its first part is refused', async (t) => {
  const folder = clone(t, { 'README.md': README.replace('## What you get', '## Why') });
  await assert.rejects(problemsOf(folder), /README\.md has to begin with/);
});
