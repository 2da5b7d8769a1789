/** A month, each day the darker the more was written on it. */
import { format, shift, today, weekday } from './dates.js';
import { $, create, toast } from './ui.js';

const { svc } = window;
/** Any day of the month that is shown; follows the open day until somebody turns the pages. */
let month = '';
let open = '';
let go = () => {};
let reads = 0;

const firstOf = (day) => `${day.slice(0, 8)}01`;
/** How dark, 0 to 4. */
const level = (words) => [1, 50, 150, 400].filter((least) => words >= least).length;

document
  .querySelector('.weekdays')
  .append(
    ...[0, 1, 2, 3, 4, 5, 6].map((at) =>
      create('span', { textContent: format(shift('2026-11-02', at), { weekday: 'narrow' }) }),
    ),
  );

/** Shows the month of the open day; `goTo` is called with the day that is chosen. */
export async function showCalendar(day, goTo) {
  go = goTo;
  if (open !== day) month = firstOf(day);
  open = day;
  await render();
}

async function render() {
  const turn = ++reads;
  const last = shift(firstOf(shift(month, 31)), -1);
  const written = await svc.read({ query: 'calendar', input: { from: month, to: last } });
  if (turn !== reads) return;
  const words = new Map(written.map((entry) => [entry.day, entry.words]));
  const focused = $('days').contains(document.activeElement) ? document.activeElement.dataset.day : null;
  const days = [];
  for (let day = month; day <= last; day = shift(day, 1)) days.push(dayButton(day, words.get(day) ?? 0));
  $('month').textContent = format(month, { month: 'long', year: 'numeric' });
  $('days').replaceChildren(...days);
  $('month-after').disabled = last >= today();
  const stop = days.find(({ dataset }) => dataset.day === (focused ?? open)) ?? days[0];
  stop.tabIndex = 0;
  if (focused) stop.focus();
}

function dayButton(day, words) {
  const button = create('button', { type: 'button', textContent: Number(day.slice(8)), tabIndex: -1 });
  button.dataset.day = day;
  button.dataset.level = level(words);
  button.disabled = day > today();
  button.setAttribute(
    'aria-label',
    `${format(day, { dateStyle: 'long' })}, ${words === 0 ? 'nothing' : `${words} words`}`,
  );
  if (day === open) button.setAttribute('aria-current', 'date');
  if (day === today()) button.classList.add('today');
  if (day.endsWith('-01')) button.style.gridColumnStart = weekday(day) + 1;
  return button;
}

function turn(to) {
  month = firstOf(to);
  render().catch((error) => toast(error.message));
}

$('month-before').addEventListener('click', () => turn(shift(month, -1)));
$('month-after').addEventListener('click', () => turn(shift(month, 31)));
$('days').addEventListener('click', (event) => {
  const { day } = event.target.closest('button')?.dataset ?? {};
  if (day) go(day);
});
$('days').addEventListener('keydown', (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -7, ArrowDown: 7 }[event.key];
  if (!step || event.altKey) return;
  event.preventDefault();
  const to = shift(event.target.dataset.day, step);
  const button = $('days').querySelector(`[data-day="${to}"]:enabled`);
  if (!button) return;
  event.target.tabIndex = -1;
  button.tabIndex = 0;
  button.focus();
});
