/** The automations of every app: the switch, what fires them and when next, how they ended last, and a button to run one now. */
import { fieldOf } from '/svc/_console/minted.js';
import { missRuns, onRun, openRun, outcomeOf, refreshRuns, stopFollowing } from '/svc/_console/runs.js';
import { $, ago, ahead, arrange, clock, element, get, plural, post, write, writeState } from '/svc/_console/view.js';

/** More are not drawn; the command line lists them all. */
const SHOWN = 200;
/** Where there are more, every how many refreshes they are read again when nothing is known to have changed. */
const REST = 10;

/** Ref → its row and what the gateway said of it. */
const automations = new Map();
/** App id → the body of the table that has its automations. */
const bodies = new Map();
let total = 0;
let refreshes = 0;
let stale = true;
/** What is complained of is that they could not be read. */
let lost = false;

/** Reads what there is and shows it. `apps` as `GET /svc/_apps` answers. Answers whether there are any automations. */
export async function refreshAutomations(apps) {
  if (!apps.some((app) => app.automations > 0)) {
    stopFollowing();
    return false;
  }
  try {
    if (stale || total <= SHOWN || refreshes++ % REST === 0) await read(apps);
    else draw();
    await refreshRuns();
    if (lost) complain('');
    lost = false;
  } catch (error) {
    lost = true;
    complain(error.message);
  }
  return true;
}

const complain = (message) => write($('automation-problem'), message);

onRun((run) => {
  const known = automations.get(run.ref);
  stale = true;
  if (!known || run.runId < (known.row.lastRun?.runId ?? '')) return;
  known.row.lastRun = run;
  draw();
});

async function read(apps) {
  const { rows, errors, total: all } = await get('/svc/_automations');
  stale = false;
  total = all;
  const shown = rows.slice(0, SHOWN);
  const names = new Map(apps.map(({ id, name }) => [id, name]));
  const refs = new Set(shown.map(({ ref }) => ref));
  for (const ref of automations.keys()) {
    if (refs.has(ref)) continue;
    automations.delete(ref);
    missRuns();
  }
  for (const row of shown) {
    const known = automations.get(row.ref);
    if (known) known.row = row;
    else automations.set(row.ref, { row, ...rowOf(row.ref) });
  }
  const ids = [...new Set(shown.map(({ app }) => app))];
  for (const id of bodies.keys()) if (!ids.includes(id)) bodies.delete(id);
  arrange($('automation-rows'), [
    $('automation-head'),
    ...ids.map((id) =>
      bodyOf(
        id,
        names.get(id) ?? id,
        shown.filter(({ app }) => app === id),
      ),
    ),
  ]);
  $('automation-card').hidden = total === 0;
  $('automation-count').textContent = total;
  $('automation-rest').hidden = total <= SHOWN;
  write($('automation-rest'), `${plural(total - SHOWN, 'automation')} more: svc automations lists them all.`);
  drawFaults(errors);
  draw();
}

let complained = '';
function drawFaults(errors) {
  const texts = errors.map(({ ref, code, message }) => `${ref}: ${message} (${code})`);
  // Drawing the same ones again would take the selection from them.
  if (texts.join('\n') === complained) return;
  complained = texts.join('\n');
  $('automation-errors').replaceChildren(...texts.map((text) => element('li', 'error', text)));
}

function bodyOf(id, name, rows) {
  if (!bodies.has(id)) {
    const title = element('th', '');
    title.scope = 'rowgroup';
    title.colSpan = 6;
    bodies.set(id, { body: element('tbody', ''), title, head: element('tr', 'group', title) });
  }
  const { body, title, head } = bodies.get(id);
  write(title, name);
  arrange(body, [head, ...rows.map(({ ref }) => automations.get(ref).line)]);
  return body;
}

function rowOf(ref) {
  const toggle = element('button', 'switch');
  toggle.type = 'button';
  toggle.setAttribute('role', 'switch');
  toggle.addEventListener('click', () => void setEnabled(ref));
  const runNow = element('button', 'small', 'Run now');
  runNow.type = 'button';
  runNow.addEventListener('click', () => void run(ref, runNow));
  const state = element('span', 'state');
  const age = element('span', 'aside');
  const last = element('button', 'link', state, age);
  last.type = 'button';
  last.addEventListener('click', () => void openRun(automations.get(ref).row.lastRun.runId));
  const cells = {
    name: element('b', ''),
    about: element('span', 'about aside'),
    address: element('div', 'address'),
    fires: element('td', 'wide'),
    next: element('td', 'wide'),
    outcome: element('span', 'about aside'),
  };
  const line = element(
    'tr',
    'automation',
    element('td', '', toggle),
    element('td', 'grows', cells.name, cells.about, cells.address),
    cells.fires,
    cells.next,
    element('td', '', last, cells.outcome),
    element('td', 'number', runNow),
  );
  return { line, toggle, runNow, state, age, last, cells };
}

function draw() {
  for (const { row, toggle, runNow, state, age, last, cells } of automations.values()) {
    const { lastRun, nextRunAt } = row;
    toggle.setAttribute('aria-checked', String(row.enabled));
    toggle.setAttribute('aria-label', row.name);
    runNow.setAttribute('aria-label', `Run now: ${row.name}`);
    write(cells.name, row.name);
    write(cells.about, row.description ?? '');
    drawAddress(cells.address, row);
    write(cells.fires, row.triggers.map(words).join(', ') || 'by hand');
    write(cells.next, row.enabled && nextRunAt ? ahead(nextRunAt) : '–');
    cells.next.title = nextRunAt ? clock(nextRunAt) : '';
    last.hidden = !lastRun;
    write(cells.outcome, lastRun ? outcomeOf(lastRun) : 'never');
    cells.outcome.title = lastRun ? outcomeOf(lastRun) : '';
    if (!lastRun) continue;
    writeState(state, lastRun.state);
    write(age, ago(lastRun.startedAt ?? lastRun.queuedAt));
  }
}

/** The whole address of its webhook; drawn once, so that it keeps focus and selection. */
function drawAddress(target, { ref, triggers }) {
  const { url = '', problem = '' } = triggers.find((trigger) => trigger.url) ?? {};
  const drawn = `${url} ${problem}`;
  if (target.dataset.drawn === drawn) return;
  target.dataset.drawn = drawn;
  target.replaceChildren(...(url === '' ? [] : [fieldOf('Address', url, ref)]));
  if (problem !== '') target.append(element('p', 'about error', `It refuses every request: ${problem}`));
}

function words(trigger) {
  if (trigger.kind === 'cron') return trigger.tz ? `${trigger.expr} ${trigger.tz}` : trigger.expr;
  return trigger.pending ? 'webhook (pending)' : 'webhook';
}

// ---- What can be done ------------------------------------------------------------------------------------------------

async function attempt(work) {
  complain('');
  try {
    await work();
  } catch (error) {
    complain(error.message);
  }
}

const setEnabled = (ref) =>
  attempt(async () => {
    const known = automations.get(ref);
    known.row = await post(`/svc/_automations/${ref}/enabled`, { enabled: !known.row.enabled });
    draw();
  });

/** A second click would be a second run: the button rests until the first one is stored, and keeps the focus. */
const run = (ref, button) =>
  attempt(async () => {
    if (button.ariaDisabled === 'true') return;
    button.ariaDisabled = 'true';
    try {
      const { runId } = await post(`/svc/_automations/${ref}/run`);
      await openRun(runId);
    } finally {
      button.ariaDisabled = null;
    }
  });
