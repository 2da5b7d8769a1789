/** The gateway's home page: signs in, lists the apps, and shows the processes behind them while somebody looks. */
import { refreshAutomations } from '/svc/_console/automations.js';
import { stopFollowing } from '/svc/_console/runs.js';
import { $, duration, element, fact, get, plural } from '/svc/_console/view.js';

const REFRESH_MS = 3000;
/** An app, or a draft of one. */
const APP = /^(?:_draft\/[A-Za-z0-9][A-Za-z0-9_-]{0,63}\/)?[a-z0-9][a-z0-9_-]{0,62}$/;

/** `#token=…` signs in, `#open=<app id>` goes on to that app; neither reaches a server or stays in the history. */
const fragment = new URLSearchParams(location.hash.slice(1));
const open = fragment.get('open');
history.replaceState(null, '', location.pathname);
// The same address with a new fragment does not load the page again by itself.
addEventListener('hashchange', () => location.reload());

// ---- Signing in ------------------------------------------------------------------------------------------------------

async function signIn(token) {
  const response = await fetch('/svc/_session', { method: 'POST', headers: { authorization: `Bearer ${token}` } });
  if (response.status === 401) throw new Error('The gateway does not know this token. It may have been rotated.');
  if (!response.ok) throw new Error(`The gateway answered with status ${response.status}.`);
}

/** Goes to the app that the address asked for, or shows what there is. */
function enter() {
  if (open && APP.test(open)) location.replace(`/svc/${open}/`);
  else void refresh();
}

function askToken(message = '') {
  $('refused').textContent = message;
  show('signin');
  $('health').textContent = '';
  $('token').focus();
}

$('signin').addEventListener('submit', (event) => {
  event.preventDefault();
  signIn($('token').value.trim()).then(
    () => {
      $('token').value = '';
      enter();
    },
    (error) => askToken(error.message),
  );
});

// ---- Watching --------------------------------------------------------------------------------------------------------

let timer;

/** Reads everything, and again after a while, as long as the page is visible. */
async function refresh() {
  clearTimeout(timer);
  try {
    const [apps, system] = await Promise.all([get('/svc/_apps'), get('/svc/_system')]);
    renderApps(apps);
    renderSystem(system);
    const automated = await refreshAutomations(apps);
    show('apps', 'system', ...(automated ? ['automations', 'runs'] : []));
  } catch (error) {
    if (error.status === 401) return askToken();
    health('lost', 'The gateway does not answer');
  }
  if (document.visibilityState === 'visible') timer = setTimeout(refresh, REFRESH_MS);
}

document.addEventListener('visibilitychange', () => {
  clearTimeout(timer);
  if (document.visibilityState !== 'visible') stopFollowing();
  else if ($('signin').hidden) void refresh();
});

// ---- View ------------------------------------------------------------------------------------------------------------

const STATUS = { active: 'Live', no_active_version: 'No version', quarantined: 'Quarantined' };

function show(...sections) {
  for (const section of document.querySelectorAll('main > section')) section.hidden = !sections.includes(section.id);
}

function health(state, text) {
  $('health').dataset.state = state;
  $('health').textContent = text;
}

const memory = (bytes) => (bytes === null ? '–' : `${(bytes / 2 ** 20).toFixed(0)} MiB`);

/** The same colour for the same id, everywhere and always; the golden angle keeps neighbours apart. */
function hue(id) {
  let sum = 0;
  for (const letter of id) sum = (sum * 31 + letter.charCodeAt(0)) % 9973;
  return (sum * 137.5) % 360;
}

function card(app) {
  const made = $('card').content.firstElementChild.cloneNode(true);
  const link = made.querySelector('a');
  const tile = made.querySelector('.tile');
  const [id, version] = made.querySelector('.id').children;
  const counts = [plural(app.queries, 'query'), plural(app.actions, 'action')];
  if (app.automations > 0) counts.push(plural(app.automations, 'automation'));
  tile.textContent = app.name.slice(0, 1).toUpperCase();
  tile.style.setProperty('--hue', hue(app.id));
  link.textContent = app.name;
  if (app.activeVersion) link.href = `/svc/${app.id}/`;
  else link.removeAttribute('href');
  made.querySelector('.open').hidden = !app.activeVersion;
  made.querySelector('.status').textContent = STATUS[app.status] ?? app.status;
  made.querySelector('.status').dataset.state = app.status;
  made.querySelector('.description').textContent = app.description ?? '';
  made.querySelector('.counts').textContent = counts.join(' · ');
  id.textContent = app.id;
  version.textContent = `v${app.version}`;
  return made;
}

let drawn = '';
function renderApps(apps) {
  $('first').hidden = apps.length > 0;
  $('app-count').textContent = apps.length > 0 ? apps.length : '';
  // Drawing the same cards again would take the focus and the text selection from them.
  const next = JSON.stringify(apps);
  if (next === drawn) return;
  drawn = next;
  $('cards').replaceChildren(...apps.map(card));
}

function stateCell(state) {
  const cell = element('td', 'state', state.replaceAll('_', ' '));
  cell.dataset.state = state;
  return cell;
}

/** A process, and below it the apps in it that are awake: there may be thousands that are not. */
function processRows({ name, pid, state, uptimeMs, restarts, rss, actors = [] }) {
  const awake = actors.filter((actor) => actor.state !== 'idle');
  const asleep = actors.length - awake.length;
  const title = element('td', '', element('b', '', name));
  if (asleep > 0) title.append(' ', element('span', 'aside', `${plural(asleep, 'app')} asleep`));
  const row = element(
    'tr',
    '',
    title,
    stateCell(state),
    element('td', 'number wide', String(pid ?? '–')),
    element('td', 'number wide', uptimeMs === null ? '–' : duration(uptimeMs)),
    element('td', 'number wide', String(restarts)),
    element('td', 'number', memory(rss)),
  );
  return [row, ...awake.map(actorRow)];
}

function actorRow({ app, automation, state, mailbox, inFlight, memory: bytes }) {
  const load = element('td', 'aside wide', `${plural(inFlight, 'call')} running, ${mailbox} waiting`);
  load.colSpan = 3;
  const name = automation === null ? app : `${app}/${automation}`;
  return element(
    'tr',
    'actor',
    element('td', '', name),
    stateCell(state),
    load,
    element('td', 'number', memory(bytes)),
  );
}

function renderSystem({ version, uptimeMs, edge, processes }) {
  const total = processes.reduce((sum, { rss }) => sum + (rss ?? 0), 0);
  $('facts').replaceChildren(
    fact('Version', version),
    fact('Up', duration(uptimeMs)),
    fact('Edge', edge ?? 'host'),
    fact('Memory', memory(total)),
  );
  $('processes').replaceChildren(...processes.flatMap(processRows));
  const down = processes.find(({ state }) => state !== 'running');
  if (down) health('degraded', `${down.name}: ${down.state}`);
  else health('ok', 'All systems running');
}

// ---- Start -----------------------------------------------------------------------------------------------------------

const token = fragment.get('token');
if (token) signIn(token).then(enter, (error) => askToken(error.message));
else if (open) get('/svc/_apps').then(enter, () => askToken());
else void refresh();
