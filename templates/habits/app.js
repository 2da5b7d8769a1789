/** The page of the habits: a week's grid, with the checks still on their way laid over what the gateway holds. */
import { format, isDay, monday, onNewDay, shift, today } from './dates.js';
import { edit } from './editor.js';
import { $, create, giveBack, say, show, toast, toastUnread } from './ui.js';

const { svc } = window;
const HISTORY_DAYS = 60;

/** What the gateway answered last. */
let habits = [];
/** Checks that the gateway has not answered yet: `id day` to whether it is done. */
const pending = new Map();
let week = monday(today());
let reads = 0;

const daysOf = (first) => [0, 1, 2, 3, 4, 5, 6].map((at) => shift(first, at));
const isDone = ({ id, days }, day) => pending.get(`${id} ${day}`) ?? days.includes(day);

// ---- Data ------------------------------------------------------------------------------------------------------------

/** Reads everything. While checks are on their way the answer is dropped: the last of them to end reads again. */
async function refresh() {
  const turn = ++reads;
  const span = { from: week, to: shift(week, 6), today: today() };
  try {
    const [board, archived, history] = await Promise.all([
      svc.read({ query: 'board', input: span }),
      svc.read({ query: 'board', input: { ...span, archived: true } }),
      svc.read({ query: 'history', input: { limit: HISTORY_DAYS } }),
    ]);
    if (turn !== reads || pending.size > 0) return;
    habits = board;
    renderBoard();
    renderArchive(archived);
    renderHistory(history);
  } catch (error) {
    toastUnread(error);
  }
}

/** Resolves to whether it was written. `once`: what may be sent again. */
async function write(action, input, once = false) {
  try {
    await svc.write({ action, input, once });
    return true;
  } catch (error) {
    toast(error.message);
    return false;
  } finally {
    await refresh();
  }
}

async function check(id, day, done) {
  const key = `${id} ${day}`;
  pending.set(key, done);
  renderBoard();
  // A second click may be on its way by the time of the answer: the answer to that one counts.
  const end = () => pending.get(key) === done && pending.delete(key);
  try {
    await svc.write({ action: 'check', input: { id, day, done } });
    end();
  } catch (error) {
    toast(error.message);
    end();
    renderBoard();
  }
  await refresh();
}

// ---- View ------------------------------------------------------------------------------------------------------------

/** Rows by the id of their habit: they live as long as it is shown, so that the focus survives a change. */
const rows = new Map();

function createRow(id) {
  const element = $('row').content.firstElementChild.cloneNode(true);
  const [button, cells] = element.children;
  const boxes = daysOf(week).map(() => {
    const box = create('input', { type: 'checkbox' });
    box.addEventListener('change', () => check(id, box.dataset.day, box.checked));
    return box;
  });
  cells.append(...boxes);
  const row = { element, button, cells, boxes, habit: null };
  button.addEventListener('click', () => edit(row.habit, write));
  return row;
}

function renderRow(habit) {
  const row = rows.get(habit.id) ?? createRow(habit.id);
  rows.set(habit.id, row);
  row.habit = habit;
  const days = daysOf(week);
  const done = days.filter((day) => isDone(habit, day)).length;
  row.element.dataset.color = habit.color;
  row.element.classList.toggle('reached', done >= habit.goal);
  row.button.firstElementChild.textContent = habit.name;
  row.button.lastElementChild.textContent = `${done} of ${habit.goal}${streakText(habit)}`;
  row.cells.setAttribute('aria-label', habit.name);
  row.boxes.forEach((box, at) => {
    const day = days[at];
    box.dataset.day = day;
    box.checked = isDone(habit, day);
    box.disabled = day > today();
    box.classList.toggle('today', day === today());
    box.setAttribute('aria-label', `${habit.name}, ${format(day, { weekday: 'long', day: 'numeric', month: 'long' })}`);
  });
  return row.element;
}

function streakText({ streak, goal }) {
  if (streak < 2) return '';
  return ` · ${streak} ${goal === 7 ? 'days' : 'weeks'} in a row`;
}

function renderBoard() {
  const days = daysOf(week);
  show($('list'), habits.map(renderRow));
  for (const [id, row] of rows) if (!row.element.isConnected) rows.delete(id);
  $('board').hidden = habits.length === 0;
  $('empty').hidden = habits.length > 0;
  $('week').textContent =
    `${format(week, { day: 'numeric', month: 'short' })} – ${format(days[6], { day: 'numeric', month: 'short' })}`;
  $('weekdays').replaceChildren(
    ...days.map((day) =>
      create(
        'span',
        { className: day === today() ? 'today' : '' },
        format(day, { weekday: 'short' }),
        create('b', { textContent: Number(day.slice(8)) }),
      ),
    ),
  );
  $('later').disabled = days[6] >= today();
  $('now').disabled = week === monday(today());
  renderSummary();
}

function renderSummary() {
  const shown = week === monday(today()) ? habits : [];
  const done = shown.filter((habit) => isDone(habit, today())).length;
  $('summary').textContent =
    habits.length === 0
      ? 'Little things, often.'
      : shown.length === 0
        ? `The week of ${format(week, { day: 'numeric', month: 'long', year: 'numeric' })}`
        : done === shown.length
          ? 'Everything is done today.'
          : `${done} of ${shown.length} done today`;
}

function renderArchive(archived) {
  $('archive').hidden = archived.length === 0;
  $('archived-count').textContent = archived.length;
  $('archived').replaceChildren(
    ...archived.map((habit) => {
      const button = create('button', { className: 'quiet', type: 'button', textContent: 'Take back' });
      button.setAttribute('aria-label', `Take back: ${habit.name}`);
      button.addEventListener('click', () => write('update', { id: habit.id, archived: false }));
      const best = `${habit.goal === 7 ? 'days' : 'weeks'} in a row at best: ${habit.best}`;
      return create('li', {}, habit.name, create('span', { className: 'faint', textContent: best }), button);
    }),
  );
}

/** A bar for each night that the automation noted, once there is something to compare. */
function renderHistory(history) {
  const nights = [...history].reverse();
  $('history').hidden = nights.length < 3;
  $('bars').replaceChildren(
    ...nights.map(({ day, habits: all, done }) => {
      const bar = create('li', { title: `${format(day, { dateStyle: 'medium' })}: ${done} of ${all}` });
      bar.style.setProperty('--share', all === 0 ? 0 : done / all);
      bar.append(create('span', { className: 'visually-hidden', textContent: bar.title }));
      return bar;
    }),
  );
  const last = history[0];
  if (last) {
    const when = last.day === shift(today(), -1) ? 'Yesterday' : format(last.day, { dateStyle: 'medium' });
    $('latest').textContent = `${when}: ${last.done} of ${last.habits} done.`;
  }
}

// ---- Input -----------------------------------------------------------------------------------------------------------

/** What was not stored: sent again as it was, it is stored once. */
let unsent = null;

$('add').addEventListener('submit', async (event) => {
  event.preventDefault();
  const name = $('name').value.trim();
  if (name === '') return;
  const colors = ['green', 'blue', 'violet', 'rose', 'amber', 'teal'];
  const goal = Number($('goal').value);
  const isSame = unsent?.name === name && unsent.goal === goal;
  const input = isSame ? unsent : { name, goal, color: colors[habits.length % colors.length] };
  $('name').value = '';
  unsent = (await write('add', input, true)) ? null : input;
  if (unsent) giveBack($('name'), name);
  else say(`Added: ${name}`);
});

function go(first) {
  week = first;
  location.hash = week === monday(today()) ? '' : week;
  renderBoard();
  void refresh();
}
$('earlier').addEventListener('click', () => go(shift(week, -7)));
$('later').addEventListener('click', () => go(shift(week, 7)));
$('now').addEventListener('click', () => go(monday(today())));

/** Arrows move over the grid. */
$('list').addEventListener('keydown', (event) => {
  if (!event.target.matches('input[type=checkbox]')) return;
  const [x, y] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [];
  if (x === undefined) return;
  event.preventDefault();
  const list = [...$('list').children];
  const at = [...event.target.parentElement.children].indexOf(event.target);
  list[list.indexOf(event.target.closest('li')) + y]?.querySelectorAll('input')[at + x]?.focus();
});

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches('input:not([type=checkbox]), select'))
    return;
  if (event.key !== 'n' || document.querySelector('dialog[open]')) return;
  event.preventDefault();
  $('name').focus();
});

const named = location.hash.slice(1);
if (isDay(named) && named <= today()) week = monday(named);
onNewDay(() => {
  renderBoard();
  void refresh();
});
svc.onChange(refresh);
await refresh();
