import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { temporaryFolder } from '../testing/command-line.ts';
import { forwardingPage, openBrowser } from './browser.ts';

const LINK = 'http://svc.localhost:8787/svc/#link=abc&open=todos';

test('a browser is started with a file that nobody else may read, which has the link', {
  timeout: 60_000,
}, async (t) => {
  const folder = temporaryFolder(t);
  const [commands, temporary, heard] = ['bin', 'tmp', 'heard'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  for (const made of [commands, temporary]) mkdirSync(made);
  writeFileSync(
    join(commands, 'xdg-open'),
    `#!/bin/sh\nprintf %s "$*" > '${heard}.new' && mv '${heard}.new' '${heard}'\n`,
  );
  chmodSync(join(commands, 'xdg-open'), 0o755);
  const { PATH, TMPDIR } = process.env;
  t.after(() => Object.assign(process.env, { PATH, TMPDIR: TMPDIR ?? '/tmp' }));
  Object.assign(process.env, { PATH: `${commands}:${PATH}`, TMPDIR: temporary });
  openBrowser(LINK, 'linux');
  while (!existsSync(heard)) await sleep(10);
  const file = readFileSync(heard, 'utf8');
  assert.equal(dirname(dirname(file)), temporary);
  assert.deepEqual([statSync(dirname(file)).mode & 0o777, statSync(file).mode & 0o777], [0o700, 0o600]);
  assert.equal(readFileSync(file, 'utf8'), forwardingPage(LINK));
  process.emit('exit', 0);
  assert.deepEqual(readdirSync(temporary), [], 'it goes with the process');
});

test('an address cannot leave the place that it has in the page', () => {
  const page = forwardingPage('http://x/#"</script><script>alert(1)</script>&amp;<b>');
  assert.equal(page.match(/<script>/g)?.length, 1);
  assert.ok(
    page.includes(
      'location.replace("http://x/#\\"\\u003c/script>\\u003cscript>alert(1)\\u003c/script>&amp;\\u003cb>")',
    ),
    page,
  );
  assert.ok(page.includes('href="http://x/#&quot;&lt;/script>&lt;script>alert(1)&lt;/script>&amp;amp;&lt;b>"'), page);
});
