/** A conversation with an agent beside the page of its app: windows, messages, turns that are followed, and the draft that they change. */
import { DraftView } from '/svc/_console/draft.js';
import { ADVICE, TurnView } from '/svc/_console/turn.js';
import { $, element, get, plural, post, remove, write } from '/svc/_console/view.js';

const EVENTS =
  'assistant.start assistant.delta reasoning.delta tool.start tool.result permission permission.result phase usage final file webhooks error aborted end'.split(
    ' ',
  );
/** The latest rows of a conversation that are drawn. */
const ROWS = 500;

let app = '';
let windowId = '';
let windows = [];
let draft;
/** Turn id → its view and stream, of turns that have not ended. */
const running = new Map();
let onSignedOut = () => {};
/** A message that was not taken keeps its key: sent again, it is no second turn. */
let key = null;

const root = () => `/svc/${app}/_chat`;
const windowPath = () => `${root()}/windows/${windowId}`;
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
  draft = new DraftView(app, complain, addressOf);
  draft.showLive();
  $('chat-mode').disabled = record.backend !== 'git';
  windows = await get(`${root()}/windows`);
  $('chat').dataset.git = String(record.backend === 'git');
  await show(about.window ?? latest()?.windowId ?? newId());
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

const latest = () => [...windows].sort((a, b) => b.updatedAt - a.updatedAt)[0];

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

// ---- Windows -----------------------------------------------------------------------------------------------------------

async function show(id) {
  closeChat();
  windowId = id;
  key = null;
  history.replaceState(null, '', `#chat=${app}&window=${id}`);
  const known = windows.find((window) => window.windowId === id);
  drawWindows();
  if (known) $('chat-mode').value = known.mode ?? 'data';
  $('chat-mode').disabled = known !== undefined || $('chat').dataset.git !== 'true';
  $('chat-delete').hidden = known === undefined;
  $('chat-log').replaceChildren();
  draft.forget();
  drawState();
  if (known) await readHistory();
  else drawHint();
}

function drawWindows() {
  const options = [...windows]
    .sort((a, b) => b.updatedAt - a.updatedAt)
    .map((window) => new Option(window.title || window.windowId, window.windowId));
  if (!windows.some((window) => window.windowId === windowId))
    options.unshift(new Option('New conversation', windowId));
  $('chat-window').replaceChildren(...options);
  $('chat-window').value = windowId;
}

function drawHint() {
  const hint = element('li', 'hint', 'Ask about the data, or say what to do: the page beside it follows.');
  $('chat-log').replaceChildren(hint);
}

async function readHistory() {
  const rows = await get(`${windowPath()}/history?limit=${ROWS}`);
  const turns = new Map();
  for (const row of rows) {
    if (row.kind === 'user') turns.set(row.turnId, addTurn(row.text, row));
    else if (turns.get(row.turnId)?.state !== 'running') turns.get(row.turnId)?.showRow(row);
  }
  for (const [turnId, view] of turns) {
    if (view.state === 'running') follow(turnId, view);
    else {
      const { error } = rows.find((row) => row.turnId === turnId && row.kind === 'user');
      if (error) view.fail(error);
      view.end(view.state);
    }
  }
  const last = [...turns.keys()].at(-1);
  if ($('chat-mode').value === 'full' && last && !running.has(last)) {
    const start = await firstEvent(await fetch(`${windowPath()}/turns/${last}/events`));
    if (start?.sessionId) await draft.show(start.sessionId);
  }
  scrollDown(true);
}

function addTurn(message, { turnId, state = 'running' } = {}) {
  const view = new TurnView(message, (requestId, optionId) =>
    post(`${windowPath()}/turns/${view.turnId}/permissions/${requestId}`, { optionId }),
  );
  view.turnId = turnId ?? null;
  view.state = state;
  $('chat-log').querySelector('.hint')?.remove();
  $('chat-log').append(view.element);
  return view;
}

// ---- Turns -------------------------------------------------------------------------------------------------------------

async function send() {
  const message = $('chat-message').value;
  if (message.trim() === '') return;
  const [runner, model] = JSON.parse($('chat-model').value || '[]');
  const view = addTurn(message);
  scrollDown(true);
  $('chat-message').value = '';
  key ??= newId();
  try {
    const body = { windowId, message, mode: $('chat-mode').value, runner, model, detach: true, idempotencyKey: key };
    const response = await fetch(root(), { method: 'POST', body: JSON.stringify(body) });
    const start = await firstEvent(response);
    if (!start) throw new Error('The gateway ended before the turn began.');
    key = null;
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
    windows = await get(`${root()}/windows`);
    drawWindows();
    const isKnown = windows.some((window) => window.windowId === windowId);
    $('chat-mode').disabled = isKnown || $('chat').dataset.git !== 'true';
    $('chat-delete').hidden = !isKnown;
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
  const source = new EventSource(`${windowPath()}/turns/${turnId}/events`);
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
    if (turnId !== undefined) await remove(`${windowPath()}/turns/${turnId}`);
  });

function drawState() {
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
  void attempt(() => show(newId()));
  $('chat-message').focus();
});
$('chat-window').addEventListener('change', () => void attempt(() => show($('chat-window').value)));
$('chat-delete').addEventListener('click', () => {
  if (!confirm('Delete this conversation? What was said in it is lost.')) return;
  void attempt(async () => {
    await remove(windowPath());
    windows = await get(`${root()}/windows`);
    await show(latest()?.windowId ?? newId());
  });
});
for (const side of ['talk', 'page']) {
  $(`chat-show-${side}`).addEventListener('click', () => {
    $('chat').dataset.side = side;
    for (const other of ['talk', 'page']) $(`chat-show-${other}`).setAttribute('aria-pressed', String(other === side));
  });
}
