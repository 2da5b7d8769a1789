/** A conversation with an agent beside the page of its app: windows, messages, turns that are followed, and the draft that they change. */
import { Attachments, attachmentLinks } from '/svc/_console/attachments.js';
import { Conversations } from '/svc/_console/conversations.js';
import { DraftView } from '/svc/_console/draft.js';
import { openSecrets } from '/svc/_console/secrets.js';
import { ADVICE, TurnView } from '/svc/_console/turn.js';
import { $, element, get, handOn, plural, post, remove, write } from '/svc/_console/view.js';

const EVENTS =
  'assistant.start assistant.delta reasoning.delta tool.start tool.result permission permission.result phase usage final file error aborted end'.split(
    ' ',
  );
/** The option that lists earlier conversations. */
const EARLIER = 'earlier';

/** What an empty conversation says, by its mode. */
const HINTS = {
  data: 'Ask about the data, or say what to do. The page changes as the agent works.',
  full: 'Say what to change in the app. The page shows the draft. Nothing is live until you publish.',
};

let app = '';
/** On the git store agents can work on code too. */
let hasCode = false;
let conversations;
/** The one that is shown: `{ kind, id }`. What is new and about code will be one of the git store. */
let current;
let attachments;
/** Rows of the oldest turn that is loaded in part, and the oldest row of all. */
let rest = [];
let oldest = null;
let draft;
/** Turn id → its view and stream, of turns that have not ended. */
const running = new Map();
let onSignedOut = () => {};
/** A message that was not taken keeps its key: sent again, it is no second turn. */
let key = null;

const turnPath = (turnId) => `${conversations.path(current)}/turns/${turnId}`;
const newId = () =>
  [...crypto.getRandomValues(new Uint8Array(6))].map((byte) => byte.toString(16).padStart(2, '0')).join('');

/**
 * Shows the app's page and a conversation about it, the latest one unless it is named. Rejects as `get` does. `addressOf` a page
 * leads there with the session that its origin needs.
 */
export async function openChat(about, addressOf, signedOut) {
  onSignedOut = signedOut;
  closeChat();
  app = about.app;
  const record = await appRecord();
  write($('chat-app'), record.name);
  document.title = `${record.name} · svc`;
  $('chat-secrets').hidden = record.id === undefined;
  $('chat-secrets').onclick = () => openSecrets({ app, name: record.name, session: draft.shownSession });
  draft = new DraftView(app, complain, addressOf);
  draft.showLive();
  hasCode = record.backend === 'git';
  attachments = new Attachments(app, complain);
  conversations = new Conversations(app, hasCode);
  await conversations.read();
  if (about.id) while (!conversations.find(about) && conversations.hasMore) await conversations.readMore();
  await show(about.id ? about : latest());
  if (matchMedia('(min-width: 60rem)').matches) $('chat-message').focus();
  await readModels();
}

/** Ends the streams: turns go on without anybody who looks. */
export function closeChat() {
  for (const { source } of running.values()) source?.close();
  running.clear();
}

/** What the registry says of the app; where this browser may not ask it, what the app says of itself. */
async function appRecord() {
  try {
    return await get(`/svc/_apps/${app}`);
  } catch (error) {
    if (error.status !== 403) throw error;
    const { data } = await post('/svc/_tool/svc_describe', { app });
    return { name: data.name, backend: 'tarball' };
  }
}

const latest = () => conversations.all[0] ?? fresh();
const fresh = () => ({ kind: 'window', id: newId() });

const complain = (error) => {
  if (error?.status === 401) onSignedOut();
  const advice = ADVICE[error?.code];
  write($('chat-problem'), error ? `${error.message}${advice ? ` ${advice}` : ''}` : '');
};

async function attempt(work) {
  complain(null);
  try {
    return await work();
  } catch (error) {
    complain(error);
  }
}

// ---- Conversations -----------------------------------------------------------------------------------------------------

async function show({ kind, id }) {
  closeChat();
  current = { kind, id };
  key = null;
  const known = conversations.find(current);
  if (known) $('chat-mode').value = known.mode ?? 'data';
  drawConversations();
  $('chat-log').replaceChildren($('chat-earlier'));
  [rest, oldest] = [[], null];
  $('chat-earlier').hidden = true;
  attachments.clear();
  draft.forget();
  drawState();
  if (known) await readHistory();
  else drawHint();
}

/** The list of conversations, and what can be done with the one that is shown. */
function drawConversations() {
  const known = conversations.find(current);
  const options = conversations.all.map(({ key, title, id }) => new Option(title || id, key));
  if (!known) options.unshift(new Option('New conversation', ''));
  if (conversations.hasMore) options.push(new Option('Earlier conversations …', EARLIER));
  $('chat-window').replaceChildren(...options);
  $('chat-window').value = known?.key ?? '';
  $('chat-mode').disabled = known !== undefined || !hasCode;
  $('chat-delete').hidden = known === undefined;
  chooseMode();
}

/** Windows keep what is said about data, conversations of the git store what is said about code. */
function chooseMode() {
  const isFull = $('chat-mode').value === 'full';
  if (!conversations.find(current)) current.kind = isFull && hasCode ? 'conversation' : 'window';
  history.replaceState(null, '', `#chat=${app}&${current.kind}=${current.id}`);
  attachments.allow(current.kind === 'conversation');
  const hint = $('chat-log').querySelector('.hint');
  if (hint) write(hint, HINTS[$('chat-mode').value]);
}

function drawHint() {
  $('chat-log').append(element('li', 'hint', HINTS[$('chat-mode').value]));
}

async function readHistory() {
  const views = await readEarlier();
  const last = [...views.keys()].at(-1);
  if ($('chat-mode').value === 'full' && last && !running.has(last)) {
    const start = await firstEvent(await fetch(`${turnPath(last)}/events`));
    if (start?.sessionId) await draft.show(start.sessionId);
  }
  scrollDown(true);
}

/** Draws turns above those that are drawn: whole ones, at least one while there is any. Resolves with their views, by id. */
async function readEarlier() {
  const about = current;
  const views = new Map();
  do {
    const rows = await conversations.history(about, oldest);
    if (about !== current) return views;
    oldest = rows[0] ?? null;
    rest = [...rows, ...rest];
  } while (oldest !== null && oldest.seq > 1 && !rest.some(({ kind }) => kind === 'user'));
  const begin = rest.findIndex(({ kind }) => kind === 'user');
  const whole = begin === -1 ? [] : rest.splice(begin);
  const first = $('chat-log').querySelector('.turn');
  for (const row of whole) {
    if (row.kind === 'user') views.set(row.turnId, addTurn(row.text, row, first));
    else if (views.get(row.turnId)?.state !== 'running') views.get(row.turnId)?.showRow(row);
  }
  for (const [turnId, view] of views) {
    if (view.state === 'running') follow(turnId, view);
    else {
      const { error } = whole.find((row) => row.turnId === turnId && row.kind === 'user');
      if (error) view.fail(error);
      view.end(view.state);
    }
  }
  $('chat-earlier').hidden = oldest === null || oldest.seq === 1;
  return views;
}

/** What was in sight stays there. */
async function showEarlier() {
  const log = $('chat-log');
  const below = log.scrollHeight - log.scrollTop;
  const [view] = (await readEarlier()).values();
  log.scrollTop = log.scrollHeight - below;
  if ($('chat-earlier').hidden) view?.element.querySelector('summary, a')?.focus({ preventScroll: true });
}

function addTurn(message, { turnId, state = 'running', attachments: files = [] } = {}, before = null) {
  const view = new TurnView(message, (requestId, optionId) =>
    post(`${turnPath(view.turnId)}/permissions/${requestId}`, { optionId }),
  );
  if (files.length > 0) view.attach(attachmentLinks(app, files));
  view.turnId = turnId ?? null;
  view.state = state;
  $('chat-log').querySelector('.hint')?.remove();
  $('chat-log').insertBefore(view.element, before);
  return view;
}

// ---- Turns -------------------------------------------------------------------------------------------------------------

async function send() {
  const message = $('chat-message').value;
  if (message.trim() === '') return;
  const [runner, model] = JSON.parse($('chat-model').value || '[]');
  const about = current;
  const files = await attachments.uploaded();
  if (files === null || about !== current || message !== $('chat-message').value) return;
  const view = addTurn(message, { attachments: files });
  scrollDown(true);
  $('chat-message').value = '';
  key ??= newId();
  try {
    const body = { message, runner, model, attachments: files, detach: true, idempotencyKey: key };
    const start = await firstEvent(await conversations.send(about, $('chat-mode').value, body));
    if (!start) throw new Error('The gateway ended before the turn began.');
    key = null;
    attachments.clear();
    follow(start.turnId, view);
  } catch (error) {
    // It was not taken: the message is there to be sent again.
    if (error.status === 401) view.element.remove();
    else {
      view.fail({ code: error.code ?? 'UNREACHABLE', message: error.message });
      view.end();
    }
    if ($('chat-message').value === '') $('chat-message').value = message;
    complain(error.status === 401 ? error : null);
  }
  scrollDown(true);
  await attempt(async () => {
    await conversations.read();
    drawConversations();
  });
}

/** The `assistant.start` of a turn's stream, which is then left; null when it never came. Rejects with the gateway's error. */
async function firstEvent(response) {
  if (!response.ok) {
    const { error } = await response.json();
    throw Object.assign(new Error(error.message), { status: response.status, code: error.code });
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return null;
    text += value;
    const [, data] = /^data: ?(.*"assistant\.start".*)\r?\n/m.exec(text) ?? [];
    if (!data) continue;
    reader.cancel().catch(() => {});
    return JSON.parse(data);
  }
}

/** Shows a turn from its first event on; after a lost connection the browser goes on where it was. */
function follow(turnId, view) {
  const source = new EventSource(`${turnPath(turnId)}/events`);
  view.turnId = turnId;
  running.set(turnId, { view, source });
  drawState();
  const end = () => {
    source.close();
    running.delete(turnId);
    drawState();
    draft.refresh();
  };
  const handle = ({ data }) => {
    if (data === undefined) {
      if (source.readyState !== EventSource.CLOSED) view.say('The connection was lost; trying again …');
      else
        void attempt(() => get('/svc/_session').then(({ signedIn }) => (signedIn === false ? onSignedOut() : end())));
      return;
    }
    const event = JSON.parse(data);
    view.show(event);
    if (event.type === 'assistant.start' && event.sessionId) draft.show(event.sessionId);
    if (event.type === 'file') draft.changed(event);
    if (event.type === 'end') end();
    scrollDown();
  };
  // The connection's own `error` has no data, a turn's has.
  for (const type of EVENTS) source.addEventListener(type, handle);
}

const stop = () =>
  attempt(async () => {
    const [turnId] = running.keys();
    if (turnId !== undefined) await remove(turnPath(turnId));
  });

function drawState() {
  if (running.size === 0) handOn($('chat-stop'), $('chat-message'));
  $('chat-stop').hidden = running.size === 0;
  write($('chat-queue'), running.size > 1 ? `${plural(running.size - 1, 'message')} waiting` : '');
}

// ---- Models ------------------------------------------------------------------------------------------------------------

async function readModels() {
  let status;
  try {
    status = await get('/svc/_agents/status');
  } catch {
    // Who may not ask about agents gets the default one.
    $('chat-model').hidden = true;
    return;
  }
  const names = Object.keys(status).flatMap((name) => /^(.+)Available$/.exec(name)?.[1] ?? []);
  const there = names.filter((name) => status[`${name}Available`]);
  const groups = there.map((name) => {
    const group = element('optgroup', '');
    group.label = [name, status[`${name}Version`], status[`${name}SignedIn`] === false && '(not signed in)']
      .filter(Boolean)
      .join(' ');
    group.append(
      new Option(`${name}, its own choice`, JSON.stringify([name])),
      ...(status[`${name}Models`] ?? []).map(
        (model) => new Option(model.name ?? model.id, JSON.stringify([name, model.id])),
      ),
    );
    return group;
  });
  $('chat-model').hidden = groups.length === 0;
  $('chat-model').replaceChildren(new Option('Default agent', ''), ...groups);
  if (there.length === 0) complain(Object.assign(new Error('No agent was found.'), { code: 'NO_RUNNER' }));
}

// ---- What can be done --------------------------------------------------------------------------------------------------

function scrollDown(always = false) {
  const log = $('chat-log');
  if (always || log.scrollHeight - log.scrollTop - log.clientHeight < 160) log.scrollTop = log.scrollHeight;
}
$('chat-log').addEventListener('grown', () => scrollDown());

$('chat-form').addEventListener('submit', (event) => {
  event.preventDefault();
  void send();
});
$('chat-message').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  void send();
});
$('chat-stop').addEventListener('click', () => void stop());
$('chat-new').addEventListener('click', () => {
  void attempt(() => show(fresh()));
  $('chat-message').focus();
});
$('chat-window').addEventListener('change', () => {
  const chosen = conversations.all.find(({ key }) => key === $('chat-window').value);
  void attempt(async () => {
    if (chosen) return await show(chosen);
    await conversations.readMore();
    drawConversations();
  });
});
$('chat-mode').addEventListener('change', chooseMode);
$('chat-earlier')
  .querySelector('button')
  .addEventListener('click', () => void attempt(showEarlier));
$('chat-delete').addEventListener('click', () => {
  if (!confirm('Delete this conversation? What was said in it is lost.')) return;
  void attempt(async () => {
    await remove(conversations.path(current));
    conversations.forget(current);
    await show(latest());
    $('chat-window').focus();
  });
});
for (const side of ['talk', 'page']) {
  $(`chat-show-${side}`).addEventListener('click', () => {
    $('chat').dataset.side = side;
    for (const other of ['talk', 'page']) $(`chat-show-${other}`).setAttribute('aria-pressed', String(other === side));
  });
}
