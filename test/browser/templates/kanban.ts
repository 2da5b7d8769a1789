/** The template `kanban` as a person uses it, with mouse and keyboard, and its tools as programs call them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { accessibilityFaults } from '../../../testing/axe.ts';
import { eventually } from '../../../testing/edges.ts';
import { callEveryTool, openTemplate, type TemplateApp } from '../template-app.ts';

/** `To do: Paint, Sand | Doing: | Done:` as a window shows it. */
const SHOWN = `[...document.querySelectorAll('.column')].map((column) => column.querySelector('h2').textContent + ': ' +
  [...column.querySelectorAll('.ticket span')].map((title) => title.textContent).join(', ')).join(' | ')`;

/** Waits until the windows show it. */
async function shows(pages: Page[], text: string): Promise<void> {
  for (const page of pages) {
    let seen: unknown;
    await eventually(async () => {
      seen = await page.evaluate(SHOWN);
      return seen === text;
    }).catch(() => assert.equal(seen, text));
  }
}

/** The stored board, in the same form. */
async function stored(app: TemplateApp, id = 1): Promise<string> {
  const board = await app.read('board', { id });
  return board.columns
    .map((column: { name: string; cards: { title: string }[] }) => {
      return `${column.name}: ${column.cards.map(({ title }) => title).join(', ')}`;
    })
    .join(' | ');
}

export function suite(): void {
  test('cards move by mouse, keyboard and dialog, in two windows', async (t) => {
    const app = await openTemplate(t, 'kanban');
    const [here, there] = [await app.window(), await app.window()];
    const both = [here, there];
    await app.picture(here, 'empty');
    await here.getByLabel('Name of the board').fill('Moving house');
    await here.keyboard.press('Enter');
    await shows(both, 'To do:  | Doing:  | Done: ');

    await here.getByLabel('Add a card to To do').focus();
    for (const title of ['Pack books', 'Paint the walls', 'Call the movers']) {
      await here.keyboard.type(title);
      await here.keyboard.press('Enter');
      await there.getByRole('button', { name: title }).waitFor();
    }
    await shows(both, 'To do: Pack books, Paint the walls, Call the movers | Doing:  | Done: ');

    await here.getByRole('button', { name: 'Call the movers' }).focus();
    await here.keyboard.press('Shift+ArrowUp');
    await here.keyboard.press('Shift+ArrowUp');
    await here.keyboard.press('Shift+ArrowRight');
    await shows(both, 'To do: Pack books, Paint the walls | Doing: Call the movers | Done: ');
    assert.equal(await here.evaluate('document.activeElement.textContent'), 'Call the movers', 'the focus went along');
    await here.getByRole('status').filter({ hasText: 'Call the movers: Doing, 1 of 1' }).waitFor();
    await here.keyboard.press('ArrowLeft');
    assert.equal(await here.evaluate('document.activeElement.textContent'), 'Pack books');

    await here
      .getByRole('button', { name: 'Paint the walls' })
      .dragTo(here.getByRole('button', { name: 'Call the movers' }), {
        targetPosition: { x: 40, y: 4 },
      });
    await shows(both, 'To do: Pack books | Doing: Paint the walls, Call the movers | Done: ');
    await here.getByRole('button', { name: 'Pack books' }).dragTo(here.getByRole('region', { name: 'Done' }));
    await shows(both, 'To do:  | Doing: Paint the walls, Call the movers | Done: Pack books');
    assert.equal(await stored(app), 'To do:  | Doing: Paint the walls, Call the movers | Done: Pack books');

    await here.getByRole('button', { name: 'Paint the walls' }).press('Enter');
    await here.getByLabel('Title').fill('Paint the kitchen');
    await here.getByLabel('Notes').fill('White, two coats.\nCover the floor first.');
    await here.locator('#card-dialog').getByRole('combobox').selectOption('To do');
    await here.getByRole('radio', { name: 'green' }).check({ force: true });
    await app.picture(here, 'card');
    await here.getByRole('button', { name: 'Save' }).click();
    await here.locator('#card-dialog').waitFor({ state: 'hidden' });
    await shows(both, 'To do: Paint the kitchen | Doing: Call the movers | Done: Pack books');

    await here.getByLabel('New column').fill('Waiting');
    await here.keyboard.press('Enter');
    await here.getByRole('button', { name: 'Edit column Waiting' }).click();
    await here.getByRole('button', { name: 'Move left' }).click();
    await here.locator('#name-dialog').waitFor({ state: 'hidden' });
    await shows(both, 'To do: Paint the kitchen | Doing: Call the movers | Waiting:  | Done: Pack books');
    await app.picture(here, 'board');

    await here.getByRole('button', { name: 'Pack books' }).press('Delete');
    await here.getByRole('button', { name: 'Remove', exact: true }).click();
    await shows(both, 'To do: Paint the kitchen | Doing: Call the movers | Waiting:  | Done: ');

    await here.getByRole('button', { name: 'New board' }).click();
    await here.getByLabel('Name', { exact: true }).fill('Garden');
    await here.keyboard.press('Enter');
    await here.getByRole('heading', { name: 'Garden' }).waitFor();
    await here.locator('#name-dialog').waitFor({ state: 'hidden' });
    await here.reload();
    await here.getByRole('heading', { name: 'Garden' }).waitFor();
    await here.getByRole('button', { name: 'Edit board' }).click();
    await here.locator('#name-dialog').getByRole('button', { name: 'Remove' }).click();
    await here.locator('#confirm').getByRole('button', { name: 'Remove' }).click();
    await here.getByRole('heading', { name: 'Moving house' }).waitFor();
    await shows(both, 'To do: Paint the kitchen | Doing: Call the movers | Waiting:  | Done: ');
    assert.deepEqual(app.complaints, []);
  });

  test('a card is assigned to a person, who filters their own', async (t) => {
    const app = await openTemplate(t, 'kanban');
    await app.write('addBoard', { name: 'House' });
    for (const title of ['Paint', 'Sand']) await app.write('addCard', { column: 1, title });
    const [kim, lou] = [await app.windowOf('Kim'), await app.windowOf('Lou')];
    await kim.getByRole('button', { name: 'Sand' }).press('Shift+ArrowUp');
    await shows([lou], 'To do: Sand, Paint | Doing:  | Done: ');
    await lou.getByRole('button', { name: 'Paint' }).press('Enter');
    await lou.getByLabel('Assigned to').selectOption('Kim');
    await lou.getByRole('button', { name: 'Save' }).click();
    await kim.getByRole('button', { name: 'Paint Kim' }).waitFor();
    await app.picture(kim, 'assigned');
    await kim.getByRole('button', { name: 'Mine' }).click();
    await shows([kim], 'To do: Paint | Doing:  | Done: ');
    await kim.getByLabel('Add a card to To do').fill('Clean the brushes');
    await kim.keyboard.press('Enter');
    await shows([kim], 'To do: Paint, Clean the brushes | Doing:  | Done: ');
    await kim.getByRole('button', { name: 'Clean the brushes' }).press('Shift+ArrowUp');
    await shows([lou], 'To do: Sand, Clean the brushes, Paint | Doing:  | Done: ');
    const page = await app.window();
    await page.getByRole('button', { name: 'Paint Kim' }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Mine' }).isVisible(), false, 'the administrator is nobody');
    assert.deepEqual(await accessibilityFaults(lou), []);
    assert.deepEqual(app.complaints, []);
  });

  test('its tools', async (t) => {
    const app = await openTemplate(t, 'kanban');
    await callEveryTool(app);
    assert.equal(await app.read('board', { id: 1 }), null);
    assert.equal(
      (await app.gateway.write(app.id, 'moveCard', { id: 9, column: 1, before: null })).json.data.status,
      404,
    );
  });

  test('the order stays right after many moves, also concurrent ones', async (t) => {
    const app = await openTemplate(t, 'kanban');
    await app.write('addBoard', { name: 'Busy' });
    const titles = ['A', 'B', 'C', 'D'];
    for (const title of titles) await app.write('addCard', { column: 1, title });
    // The last card before the second, over and over: the room between two positions is used up several times.
    let order = [1, 2, 3, 4];
    for (let turn = 0; turn < 60; turn++) {
      const [first, second, third, last] = order as [number, number, number, number];
      await app.write('moveCard', { id: last, column: 1, before: second });
      order = [first, last, second, third];
    }
    assert.equal(await stored(app), `To do: ${order.map((id) => titles[id - 1]).join(', ')} | Doing:  | Done: `);

    await Promise.all(
      Array.from({ length: 40 }, (_, turn) =>
        app.write('moveCard', { id: (turn % 4) + 1, column: (turn % 3) + 1, before: ((turn + 1) % 4) + 1 }),
      ),
    );
    const board = await app.read('board', { id: 1 });
    const ids = board.columns.flatMap(({ cards }: { cards: { id: number }[] }) => cards.map(({ id }) => id));
    assert.deepEqual(ids.sort(), [1, 2, 3, 4], 'each card exists once');
  });
}
