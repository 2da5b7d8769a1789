/** The page of the boards: what the gateway holds, and moves that show at once. Dialogs are in dialogs.js. */
import { openBoard, openCard, openColumn } from './dialogs.js';
import { startDragging } from './drag.js';
import { $, attempt, confirmed, el, giveBack, icon, redraw, say, toast } from './ui.js';

const { svc } = window;

let boards = [];
/** The id of the board that is shown; the address remembers it. */
let shown = null;
/** That board as the gateway told it last, and with the moves that are on their way; null before it is known. */
let stored = null;
let board = null;
/** Those whom cards can be assigned to. */
let people = svc.user === null ? [] : [svc.user];
/** Only cards that are assigned to who has the page open. */
let mine = false;
let unfollow = () => {};
const moves = new Set();
let lastSent = Promise.resolve();
const dragging = startDragging($('columns'), { drop: move, ended: render });

// ---- Data ------------------------------------------------------------------------------------------------------------

const tell = (error) => toast(error.message);

function takeBoards(list) {
  boards = list;
  if (shown === null && list.length > 0) show(list[0].id);
  else render();
}

/** Has a board shown now and whenever anybody changes it; null shows none. */
function show(id) {
  unfollow();
  shown = id;
  history.replaceState(null, '', `#${id ?? ''}`);
  if (id === null) takeBoard(null);
  else unfollow = svc.live('board', { id }, takeBoard, tell);
}

function takePeople(list) {
  const me = list.some(({ id }) => id === svc.user?.id) || svc.user === null ? [] : [svc.user];
  people = [...me, ...list];
  render();
}

/** The board with the cards that are shown. */
function withShown(of) {
  if (!mine || of === null) return of;
  const columns = of.columns.map((column) => ({
    ...column,
    cards: column.cards.filter(({ assignee }) => assignee === svc.user.id),
  }));
  return { ...of, columns };
}

function takeBoard(found) {
  // It was removed.
  if (found === null && shown !== null) return show(boards.find(({ id }) => id !== shown)?.id ?? null);
  stored = found;
  render();
}

const columnOf = (id, of = board) => of?.columns.find(({ cards }) => cards.some((card) => card.id === id));

/** The board after a move. It stays as it is when the card or the column is not there any more. */
function withMove(before, { id, column, before: next }) {
  const after = structuredClone(before);
  const from = columnOf(id, after);
  const to = after?.columns.find((one) => one.id === column);
  if (!from || !to) return before;
  const [card] = from.cards.splice(
    from.cards.findIndex((one) => one.id === id),
    1,
  );
  const at = to.cards.findIndex((one) => one.id === next);
  to.cards.splice(at < 0 ? to.cards.length : at, 0, { ...card, column });
  return after;
}

/**
 * Puts a card before another, or at the end of a column when `before` is null. It shows at once; moves are sent one after the other,
 * and one that is refused is taken back.
 */
function move(id, column, before) {
  if (before === id || !columnOf(id)) return;
  const input = { id, column, before };
  moves.add(input);
  render();
  const { name, cards } = columnOf(id);
  const at = cards.findIndex((card) => card.id === id);
  say(`${cards[at].title}: ${name}, ${at + 1} of ${cards.length}`);
  lastSent = lastSent
    .then(() => attempt(() => svc.write({ action: 'moveCard', input })))
    .then((taken) => {
      if (taken) stored = withMove(stored, input);
      moves.delete(input);
      render();
    });
}

/** One place up or down, or into the column beside it, at the same height. */
function moveBy(id, { rows = 0, columns = 0 }) {
  const column = columnOf(id);
  const at = column.cards.findIndex((card) => card.id === id);
  if (rows !== 0) {
    const target = at + rows;
    if (target < 0 || target >= column.cards.length) return;
    move(id, column.id, column.cards[rows < 0 ? target : target + 1]?.id ?? null);
    return;
  }
  const next = board.columns[board.columns.indexOf(column) + columns];
  if (next) move(id, next.id, next.cards[at]?.id ?? null);
}

async function removeCard({ id, title }) {
  if (!(await confirmed(`Remove “${title}”?`))) return;
  if (await attempt(() => svc.write({ action: 'removeCard', input: { id } }))) say(`Removed: ${title}`);
}

async function addBoard(name) {
  const { id } = await svc.write({ action: 'addBoard', input: { name }, once: true });
  show(id);
}

// ---- View ------------------------------------------------------------------------------------------------------------

/** Elements of the columns, which stay while their column does, so that nobody loses what they are typing. */
const sections = new Map();

function render() {
  // A card that is being dragged stays where it is.
  if (dragging.active) return;
  board = withShown([...moves].reduce(withMove, stored));
  const none = board === null;
  $('welcome').hidden = !none || boards.length > 0;
  $('board').hidden = none;
  $('keys').hidden = none;
  $('boards').hidden = boards.length < 2;
  $('board-edit').hidden = none;
  $('mine').hidden = none || svc.user === null;
  $('mine').setAttribute('aria-pressed', String(mine));
  $('board-new').hidden = none;
  $('board-name').textContent = board?.name ?? 'Kanban';
  document.title = board?.name ?? 'Kanban';
  $('boards').replaceChildren(
    ...boards.map(({ id, name }) => el('option', { value: id, textContent: name, selected: id === shown })),
  );
  const columns = board?.columns ?? [];
  for (const [id, section] of sections) {
    if (columns.some((column) => column.id === id)) continue;
    section.remove();
    sections.delete(id);
  }
  const focused = document.activeElement?.dataset.card;
  columns.forEach((column, at) => {
    const section = renderColumn(column);
    const there = $('columns').children[at];
    if (there !== section) $('columns').insertBefore(section, there ?? null);
  });
  // A card that went to another column takes the focus along.
  if (focused && document.activeElement?.dataset.card !== focused) cardElement(focused)?.focus();
}

const cardElement = (id) => $('columns').querySelector(`[data-card="${id}"]`);

function renderColumn(column) {
  const section = sections.get(column.id) ?? createColumn(column.id);
  sections.set(column.id, section);
  section.setAttribute('aria-label', column.name);
  section.querySelector('h2').textContent = column.name;
  section.querySelector('.count').textContent = column.cards.length;
  section.querySelector('.edit').setAttribute('aria-label', `Edit column ${column.name}`);
  section.querySelector('input').setAttribute('aria-label', `Add a card to ${column.name}`);
  const list = section.querySelector('ul');
  list.setAttribute('aria-label', `Cards of ${column.name}`);
  redraw(list, column.cards.map(drawCard));
  return section;
}

function createColumn(id) {
  const section = $('column').content.firstElementChild.cloneNode(true);
  section.dataset.column = id;
  const button = section.querySelector('.edit');
  button.append(icon('pencil'));
  button.addEventListener('click', () => openColumn(board, id));
  section.querySelector('form').addEventListener('submit', async (event) => {
    event.preventDefault();
    const field = section.querySelector('input');
    const title = field.value.trim();
    if (title === '') return;
    field.value = '';
    const input = { column: id, title, ...(mine && { assignee: svc.user.id }) };
    if (await attempt(() => svc.write({ action: 'addCard', input, once: true }))) say(`Added: ${title}`);
    else giveBack(field, title);
  });
  return section;
}

function drawCard(card) {
  const note = card.notes === '' ? [] : [el('small', { textContent: card.notes })];
  const assignee = people.find(({ id }) => id === card.assignee)?.name;
  const who = assignee === undefined ? [] : [el('small', { className: 'who', textContent: assignee })];
  const item = el(
    'div',
    {
      className: `ticket ${card.color}`,
      tabIndex: 0,
      role: 'button',
      draggable: true,
      'aria-keyshortcuts': 'Enter Delete Shift+ArrowUp Shift+ArrowDown Shift+ArrowLeft Shift+ArrowRight',
      'data-card': card.id,
      'data-focus': card.id,
    },
    el('span', { textContent: card.title }),
    ...note,
    ...who,
  );
  item.addEventListener('click', () => openCard(board, card, removeCard, people));
  item.addEventListener('keydown', (event) => onCardKey(event, card));
  return el('li', {}, item);
}

// ---- Input -----------------------------------------------------------------------------------------------------------

const ARROWS = {
  ArrowUp: { rows: -1 },
  ArrowDown: { rows: 1 },
  ArrowLeft: { columns: -1 },
  ArrowRight: { columns: 1 },
};

function onCardKey(event, card) {
  const arrow = ARROWS[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (arrow && event.shiftKey) moveBy(card.id, arrow);
  else if (arrow) go(card.id, arrow);
  else if (event.key === 'Enter' || event.key === ' ') openCard(board, card, removeCard, people);
  else if (event.key === 'Delete') void removeCard(card);
  else return;
  event.preventDefault();
}

/** Moves the focus: up and down in the column, left and right to the nearest column that has cards. */
function go(id, { rows = 0, columns = 0 }) {
  const column = columnOf(id);
  const at = column.cards.findIndex((card) => card.id === id);
  if (rows !== 0) {
    const next = column.cards[at + rows];
    if (next) cardElement(next.id).focus();
    else if (rows > 0) sections.get(column.id).querySelector('input').focus();
    return;
  }
  let index = board.columns.indexOf(column) + columns;
  while (board.columns[index]?.cards.length === 0) index += columns;
  const cards = board.columns[index]?.cards;
  if (cards) cardElement(cards[Math.min(at, cards.length - 1)].id).focus();
}

$('welcome').addEventListener('submit', (event) => {
  event.preventDefault();
  void attempt(() => addBoard($('first-board').value.trim()), event.submitter);
});
$('add-column').addEventListener('submit', async (event) => {
  event.preventDefault();
  const name = $('column-new').value.trim();
  if (name === '') return;
  $('column-new').value = '';
  const input = { board: shown, name };
  if (!(await attempt(() => svc.write({ action: 'addColumn', input, once: true })))) giveBack($('column-new'), name);
});
$('boards').addEventListener('change', () => show(Number($('boards').value)));
$('mine').addEventListener('click', () => {
  mine = !mine;
  render();
});
$('board-new').addEventListener('click', () => openBoard(null, addBoard));
$('board-edit').addEventListener('click', () => openBoard(board, addBoard));

const [, named] = /^#([1-9]\d*)$/.exec(location.hash) ?? [];
if (named) show(Number(named));
svc.live('boards', {}, takeBoards, tell);
svc.live('people', {}, takePeople, tell);
