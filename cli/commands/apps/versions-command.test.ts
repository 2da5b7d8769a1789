import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startGateway, TOKEN } from '../../../testing/command-line.ts';
import { Client } from '../../gateway/client.ts';
import { createStyle } from '../../terminal/style.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { drawWarnings, findVersion, shortVersion } from './versions-command.ts';

const STORES: [app: string, versionIds: string[], shortened: string[]][] = [
  ['notes', ['v_20260101T000000000Z_aaaaaa', 'v_20260102T000000000Z_000001'], ['aaaaaa', '000001']],
  ['est', ['est/v1', 'est/v12'], ['v1', 'v12']],
  ['my_app', ['my_app/v3', 'my_app/v123456'], ['v3', 'v123456']],
];

for (const [app, versionIds, shortened] of STORES) {
  test(`the short forms of ${versionIds.join(' and ')} are found again`, async (t) => {
    const gateway = await startGateway(t, {
      [`GET /svc/_apps/${app}/versions?limit=500`]: { json: versionIds.map((versionId) => ({ versionId })) },
    });
    const client = new Client({ url: gateway.url, urlFrom: 'here', token: TOKEN, tokenFrom: 'here' });
    assert.deepEqual(versionIds.map(shortVersion), shortened);
    const found = await Promise.all(shortened.map((typed) => findVersion(client, app, typed)));
    assert.deepEqual(found, versionIds);
  });
}

test('each warning has its place as far as it is known, and only handlers are refused elsewhere', () => {
  const icon = { path: 'icon.svg', message: 'It cannot be drawn.', keyword: 'icon' };
  const handler = { path: 'queries/list.js', line: 3, column: 11, message: 'Use ctx.now.', keyword: 'date-now' };
  const drawn = (warnings: Parameters<typeof drawWarnings>[1]) => {
    const lines: string[] = [];
    drawWarnings({ style: createStyle(false), line: (text: string) => void lines.push(text) } as Terminal, warnings);
    return lines;
  };
  assert.deepEqual(drawn([]), []);
  assert.deepEqual(drawn([icon]), ['! icon.svg It cannot be drawn. (icon)']);
  const [first, second, last, ...others] = drawn([icon, handler]);
  assert.deepEqual(
    [first, second],
    ['! icon.svg It cannot be drawn. (icon)', '! queries/list.js:3:11 Use ctx.now. (date-now)'],
  );
  assert.match(last ?? '', /Publishing on a git store refuses such handlers/);
  assert.deepEqual(others, []);
});
