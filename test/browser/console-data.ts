/** The console's Data of an app, driven in a browser: tables of any size, cells, rows and SQL. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { appOf } from '../../testing/apps.ts';
import { assertAccessible, openView } from '../../testing/console.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { inTime } from '../../testing/waiting.ts';
import { withoutChromium } from './chromium.ts';
import { consoleSuite } from './console-suite.ts';

const ROWS = 100_000;

const LEDGER = appOf('ledger', {
  manifest: { name: 'Ledger' },
  files: {
    'migrations/0001_init.sql': `
      CREATE TABLE entries (id INTEGER PRIMARY KEY, note TEXT NOT NULL, cents INTEGER, proof BLOB) STRICT;
      CREATE TABLE pairs (a TEXT, b TEXT, value REAL, PRIMARY KEY (a, b)) WITHOUT ROWID;
      CREATE VIEW totals AS SELECT count(*) AS entries, sum(cents) AS cents FROM entries;
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ROWS})
        INSERT INTO entries SELECT i, 'Entry ' || i, i * 10, CASE WHEN i = 1 THEN x'0102' END FROM n;
      INSERT INTO pairs VALUES ('x', 'y', 1.5);
      CREATE TABLE visits (id INTEGER PRIMARY KEY, name TEXT, rate REAL, created_at INTEGER, size INTEGER);
      INSERT INTO visits VALUES
        (1, '=1+2, "quoted"', 0.1 + 0.2, 1764336725123, 1764336725123), (2, '', 1e-7, NULL, -5), (3, NULL, 2, 0, 0);`,
  },
});

export function dataSuite(gateway: TestGateway): void {
  describe('data of an app in the console', { skip: withoutChromium() }, () => {
    const suite = consoleSuite(
      gateway,
      { viewport: { width: 1280, height: 900 }, colorScheme: 'light' },
      { apps: { ledger: LEDGER }, reloads: true },
    );
    const open = (view: string) => suite.open(`/apps/ledger/data${view}`);
    const sql = async (text: string, params: unknown[] = []) =>
      (await suite.gateway.call('POST', '/svc/_apps/ledger/sql', { body: { sql: text, params } })).json;
    /** One that is not being edited. */
    const cell = (page: Page, text: string) =>
      page.getByRole('cell', { name: text, exact: true }).and(page.locator('.cell'));

    test('a hundred thousand rows are scrolled, sorted and filtered', async () => {
      const page = await open('?table=entries');
      await page.getByRole('status').filter({ hasText: '100,000 rows' }).waitFor();
      await cell(page, 'Entry 1').waitFor();
      await cell(page, 'blob').waitFor();
      assert.ok((await page.getByRole('row').count()) < 100, 'only visible rows are drawn');
      await page.getByRole('table').evaluate((grid) => {
        grid.scrollTop = grid.scrollHeight;
      });
      await cell(page, `Entry ${ROWS}`).waitFor();
      await page.getByRole('button', { name: /^id/ }).click();
      await page.getByRole('columnheader', { name: /^id/ }).and(page.locator('[aria-sort=ascending]')).waitFor();
      await page.getByRole('button', { name: /^id/ }).click();
      await cell(page, `Entry ${ROWS}`).waitFor();
      await page.getByLabel('Column').selectOption('note');
      await page.getByLabel('Value').fill('entry 4242');
      await page.getByRole('button', { name: 'Filter', exact: true }).click();
      await page.getByRole('status').filter({ hasText: '11 rows' }).waitFor();
      await cell(page, 'Entry 42429').waitFor();
      await page.reload();
      await page.getByRole('status').filter({ hasText: '11 rows' }).waitFor();
      for (const [colorScheme, width] of [
        ['light', 1280],
        ['dark', 1280],
        ['light', 390],
      ] as const) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 900 });
        await assertAccessible(page);
      }
      await page.getByRole('button', { name: 'Remove the filter note contains entry 4242' }).click();
      await page.getByRole('status').filter({ hasText: '100,000 rows' }).waitFor();
      assert.deepEqual(suite.complaints, []);
    });

    test('a cell is edited by keyboard, and does not overwrite a change by somebody else', async () => {
      const page = await open('?table=entries&where=id~%3D~7');
      await cell(page, 'Entry 7').press('Enter');
      await page.getByRole('textbox', { name: 'note' }).fill('Seven');
      await page.keyboard.press('Enter');
      await cell(page, 'Seven').waitFor();
      assert.deepEqual((await sql('SELECT note FROM entries WHERE id = 7')).rows, [['Seven']]);
      await cell(page, '70').press('Enter');
      await page.getByRole('button', { name: 'Null' }).click();
      await cell(page, 'null').nth(1).waitFor();
      assert.deepEqual((await sql('SELECT cents FROM entries WHERE id = 7')).rows, [[null]]);
      await sql("UPDATE entries SET note = 'Theirs' WHERE id = 7");
      await cell(page, 'Seven').dblclick();
      await page.getByRole('textbox', { name: 'note' }).fill('Mine');
      await page.keyboard.press('Enter');
      await page.getByText('This row has changed meanwhile').waitFor();
      await page.keyboard.press('Escape');
      assert.deepEqual((await sql('SELECT note FROM entries WHERE id = 7')).rows, [['Theirs']]);
      await page.getByRole('button', { name: 'Reload' }).click();
      await cell(page, 'Theirs').waitFor();
      assert.deepEqual(suite.complaints, []);
    });

    test('a text of several lines keeps its lines, and typed text is there after its row was out of sight', async () => {
      await sql('UPDATE entries SET note = ? WHERE id = 8', ['one\r\ntwo']);
      await sql('UPDATE entries SET note = ? WHERE id = 9', ['one\ntwo']);
      const page = await open('?table=entries');
      const note = page.getByRole('textbox', { name: 'note' });
      for (const row of [8, 9]) {
        await page
          .getByRole('row', { name: String(row) })
          .getByRole('cell')
          .nth(2)
          .press('Enter');
        await note.press('Shift+Enter');
        await note.pressSequentially('three');
        await note.press('Enter');
        await note.waitFor({ state: 'detached' });
        // The keyboard continues from there.
        await page.locator('.cell:focus', { hasText: 'three' }).waitFor();
      }
      assert.deepEqual((await sql('SELECT note FROM entries WHERE id IN (8, 9) ORDER BY id')).rows, [
        ['one\r\ntwo\r\nthree'],
        ['one\ntwo\nthree'],
      ]);
      await cell(page, 'Entry 2').press('Enter');
      await note.fill('begun');
      const grid = page.getByRole('table');
      await grid.evaluate((element) => element.scrollTo(0, element.scrollHeight));
      await cell(page, `Entry ${ROWS}`).waitFor();
      await grid.evaluate((element) => element.scrollTo(0, 0));
      await cell(page, 'Entry 3').waitFor();
      assert.equal(await note.inputValue(), 'begun');
      await note.press('Enter');
      await cell(page, 'begun').waitFor();
      assert.deepEqual(suite.complaints, []);
    });

    test('typed text of a row stays when the edit of another one ends twice while its write is under way', async () => {
      const page = await open('?table=entries&where=id~%3C~5000');
      const note = page.getByRole('textbox', { name: 'note' });
      await cell(page, 'Entry 10').press('Enter');
      await note.fill('not sent yet');
      await cell(page, 'Entry 11').press('Enter');
      await note.nth(1).fill('Eleven');
      let release = (): void => {};
      const released = new Promise<void>((resolve) => {
        release = resolve;
      });
      const sent = page.waitForRequest('**/svc/_apps/ledger/sql');
      await page.route('**/svc/_apps/ledger/sql', (route) => released.then(() => route.continue()), { times: 1 });
      await note.nth(1).press('Enter');
      await sent;
      // In one turn: the second comes before the field is gone.
      await page.evaluate(`for (let n = 0; n < 2; n++)
        document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }))`);
      await cell(page, 'Entry 11').press('Enter');
      await note.nth(1).fill('begun anew');
      const written = page.waitForResponse('**/svc/_apps/ledger/sql');
      release();
      await written;
      assert.deepEqual((await sql('SELECT note FROM entries WHERE id = 11')).rows, [['Eleven']]);
      const grid = page.getByRole('table');
      await grid.evaluate((element) => element.scrollTo(0, element.scrollHeight));
      await cell(page, 'Entry 4999').waitFor();
      await grid.evaluate((element) => element.scrollTo(0, 0));
      await cell(page, 'Entry 12').waitFor();
      assert.equal(await note.count(), 2);
      assert.deepEqual(
        [await note.nth(0).inputValue(), await note.nth(1).inputValue()],
        ['not sent yet', 'begun anew'],
      );
      assert.deepEqual(suite.complaints, []);
    });

    test('rows are added and deleted, also in a table without rowid; a refusal shows in the form', async () => {
      const page = await open('?table=pairs');
      await cell(page, '1.5').waitFor();
      await page.getByRole('button', { name: 'Add row' }).click();
      const dialog = page.getByRole('dialog', { name: 'Add a row to pairs' });
      const [a, b, value] = [0, 1, 2].map((at) => dialog.getByRole('textbox').nth(at));
      await a!.fill('x');
      await b!.fill('y');
      await dialog.getByRole('button', { name: 'Add row' }).click();
      await dialog.getByRole('alert').filter({ hasText: 'UNIQUE' }).waitFor();
      await b!.fill('z');
      await value!.fill('2');
      await dialog.getByRole('button', { name: 'Add row' }).click();
      await page.getByRole('status').filter({ hasText: '2 rows' }).waitFor();
      await page.getByRole('checkbox', { name: 'Select row 1' }).check();
      await page.getByRole('button', { name: 'Delete 1 row' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await page
        .getByRole('status')
        .filter({ hasText: /^1 row$/ })
        .waitFor();
      assert.deepEqual((await sql('SELECT a, b, value FROM pairs')).rows, [['x', 'z', 2]]);
    });

    test('numbers and times are shown as they are read, columns keep their widths, and rows are saved as CSV', async () => {
      const page = await open('?table=visits');
      const fraction = cell(page, '0.30000000000000004');
      await fraction.waitFor();
      await cell(page, '1e-7').waitFor();
      assert.equal(
        await fraction.evaluate((at) => at.ownerDocument.defaultView?.getComputedStyle(at).textAlign),
        'right',
      );
      for (const head of ['id integer key', 'name text', 'rate real', 'created_at integer'])
        await page.getByRole('columnheader', { name: head }).waitFor();
      // Only one of the two columns is called like a time.
      const exact = cell(page, '1764336725123');
      assert.equal(await exact.count(), 1);
      const time = page.locator('.cell.time');
      assert.match(await time.innerText(), /2025/);
      assert.equal(await time.getAttribute('title'), '1764336725123 (2025-11-28T13:32:05.123Z)');
      await time.focus();
      await exact.nth(1).waitFor();

      const head = page.getByRole('columnheader', { name: /^name/ });
      const edge = page.getByRole('slider', { name: 'Width of name' });
      const width = async () => Math.round((await head.boundingBox())?.width ?? 0);
      const before = await width();
      await edge.press('ArrowRight');
      assert.equal(await width(), before + 16);
      const box = await edge.boundingBox();
      await page.mouse.move(box!.x + 6, box!.y + 6);
      await page.mouse.down();
      await page.mouse.move(box!.x + 106, box!.y + 6);
      await page.mouse.up();
      assert.equal(await width(), before + 116);
      await page.reload();
      await fraction.waitFor();
      assert.equal(await width(), before + 116);
      await edge.dblclick();
      assert.equal(await width(), before);

      const saved = async () => {
        const [file] = await Promise.all([
          page.waitForEvent('download'),
          page.getByRole('button', { name: 'CSV' }).click(),
        ]);
        return { name: file.suggestedFilename(), lines: readFileSync(await file.path(), 'utf8').split('\r\n') };
      };
      assert.deepEqual(await saved(), {
        name: 'visits.csv',
        lines: [
          '\ufeffid,name,rate,created_at,size',
          `1,"'=1+2, ""quoted""",0.30000000000000004,1764336725123,1764336725123`,
          '2,"",1e-7,,-5',
          '3,,2,0,0',
          '',
        ],
      });
      // Of a table, with its filter and order.
      await openView(page, '/apps/ledger/data?table=entries&sort=id&desc=1&where=id~>~88000');
      await page.getByRole('status').filter({ hasText: '12,000 rows' }).waitFor();
      const { lines } = await saved();
      assert.deepEqual(
        [lines.length, lines[1]?.split(',')[0], lines.at(-2)?.split(',')[0]],
        [12_002, '100000', '88001'],
      );
      // A result has more rows in its file than it shows.
      await openView(page, '/apps/ledger/data?sql=1');
      const editor = page.getByRole('textbox', { name: 'SQL' });
      // Where all text is replaced at once, Chromium gives the new one the colour of the old.
      await editor.press('Control+a');
      await editor.press('Delete');
      await page.keyboard.insertText('SELECT entries.id, created_at FROM visits, entries LIMIT 300');
      await editor.press('Control+Enter');
      await page.getByText('only these are shown').waitFor();
      assert.equal((await saved()).lines.length, 302);
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        await assertAccessible(page);
      }
      assert.deepEqual(suite.complaints, []);
    });

    test('a view is shown but cannot be edited', async () => {
      const page = await open('?table=totals');
      await cell(page, String(ROWS)).waitFor();
      assert.equal(await page.getByRole('button', { name: 'Add row' }).count(), 0);
      assert.equal(await page.getByRole('checkbox').count(), 0);
    });

    test('typed SQL is there again after a visit to a table', async () => {
      const page = await open('?sql=1');
      const editor = page.getByRole('textbox', { name: 'SQL' });
      await editor.fill('SELECT 42 AS mine');
      await page.getByRole('button', { name: 'Run', exact: true }).click();
      await page.getByRole('columnheader', { name: 'mine' }).waitFor();
      await page.getByRole('link', { name: 'pairs', exact: true }).click();
      await page.getByRole('table', { name: 'Rows of pairs' }).waitFor();
      await page.goBack();
      await editor.filter({ hasText: 'SELECT 42 AS mine' }).waitFor();
      await page.getByLabel('Earlier statements').waitFor();
      assert.deepEqual(suite.complaints, []);
    });

    test('SQL can be typed fast, and an earlier statement can be recalled', async () => {
      const page = await open('?sql=1');
      const editor = page.getByRole('textbox', { name: 'SQL' });
      const typed = 'SELECT note FROM entries WHERE id = 6';
      await editor.fill('');
      await editor.click();
      await inTime(page.keyboard.type(typed), 'the keys that were typed');
      assert.equal(await editor.innerText(), typed);
      await page.getByRole('button', { name: 'Run' }).click();
      await page.getByRole('region', { name: 'Result' }).getByText('Entry 6').waitFor();
      await editor.fill('SELECT 1');
      await page.getByLabel('Earlier statements').selectOption(typed);
      await page.getByRole('button', { name: 'Run' }).click();
      await page.getByRole('region', { name: 'Result' }).getByText('Entry 6').waitFor();
      assert.equal(await editor.innerText(), typed);
    });

    test('SQL runs, is explained, and asks before it changes every row, after a copy of the data', async () => {
      const page = await open('?sql=1');
      const editor = page.getByRole('textbox', { name: 'SQL' });
      await editor.fill('SELECT note FROM entries WHERE id = 5');
      await editor.press('Control+Enter');
      await page.getByRole('region', { name: 'Result' }).getByText('Entry 5').waitFor();
      await page.getByRole('button', { name: 'Explain' }).click();
      await page
        .getByRole('list', { name: 'Plan' })
        .getByText(/SEARCH entries USING INTEGER PRIMARY KEY/)
        .waitFor();
      await editor.fill('INSERT INTO pairs VALUES (1, 2, 3)');
      await page.getByRole('button', { name: 'Explain' }).click();
      await page.getByText('this statement reads no table').waitFor();
      await editor.fill('SELEC 1');
      await page.getByRole('button', { name: 'Run' }).click();
      await page.getByRole('alert').filter({ hasText: 'syntax error' }).waitFor();
      await editor.fill('UPDATE pairs SET value = 9');
      await page.getByRole('button', { name: 'Run' }).click();
      const dialog = page.getByRole('dialog', { name: 'UPDATE without WHERE changes every row' });
      await dialog.waitFor();
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      assert.deepEqual((await sql('SELECT count(*) FROM pairs WHERE value = 9')).rows, [[0]]);
      await page.getByRole('button', { name: 'Run' }).click();
      await dialog.getByRole('button', { name: 'Copy the data, then run' }).click();
      await page.getByRole('status').filter({ hasText: '1 row changed' }).waitFor();
      assert.deepEqual((await sql('SELECT count(*) FROM pairs WHERE value = 9')).rows, [[1]]);
      assert.ok(readdirSync(join(suite.gateway.dataDir, 'apps/ledger/backups')).length > 0);
      await assertAccessible(page);
      assert.deepEqual(suite.complaints, [
        'Failed to load resource: the server responded with a status of 400 (Bad Request)',
      ]);
    });
  });
}
