/** The page of the journal: one sheet for the day that is open, and the ways to the others. */
import { showCalendar } from './calendar.js';
import { format, isDay, onNewDay, shift, today } from './dates.js';
import { day, flush, keepMine, openDay, reload, showTheirs } from './sheet.js';
import { $, confirmed, create, say, show, toast, toastUnread } from './ui.js';

const { svc } = window;
const PAGE = 30;
/** How many entries of the list are shown: more after each click on "Show earlier ones". */
let shown = PAGE;
let found = PAGE;
let reads = 0;

const read = (query, input) => svc.read({ query, input });
const title = (of) => format(of, { weekday: 'short', day: 'numeric', month: 'long', year: 'numeric' });

// ---- Going to a day ----------------------------------------------------------------------------------------------------

/** The address names the day, so that a reload and the back button find it again. */
function go(to) {
  history.pushState(null, '', to === today() ? location.pathname : `#${to}`);
  return arrive();
}

async function arrive() {
  const named = location.hash.slice(1);
  const to = isDay(named) && named <= today() ? named : today();
  if (!(await openDay(to))) {
    if (day() !== '') history.replaceState(null, '', `#${day()}`);
    return;
  }
  showHeading();
  await refresh();
}

function showHeading() {
  $('heading').textContent = format(day(), { weekday: 'long', day: 'numeric', month: 'long' });
  const away = Math.round((Date.parse(today()) - Date.parse(day())) / 86_400_000);
  $('relative').textContent =
    away === 0 ? 'Today' : away === 1 ? 'Yesterday' : `${day().slice(0, 4)}, ${away} days ago`;
  $('later').disabled = day() >= today();
  $('today').disabled = day() === today();
  document.title = day() === today() ? 'Journal' : `${title(day())} · Journal`;
}

// ---- What is beside the sheet ------------------------------------------------------------------------------------------

async function refresh() {
  if (day() === '') return;
  const turn = ++reads;
  try {
    const [entries, stats, reviews, memories] = await Promise.all([
      read('list', { limit: Math.min(shown + 1, 1000) }),
      read('stats', { today: today() }),
      read('reviews', { limit: 1 }),
      read('onThisDay', { day: day() }),
      showCalendar(day(), go),
      showFound(),
    ]);
    if (turn !== reads) return;
    showEntries(entries);
    showStats(stats);
    showReview(reviews[0]);
    showMemories(memories);
  } catch (error) {
    toastUnread(error);
  }
}

/** A row that leads to a day. */
function entryRow(of, ...text) {
  const button = create(
    'button',
    { type: 'button' },
    create('b', { textContent: title(of) }),
    create('span', {}, ...text),
  );
  button.addEventListener('click', () => go(of));
  if (of === day()) button.setAttribute('aria-current', 'date');
  return create('li', {}, button);
}

function showEntries(entries) {
  const rows = entries.slice(0, shown);
  $('recent').replaceChildren(...rows.map((entry) => entryRow(entry.day, entry.beginning)));
  $('more').hidden = entries.length <= shown || shown >= 999;
  $('empty').hidden = rows.length > 0;
}

function showStats({ days, words, streak }) {
  $('total-days').textContent = days.toLocaleString();
  $('total-words').textContent = words.toLocaleString();
  $('streak').textContent = streak.toLocaleString();
}

function showReview(review) {
  $('review').hidden = review === undefined;
  if (!review) return;
  const { days, words, memories } = review;
  const others = memories === 0 ? '' : `, ${memories} ${memories === 1 ? 'memory' : 'memories'}`;
  $('review').textContent =
    `Week to ${title(review.day)}: ${days} of 7 days, ${words.toLocaleString()} words${others}.`;
}

function showMemories(memories) {
  $('memories').hidden = memories.length === 0;
  $('memory-list').replaceChildren(
    ...memories.map((entry) => {
      const button = create('button', { type: 'button', textContent: entry.day.slice(0, 4) });
      button.setAttribute('aria-label', `Open ${title(entry.day)}`);
      button.addEventListener('click', () => go(entry.day));
      return create('li', {}, button, create('p', { textContent: entry.text }));
    }),
  );
}

// ---- Search ------------------------------------------------------------------------------------------------------------

async function showFound() {
  const text = $('search').value.trim();
  $('browse').hidden = text !== '';
  $('found').hidden = text === '';
  if (text === '') return;
  const rows = await read('search', { text, limit: Math.min(found + 1, 100) });
  if (text !== $('search').value.trim()) return;
  const count = rows.length > found ? `${found}+` : rows.length;
  $('found-heading').textContent =
    rows.length === 0 ? 'Nothing found' : `Found on ${count} ${count === 1 ? 'day' : 'days'}`;
  say($('found-heading').textContent);
  $('more-found').hidden = rows.length <= found || found >= 99;
  show(
    $('found-list'),
    rows
      .slice(0, found)
      .map(({ day: of, excerpt }) =>
        entryRow(of, ...excerpt.map((part) => (part.found ? create('mark', { textContent: part.text }) : part.text))),
      ),
  );
}

let typing;
$('search').addEventListener('input', () => {
  found = PAGE;
  clearTimeout(typing);
  typing = setTimeout(() => showFound().catch((error) => toast(error.message)), 150);
});

// ---- Input -------------------------------------------------------------------------------------------------------------

$('earlier').addEventListener('click', () => go(shift(day(), -1)));
$('later').addEventListener('click', () => go(shift(day(), 1)));
$('today').addEventListener('click', () => go(today()));
$('more').addEventListener('click', () => {
  shown += PAGE;
  void refresh();
});
$('more-found').addEventListener('click', () => {
  found += PAGE;
  showFound().catch((error) => toast(error.message));
});
$('mine').addEventListener('click', keepMine);
$('theirs').addEventListener('click', showTheirs);
$('remove').addEventListener('click', async () => {
  if (!(await confirmed(`Remove what you wrote on ${title(day())}?`))) return;
  await flush();
  try {
    await svc.write({ action: 'remove', input: { day: day() } });
    say('Removed');
    $('text').focus();
  } catch (error) {
    toast(error.message);
  }
  await Promise.all([reload(), refresh()]);
});

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || $('confirm').open) return;
  if (event.altKey && event.key === 'ArrowUp') void go(shift(day(), -1));
  else if (event.altKey && event.key === 'ArrowDown' && day() < today()) void go(shift(day(), 1));
  else if (event.key === '/' && !event.target.matches('textarea, input')) $('search').focus();
  else return;
  event.preventDefault();
});

window.addEventListener('popstate', arrive);
onNewDay(() => {
  showHeading();
  void refresh();
});
$('private').hidden = !svc.user;
svc.onChange(() => (day() === '' ? arrive() : Promise.all([reload(), refresh()])));
await arrive();
if (matchMedia('(hover: hover)').matches) $('text').focus();
