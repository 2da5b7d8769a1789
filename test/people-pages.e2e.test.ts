/** What a person sees in a browser where a program gets an error: a page with words and a way on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { onEachEdge } from '../testing/edges.ts';
import type { Answer } from '../testing/gateway.ts';
import { consoleHost, enter, Origin, signIn } from '../testing/origins.ts';

/** A page that says these, begins no script, and carries the policy of pages. */
function isPage(answer: Answer, status: number, ...said: (string | RegExp)[]): void {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.headers['content-type'], 'text/html; charset=utf-8');
  assert.match(String(answer.headers['content-security-policy']), /default-src 'self'.*frame-ancestors/);
  assert.equal(answer.headers['cache-control'], 'no-store');
  assert.doesNotMatch(answer.text, /<script/);
  assert.match(answer.text, /<link rel="icon"/);
  for (const text of said) assert.match(answer.text, new RegExp(text));
}

onEachEdge({}, (gateway) => {
  test('an unknown app, a missing file, a wrong address: words, and links that lead on', async () => {
    await gateway.upload('notes', appOf('notes', { files: { 'index.html': '<!doctype html><title>Notes</title>' } }));
    const console = await signIn(gateway);
    const all = `href="http://${consoleHost(gateway)}/svc/"`;
    const notes = await enter(gateway, console, { app: 'notes' });
    isPage(await notes.visit('/missing.html'), 404, 'There is nothing at this address', 'href="/"', all, 'NOT_FOUND');
    isPage(await notes.visit('/missing'), 404, 'There is nothing', all);
    isPage(await console.visit('/nope'), 404, 'There is nothing', all);
    const none = await enter(gateway, console, { app: 'nope' });
    isPage(await none.visit('/'), 404, 'There is no such app', 'No app .*nope', all, 'UNKNOWN_APP');
    isPage(await console.visit('/svc/_apps?limit=x'), 400, 'This did not work', 'BAD_REQUEST', all);
  });

  test('programs, scripts and images get the error as JSON, as before', async () => {
    const console = await signIn(gateway);
    const notes = await enter(gateway, console, { app: 'notes' });
    for (const headers of [{}, { 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image', accept: 'text/html' }])
      assert.equal((await notes.call('GET', '/missing.png', { headers })).json.error.code, 'NOT_FOUND');
    assert.equal((await gateway.call('GET', '/svc/nope/')).json.error.code, 'UNKNOWN_APP');
  });

  test('who is signed out is shown where to sign in; a foreign name is repeated as text', async () => {
    const stranger = new Origin(gateway, consoleHost(gateway), '');
    isPage(await stranger.visit('/svc/_apps'), 401, 'You are signed out', '>Sign in</a>', 'svc open');
    const foreign = new Origin(gateway, 'evil.example', '');
    isPage(await foreign.visit('/'), 421, 'does not lead here', '&#34;evil\\.example&#34;', 'allowedHosts');
  });
});
