/** The dialogs of a card, a column and a board. */
import { $, confirmed, el } from './ui.js';

const { svc } = window;
const COLORS = ['none', 'red', 'amber', 'green', 'blue', 'violet'];

/** What the open dialog does when it is saved, and when its thing is removed. */
let save = async () => {};
let remove = async () => {};

/** Runs what a button of a dialog starts; closes the dialog when it worked, and else says beside the fields why not. */
async function run(name, task) {
  const problem = $(`${name}-problem`);
  try {
    if ((await task()) !== false) $(`${name}-dialog`).close();
    problem.hidden = true;
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
  }
}

/** `people` are those whom the card can be assigned to. */
export function openCard(board, card, removeCard, people) {
  $('card-title').value = card.title;
  $('card-notes').value = card.notes;
  $('card-column').replaceChildren(
    ...board.columns.map(({ id, name }) =>
      el('option', { value: id, textContent: name, selected: id === card.column }),
    ),
  );
  $('assigned').hidden = people.length === 0;
  $('card-assignee').replaceChildren(
    ...[{ id: '', name: 'Nobody' }, ...people].map(({ id, name }) =>
      el('option', {
        value: id,
        textContent: id === svc.user?.id ? `${name} (you)` : name,
        selected: id === (card.assignee ?? ''),
      }),
    ),
  );
  for (const radio of $('colors').querySelectorAll('input')) radio.checked = radio.value === card.color;
  save = async () => {
    const color = $('colors').querySelector(':checked').value;
    const assignee = $('card-assignee').value || null;
    const input = { id: card.id, title: $('card-title').value.trim(), notes: $('card-notes').value, color, assignee };
    await svc.write({ action: 'updateCard', input });
    const column = Number($('card-column').value);
    if (column !== card.column) await svc.write({ action: 'moveCard', input: { id: card.id, column, before: null } });
  };
  remove = async () => {
    $('card-dialog').close();
    await removeCard(card);
  };
  open('card');
}

export function openColumn(board, id) {
  const at = board.columns.findIndex((column) => column.id === id);
  const column = board.columns[at];
  openName({
    title: 'Edit column',
    name: column.name,
    movable: true,
    save: (name) => svc.write({ action: 'renameColumn', input: { id, name } }),
    remove: async () => {
      const cards = column.cards.length;
      const along = cards === 0 ? '' : ` ${cards === 1 ? 'Its card goes' : `Its ${cards} cards go`} with it.`;
      if (!(await confirmed(`Remove the column “${column.name}”?${along}`))) return false;
      await svc.write({ action: 'removeColumn', input: { id } });
    },
  });
  for (const button of $('move-column').children) {
    const by = Number(button.dataset.by);
    button.hidden = board.columns[at + by] === undefined;
    button.onclick = () =>
      run('name', async () => {
        const before = board.columns[by < 0 ? at - 1 : at + 2]?.id ?? null;
        await svc.write({ action: 'moveColumn', input: { id, before } });
      });
  }
}

/** `board` is null for a new one. */
export function openBoard(board, add) {
  openName({
    title: board ? 'Edit board' : 'New board',
    name: board?.name ?? '',
    movable: false,
    save: (name) => (board ? svc.write({ action: 'renameBoard', input: { id: board.id, name } }) : add(name)),
    remove: board
      ? async () => {
          if (!(await confirmed(`Remove the board “${board.name}” with all its cards?`))) return false;
          await svc.write({ action: 'removeBoard', input: { id: board.id } });
        }
      : null,
  });
}

function openName({ title, name, movable, save: saveName, remove: removeIt }) {
  $('name-title').textContent = title;
  $('name').value = name;
  $('move-column').hidden = !movable;
  $('name-remove').hidden = removeIt === null;
  save = () => saveName($('name').value.trim());
  remove = removeIt;
  open('name');
}

function open(name) {
  $(`${name}-problem`).hidden = true;
  $(`${name}-dialog`).showModal();
}

for (const color of COLORS) {
  const radio = el('input', { type: 'radio', name: 'color', value: color, 'aria-label': color });
  $('colors').append(el('label', { className: `swatch ${color}`, title: color }, radio, el('span')));
}
for (const name of ['card', 'name']) {
  $(`${name}-form`).addEventListener('submit', (event) => {
    event.preventDefault();
    void run(name, () => save());
  });
  $(`${name}-remove`).addEventListener('click', () => run(name, () => remove()));
}
for (const button of document.querySelectorAll('[data-close]')) {
  button.addEventListener('click', () => button.closest('dialog').close());
}
