/** The gateway's home page: signs in, lists the apps, and shows the processes behind them while somebody looks. */
import { refreshAutomations } from '/svc/_console/automations.js';
import { stopFollowing } from '/svc/_console/runs.js';
import { openSecrets } from '/svc/_console/secrets.js';
import { chat, followLink, goOn, link, onward, readSession, signIn, signOut } from '/svc/_console/session.js';
import { $, duration, element, fact, get, getAll, plural, post } from '/svc/_console/view.js';

const REFRESH_MS = 3000;

// ---- Signing in ------------------------------------------------------------------------------------------------------

/** What the gateway says of this browser; null where there are no sessions. */
let session = null;
let scrolled = 0;

/** Goes on to where the address asked for, or shows what there is. */
async function enter() {
  session = await readSession();
  if (session?.signedIn === false) return askToken('The browser did not store the session. Does it block cookies?');
  if (onward) return goOn();
  $('signout').hidden = session === null;
  if (chat) return talk();
  await refresh();
  scrollTo(0, scrolled);
}

/** What draws Markdown is read by those who talk. */
async function talk() {
  const { closeChat, openChat } = await import('/svc/_console/chat.js');
  show('chat');
  try {
    // A page's origin has a session of its own, which it gets from the one here.
    const addressOf = (path) => (session === null ? path : `/svc/_enter?to=${encodeURIComponent(path)}`);
    await openChat(chat, addressOf, () => {
      closeChat();
      askAgain();
    });
  } catch (error) {
    if (error.status === 401) askAgain();
    else health('lost', error.message);
  }
}

/** What was shown stays as it was behind the form, and is shown again after it. */
function askToken(refusal = '', notice = '') {
  clearTimeout(timer);
  stopFollowing();
  if ($('signin').hidden) scrolled = scrollY;
  $('refused').textContent = refusal;
  $('notice').textContent = notice;
  $('onward').textContent = onward ? `Continue to ${new URL(onward, location.origin).href}` : '';
  $('signout').hidden = true;
  show('signin');
  health('', '');
  $('token').focus();
}

const askAgain = () =>
  askToken('', 'Your session has ended. It lasts twelve hours, or until someone signs out or replaces the token.');

$('signin').addEventListener('submit', (event) => {
  event.preventDefault();
  signIn($('token').value.trim())
    .then(() => {
      $('token').value = '';
      return enter();
    })
    .catch((error) => askToken(error.message));
});

$('signout').addEventListener('click', () => {
  signOut().then(
    () => askToken('', 'You are signed out here and on the pages of all apps.'),
    (error) => health('lost', error.message),
  );
});

/** Somebody may have signed in meanwhile, in another tab. */
async function lookAgain() {
  const { signedIn } = (await readSession()) ?? {};
  if (signedIn && !$('signin').hidden) await enter();
}

// ---- Watching --------------------------------------------------------------------------------------------------------

let timer;
/** The session of an address that all apps share may use them, and administers nothing. */
let shared = false;

/** Reads everything, and again after a while, as long as the page is visible. */
async function refresh() {
  clearTimeout(timer);
  try {
    await (shared ? refreshShared() : refreshAll());
  } catch (error) {
    if (error.status === 401) return askAgain();
    if (error.status === 403 && !shared) {
      shared = true;
      return refresh();
    }
    health('lost', 'The gateway does not answer');
  }
  if (document.visibilityState === 'visible') timer = setTimeout(refresh, REFRESH_MS);
}

async function refreshAll() {
  const [apps, system] = await Promise.all([getAll('/svc/_apps'), get('/svc/_system')]);
  renderApps(apps);
  renderSystem(system);
  const automated = await refreshAutomations(apps);
  show('apps', 'system', ...(automated ? ['automations', 'runs'] : []));
}

async function refreshShared() {
  const { data } = await post('/svc/_tool/svc_describe');
  renderApps(data.apps.map(describedApp));
  $('here').textContent = location.host;
  $('base').textContent = session?.console ?? `http://svc.localhost${location.port && `:${location.port}`}/svc/`;
  health('ok', 'Running');
  show('apps', 'shared');
}

/** As the registry would tell of it. */
function describedApp({ app, name = app, version = '', description, queries = [], actions = [], error }) {
  const counts = { queries: queries.length, actions: actions.length, automations: 0 };
  const state = error
    ? { status: STATE_OF[error.code] ?? error.code, activeVersion: null }
    : { status: 'active', activeVersion: version };
  return { id: app, name, version, description: error?.message ?? description, ...counts, ...state };
}

document.addEventListener('visibilitychange', () => {
  clearTimeout(timer);
  if (document.visibilityState !== 'visible') stopFollowing();
  else if (!$('signin').hidden) lookAgain().catch(() => {});
  else if (!chat) void refresh();
});

// ---- View ------------------------------------------------------------------------------------------------------------

const STATUS = { active: 'Live', no_active_version: 'No version', quarantined: 'Quarantined' };
const STATE_OF = { NO_ACTIVE_VERSION: 'no_active_version', QUARANTINED: 'quarantined' };

function show(...sections) {
  for (const section of document.querySelectorAll('main > section')) section.hidden = !sections.includes(section.id);
  document.body.classList.toggle('talks', sections.includes('chat'));
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
  if (app.public) counts.push('open to visitors');
  tile.textContent = app.name.slice(0, 1).toUpperCase();
  tile.style.setProperty('--hue', hue(app.id));
  link.textContent = app.name;
  if (app.activeVersion) link.href = `/svc/${app.id}/`;
  else link.removeAttribute('href');
  made.querySelector('.open').hidden = !app.activeVersion;
  made.querySelector('.talk').hidden = !app.activeVersion;
  made.querySelector('.talk').href = `#chat=${app.id}`;
  made.querySelector('.talk').setAttribute('aria-label', `Chat about ${app.name}`);
  const secrets = made.querySelector('.secrets');
  secrets.hidden = shared;
  secrets.setAttribute('aria-label', `Secrets of ${app.name}`);
  secrets.addEventListener('click', () => openSecrets({ app: app.id, name: app.name }));
  made.querySelector('.status').textContent = STATUS[app.status] ?? app.status;
  made.querySelector('.status').dataset.state = app.status;
  made.querySelector('.description').textContent = app.description ?? '';
  made.querySelector('.counts').textContent = counts.join(' · ');
  made.querySelector('.counts').title = app.public ? `Visitors may use: ${app.public.join(', ')}` : '';
  id.textContent = app.id;
  version.textContent = app.version && `v${app.version}`;
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

async function start() {
  let refusal = '';
  try {
    if (link) await followLink(link).catch(({ message }) => (refusal = message));
    const known = await readSession();
    if (known?.signedIn === false) askToken(refusal);
    else await enter();
  } catch {
    health('lost', 'The gateway does not answer');
    setTimeout(start, REFRESH_MS);
  }
}

void start();
