/** The page of the expenses: one month at a time, its categories as bars, its expenses day by day. */
import { openCategories, renderCategories } from './categories.js';
import { dateOf, money, shiftMonth, toCents, toCsv, toDay, toMonth, toText } from './money.js';
import { $, attempt, confirmed, el, giveBack, iconButton, reader, redraw, say } from './ui.js';

const { svc } = window;
const PAGE = 100;
const NOT_AN_AMOUNT = 'Write an amount like 12 or 12.50.';

let month = toMonth(new Date());
/** The category whose expenses alone are shown, or null. */
let only = null;
/** How many expenses are shown; grows by a page. */
let wanted = PAGE;
let overview = { categories: [] };
/** Those who can have paid, with what they paid this month. */
let people = [];
let page = { expenses: [], next: null };
let amount = money('EUR');

// ---- Data ------------------------------------------------------------------------------------------------------------

const refresh = reader(async () => {
  const asked = { month, only, wanted };
  const filter = { month, ...(only === null ? {} : { category: only }) };
  const [nextOverview, nextPage, known, summaries] = await Promise.all([
    svc.read({ query: 'month', input: { month } }),
    readPages(filter, wanted),
    svc.read({ query: 'people', input: { month } }),
    svc.read({ query: 'summaries' }),
  ]);
  if (asked.month !== month || asked.only !== only) return;
  overview = nextOverview;
  page = nextPage;
  people = withMe(known);
  render(summaries);
});

/** Who has the page open can have paid, too, before they have done anything here. */
function withMe(known) {
  const { user } = svc;
  if (user === null || known.some(({ id }) => id === user.id)) return known;
  return [{ id: user.id, name: user.name, paid: 0, shares: false, balance: 0 }, ...known];
}

/** The first `count` expenses that match, however many pages they are. */
async function readPages(filter, count) {
  const expenses = [];
  let next = null;
  do {
    const limit = Math.min(1000, count - expenses.length);
    const answer = await svc.read({ query: 'list', input: { ...filter, limit, ...(next ? { before: next } : {}) } });
    expenses.push(...answer.expenses);
    next = answer.next;
  } while (next && expenses.length < count);
  return { expenses, next };
}

async function saveCsv() {
  const { expenses } = await readPages(
    { month, ...(only === null ? {} : { category: only }) },
    Number.MAX_SAFE_INTEGER,
  );
  const byPeople = isShared();
  const rows = expenses.map(({ day, cents, category, note, payer }) => [
    ...[day, toText(cents), nameOf(category), note],
    ...(byPeople ? [payerOf(payer)] : []),
  ]);
  const head = ['Day', `Amount (${svc.settings.currency})`, 'Category', 'Note', ...(byPeople ? ['Paid by'] : [])];
  const text = toCsv([head, ...rows.reverse()]);
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
  el('a', { href: url, download: `expenses-${month}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const nameOf = (id) => overview.categories.find((category) => category.id === id)?.name ?? 'Removed category';

const payerOf = (id) => people.find((person) => person.id === id)?.name ?? '';
/** Whether there are several who can have paid; for the administrator, who is none of them, anybody. */
const isShared = () => people.length > (svc.user === null ? 0 : 1);

async function remove(expense) {
  if (!(await confirmed(`Remove ${amount(expense.cents)} for “${expense.note || nameOf(expense.category)}”?`))) return;
  if (await attempt(() => svc.write({ action: 'remove', input: { id: expense.id } }))) say('Removed.');
  await refresh();
}

// ---- View ------------------------------------------------------------------------------------------------------------

const monthName = new Intl.DateTimeFormat(undefined, { month: 'long', year: 'numeric' });
const dayName = new Intl.DateTimeFormat(undefined, { weekday: 'long', day: 'numeric', month: 'long' });

function render(summaries) {
  amount = money(svc.settings.currency ?? 'EUR');
  $('month').textContent = monthName.format(dateOf(`${month}-01`));
  renderOverview();
  renderList();
  fillSelect($('category'));
  renderShares();
  $('add').classList.toggle('with-people', isShared());
  for (const field of document.querySelectorAll('.payer')) field.hidden = !isShared();
  fillPayers($('payer'), $('payer').length > 0 ? $('payer').value : (svc.user?.id ?? ''));
  renderCategories(overview.categories, refresh);
  $('review').hidden = summaries.length === 0;
  $('summaries').replaceChildren(
    ...summaries.map((summary) =>
      el('li', {}, el('b', { textContent: monthName.format(dateOf(`${summary.month}-01`)) }), ` ${summary.text}`),
    ),
  );
}

function renderOverview() {
  const { total, count, previousTotal, categories } = overview;
  $('total').textContent = amount(total);
  const than = monthName.format(dateOf(`${shiftMonth(month, -1)}-01`));
  const difference = Math.abs(total - previousTotal);
  $('compared').textContent =
    previousTotal === 0
      ? `${count} ${count === 1 ? 'expense' : 'expenses'}`
      : difference === 0
        ? `The same as in ${than}`
        : `${amount(difference)} ${total > previousTotal ? 'more' : 'less'} than in ${than}`;
  const shown = categories.filter(({ spent, budget }) => spent > 0 || budget !== null);
  const most = Math.max(1, ...shown.map(({ spent, budget }) => Math.max(spent, budget ?? 0)));
  redraw(
    $('bars'),
    shown.map((category) => drawBar(category, most)),
    $('budgets'),
  );
}

function renderShares() {
  const sharing = people.filter(({ shares }) => shares);
  $('shares').hidden = sharing.length < 2;
  $('balances').replaceChildren(
    ...sharing.map(({ name, paid, balance }) => {
      const even = balance === 0 ? 'even' : `${balance > 0 ? 'gets back' : 'owes'} ${amount(Math.abs(balance))}`;
      return el(
        'li',
        { className: 'row' },
        el('span', { className: 'name', textContent: name }),
        el('span', { className: 'spent', textContent: amount(paid) }),
        el('span', { className: 'left', textContent: even }),
      );
    }),
  );
}

function drawBar({ id, name, spent, budget }, most) {
  const over = budget !== null && spent > budget;
  const left =
    budget === null
      ? ''
      : over
        ? `${amount(spent - budget)} over budget`
        : `${amount(budget - spent)} left of ${amount(budget)}`;
  const button = el(
    'button',
    {
      type: 'button',
      className: over ? 'bar over' : 'bar',
      'data-focus': `bar-${id}`,
      'aria-pressed': String(only === id),
    },
    el('span', { className: 'name', textContent: name }),
    el('span', { className: 'spent', textContent: amount(spent) }),
    el('span', { className: 'track', 'aria-hidden': 'true' }),
    el('span', { className: 'left', textContent: left }),
  );
  const track = button.querySelector('.track');
  track.style.setProperty('--spent', spent / most);
  if (budget !== null) track.style.setProperty('--budget', budget / most);
  track.classList.toggle('limited', budget !== null);
  button.addEventListener('click', () => show({ category: only === id ? null : id }));
  return el('li', {}, button);
}

function renderList() {
  const { expenses, next } = page;
  const days = new Map();
  for (const expense of expenses) days.set(expense.day, [...(days.get(expense.day) ?? []), expense]);
  const sections = [...days].map(([day, list]) =>
    el(
      'section',
      { 'aria-label': dayName.format(dateOf(day)) },
      el(
        'h3',
        { className: 'row' },
        dayName.format(dateOf(day)),
        el('span', { textContent: list.length > 1 ? amount(list.reduce((sum, { cents }) => sum + cents, 0)) : '' }),
      ),
      el('ul', {}, ...list.map(drawExpense)),
    ),
  );
  redraw($('list'), sections, $('amount'));
  $('what').textContent = only === null ? 'All expenses' : nameOf(only);
  $('all').hidden = only === null;
  $('list').hidden = expenses.length === 0;
  $('csv').hidden = expenses.length === 0;
  $('more').hidden = next === null;
  $('empty').hidden = expenses.length > 0;
  $('empty').textContent =
    only === null
      ? 'Nothing spent this month. Write down the first expense above: an amount and a category are enough.'
      : `Nothing in ${nameOf(only)} this month.`;
}

function drawExpense(expense) {
  const { id, cents, category, note, payer } = expense;
  const details = [note ? nameOf(category) : '', isShared() ? payerOf(payer) : ''].filter(Boolean);
  const label = `${note || nameOf(category)}, ${amount(cents)}`;
  return el(
    'li',
    {},
    el(
      'button',
      {
        type: 'button',
        className: 'expense',
        title: 'Change',
        'data-focus': `expense-${id}`,
        onclick: () => edit(expense),
      },
      el('span', { className: 'what' }, note || nameOf(category), el('small', { textContent: details.join(' · ') })),
      el('span', { className: 'spent', textContent: amount(cents) }),
    ),
    iconButton('cross', `Remove: ${label}`, () => remove(expense), { className: 'icon delete' }),
  );
}

function fillSelect(select, chosen = Number(select.value)) {
  const sorted = [...overview.categories].sort((a, b) => a.name.localeCompare(b.name));
  select.replaceChildren(
    ...sorted.map(({ id, name }) => el('option', { value: id, textContent: name, selected: id === chosen })),
  );
}

function fillPayers(select, chosen) {
  select.replaceChildren(
    ...[...people, { id: '', name: 'Nobody named' }].map(({ id, name }) =>
      el('option', {
        value: id,
        textContent: id !== '' && id === svc.user?.id ? `${name} (you)` : name,
        selected: id === (chosen ?? ''),
      }),
    ),
  );
}

function show({ to = month, category = null }) {
  month = to;
  only = category;
  wanted = PAGE;
  if (toMonth(dateOf($('day').value || '0001-01-01')) !== month) {
    $('day').value = month === toMonth(new Date()) ? toDay(new Date()) : `${month}-01`;
  }
  return refresh();
}

// ---- Input -----------------------------------------------------------------------------------------------------------

/** Says beside the field what is wrong with it, or nothing. */
function problem(prefix, text) {
  $(`${prefix}-problem`).hidden = text === '';
  $(`${prefix}-problem`).textContent = text;
}

$('add').addEventListener('submit', async (event) => {
  event.preventDefault();
  const cents = toCents($('amount').value);
  $('amount').setAttribute('aria-invalid', String(cents === null));
  problem('amount', cents === null ? NOT_AN_AMOUNT : '');
  if (cents === null) return $('amount').focus();
  const typed = { amount: $('amount').value, note: $('note').value };
  const input = { cents, category: Number($('category').value), day: $('day').value, note: typed.note.trim() };
  if (isShared()) input.payer = $('payer').value || null;
  // At once, so that the next expense can be typed while this one is on its way.
  $('amount').value = '';
  $('note').value = '';
  $('amount').focus();
  if (!(await attempt(() => svc.write({ action: 'add', input, once: true })))) {
    giveBack($('amount'), typed.amount);
    giveBack($('note'), typed.note);
    return;
  }
  say(`Added: ${amount(cents)}`);
  const to = input.day.slice(0, 7);
  await (to === month ? refresh() : show({ to }));
});

let edited = null;
function edit(expense) {
  edited = expense;
  $('edit-amount').value = toText(expense.cents);
  fillSelect($('edit-category'), expense.category);
  $('edit-day').value = expense.day;
  $('edit-note').value = expense.note;
  fillPayers($('edit-payer'), expense.payer);
  problem('edit', '');
  $('editor').showModal();
  $('edit-amount').select();
}

$('edit').addEventListener('submit', async (event) => {
  event.preventDefault();
  const cents = toCents($('edit-amount').value);
  problem('edit', cents === null ? NOT_AN_AMOUNT : '');
  if (cents === null) return $('edit-amount').focus();
  const category = Number($('edit-category').value);
  const input = { id: edited.id, cents, category, day: $('edit-day').value, note: $('edit-note').value };
  if (isShared()) input.payer = $('edit-payer').value || null;
  try {
    await svc.write({ action: 'update', input });
    $('editor').close();
    await refresh();
  } catch (error) {
    problem('edit', error.message);
  }
});

for (const [value, label] of [
  ['EUR', '€'],
  ['USD', '$'],
  ['GBP', '£'],
  ['CHF', 'CHF'],
]) {
  const radio = el('input', { type: 'radio', name: 'currency', value, checked: value === svc.settings.currency });
  $('currency').append(el('label', {}, radio, el('span', { textContent: label, title: value })));
}
$('currency').addEventListener('change', (event) =>
  attempt(async () => {
    await svc.saveSettings({ currency: event.target.value });
    await refresh();
  }),
);

for (const button of document.querySelectorAll('[data-close]')) {
  button.addEventListener('click', () => button.closest('dialog').close());
}
$('earlier').addEventListener('click', () => show({ to: shiftMonth(month, -1) }));
$('later').addEventListener('click', () => show({ to: shiftMonth(month, 1) }));
$('all').addEventListener('click', () => show({}));
$('budgets').addEventListener('click', openCategories);
$('csv').addEventListener('click', (event) => attempt(saveCsv, event.currentTarget));
$('more').addEventListener('click', () => {
  wanted += PAGE;
  return refresh();
});

$('day').value = toDay(new Date());
svc.onChange(refresh);
await refresh();
if (matchMedia('(hover: hover)').matches) $('amount').focus();
