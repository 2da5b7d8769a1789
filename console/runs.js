/** The latest runs of automations; the one that is open shows what it calls, while it runs. */
import { $, ago, arrange, clock, element, fact, get, post, took, write, writeState } from '/svc/_console/view.js';

const SHOWN = 20;
/** Of what a call was given, and of a value, on the page; `svc run show` has all of it. */
const ARGUMENT_CHARS = 160;
const VALUE_CHARS = 4000;

/** Run id → its record, its row and, where it was opened, what is in it. */
const runs = new Map();
const listeners = [];
let stream = null;
/** Something may have happened that no event told. */
let stale = true;
let opened = null;

/** `listener` is told the record of each run that starts or ends. */
export const onRun = (listener) => listeners.push(listener);

// ---- What there is ---------------------------------------------------------------------------------------------------

/** Reads the latest runs, unless events tell of them, and says their ages anew. */
export async function refreshRuns() {
  follow();
  if (stale) await read();
  draw();
}

/** Runs may have gone: those of an app that was removed. */
export function missRuns() {
  stale = true;
}

async function read() {
  stale = stream.readyState !== EventSource.OPEN;
  const known = [...runs.keys()];
  try {
    const latest = await get(`/svc/_runs?limit=${SHOWN}`);
    const kept = new Set([...latest.map(({ runId }) => runId), opened?.runId]);
    for (const runId of known) if (!kept.has(runId)) runs.delete(runId);
    for (const run of latest) put(run);
  } catch (error) {
    stale = true;
    throw error;
  }
}

/** One stream for all runs. A lost connection the browser opens again by itself, a refused one is tried at the next refresh. */
function follow() {
  if (opened && !opened.ended) watchOpened();
  if (stream && stream.readyState !== EventSource.CLOSED) return;
  stream = new EventSource('/svc/_runs/_events');
  const missed = () => {
    stale = true;
    refreshRuns().catch(() => {});
  };
  stream.addEventListener('open', missed);
  stream.addEventListener('missed', missed);
  for (const type of ['run.start', 'run.end']) {
    stream.addEventListener(type, ({ data }) => {
      const { run } = JSON.parse(data);
      put(run);
      draw();
      for (const listener of listeners) listener(run);
    });
  }
}

/** A page that nobody sees gives its connections back: a browser has six of them for all its tabs. */
export function stopFollowing() {
  stream?.close();
  stream = null;
  stale = true;
  opened?.source?.close();
}

function put(run) {
  const known = runs.get(run.runId);
  // What an event told may be newer than an answer that was under way.
  if (known?.run.endedAt && !run.endedAt) return;
  if (known) known.run = run;
  else runs.set(run.runId, { run, ...rowOf(run.runId) });
}

// ---- The list --------------------------------------------------------------------------------------------------------

function rowOf(runId) {
  const cells = {
    state: element('span', 'state'),
    ref: element('b', ''),
    outcome: element('span', 'outcome aside'),
    kind: element('span', 'aside wide'),
    took: element('span', 'number aside wide'),
    age: element('span', 'number aside'),
  };
  const row = element('button', 'row', ...Object.values(cells));
  const detail = element('div', 'detail');
  detail.id = `run-${runId}`;
  detail.hidden = true;
  row.type = 'button';
  row.setAttribute('aria-expanded', 'false');
  row.setAttribute('aria-controls', detail.id);
  row.addEventListener('click', () => {
    if (opened?.runId === runId) close();
    else void openRun(runId);
  });
  return { cells, row, detail, item: element('li', 'run', row, detail) };
}

export const outcomeOf = ({ summary, error }) => (error ? `${error.code}: ${error.message}` : (summary ?? ''));

function draw() {
  const newest = [...runs.values()].sort((a, b) => (a.run.runId < b.run.runId ? 1 : -1));
  for (const [at, { run }] of newest.entries()) {
    if (at >= SHOWN && run.runId !== opened?.runId) runs.delete(run.runId);
  }
  const kept = newest.filter(({ run }) => runs.has(run.runId));
  for (const { run, cells } of kept) {
    const at = run.startedAt ?? run.queuedAt;
    writeState(cells.state, run.state);
    write(cells.ref, run.ref);
    write(cells.outcome, outcomeOf(run));
    cells.outcome.classList.toggle('error', run.error !== null);
    write(cells.kind, run.trigger.kind);
    write(cells.took, run.endedAt && run.startedAt ? took(run.endedAt - run.startedAt) : '');
    write(cells.age, ago(at));
    cells.age.title = clock(at);
  }
  arrange(
    $('run-list'),
    kept.map(({ item }) => item),
  );
  $('no-runs').hidden = kept.length > 0;
}

// ---- One run ---------------------------------------------------------------------------------------------------------

/** Opens a run and brings it into view; the one that was open is closed. */
export async function openRun(runId) {
  close();
  try {
    if (!runs.has(runId)) put(await get(`/svc/_runs/${runId}`));
  } catch (error) {
    $('automation-problem').textContent = error.message;
    return;
  }
  const entry = runs.get(runId);
  opened = { runId, ended: false, source: null, entry, nodes: new Map(), ...panelOf(runId) };
  entry.row.setAttribute('aria-expanded', 'true');
  entry.detail.hidden = false;
  entry.detail.replaceChildren(opened.problem, opened.nodeList, opened.lines, opened.facts, opened.cancel);
  draw();
  entry.item.scrollIntoView({ block: 'nearest' });
  watchOpened();
}

function close() {
  if (!opened) return;
  opened.source?.close();
  opened.entry.row.setAttribute('aria-expanded', 'false');
  opened.entry.detail.hidden = true;
  opened.entry.detail.replaceChildren();
  opened = null;
}

function panelOf(runId) {
  const cancel = element('button', 'small', 'Cancel this run');
  cancel.type = 'button';
  const problem = element('p', 'error');
  problem.setAttribute('role', 'alert');
  cancel.addEventListener('click', () => {
    post(`/svc/_runs/${runId}/cancel`).catch((error) => write(problem, error.message));
  });
  const nodeList = element('ol', 'nodes');
  nodeList.setAttribute('aria-label', 'What it called');
  const lines = element('ul', 'lines');
  lines.setAttribute('aria-label', 'What it logged');
  return { cancel, problem, nodeList, lines, facts: element('dl', 'facts') };
}

/** Everything that was comes first, then what happens; after a lost connection all of it again. */
function watchOpened() {
  const shown = opened;
  if (shown.source && shown.source.readyState !== EventSource.CLOSED) return;
  const source = new EventSource(`/svc/_runs/${shown.runId}/events`);
  shown.source = source;
  const on = (type, handle) =>
    source.addEventListener(type, ({ data }) => {
      if (opened === shown) handle(data && JSON.parse(data));
    });
  source.addEventListener('error', () => {
    if (opened === shown && source.readyState === EventSource.CLOSED) void explain(shown);
  });
  on('open', () => {
    shown.nodes.clear();
    for (const list of [shown.nodeList, shown.lines]) list.replaceChildren();
    drawFacts(shown);
  });
  on('run.start', ({ run }) => {
    put(run);
    draw();
    drawFacts(shown);
  });
  on('node.start', (node) => drawNode(shown, node));
  on('node.delta', ({ ordinal, delta }) => shown.nodes.get(ordinal)?.said.append(delta));
  on('node.end', ({ node }) => drawNode(shown, node));
  on('log', ({ line }) => shown.lines.append(element('li', '', `${line?.level ?? 'info'}  ${line?.msg ?? ''}`)));
  on('missed', ({ events }) => shown.lines.append(element('li', '', `${events} events were left out.`)));
  on('run.end', ({ run }) => {
    shown.ended = true;
    source.close();
    put(run);
    draw();
    drawFacts(shown);
  });
}

/** A run of which nothing is kept cannot be shown: its history may say so. Other refusals pass, and it is tried again. */
async function explain(shown) {
  try {
    await get(`/svc/_runs/${shown.runId}`);
  } catch (error) {
    shown.ended = error.status === 404;
    write(shown.problem, error.message);
  }
}

function drawNode({ nodes, nodeList }, node) {
  let shown = nodes.get(node.ordinal);
  if (!shown) {
    shown = {
      state: element('span', 'state'),
      given: element('code', 'aside', short(node.args, ARGUMENT_CHARS)),
      time: element('span', 'number aside'),
      said: element('p', 'said'),
      why: element('p', 'error'),
    };
    const { state, given, time, said, why } = shown;
    nodes.set(node.ordinal, shown);
    nodeList.append(element('li', '', state, element('b', '', node.name), given, time, said, why));
  }
  writeState(shown.state, node.endedAt ? (node.ok ? 'ok' : 'error') : 'running');
  if (node.endedAt) write(shown.time, took(node.endedAt - node.startedAt));
  if (node.error) write(shown.why, `${node.error.code}: ${node.error.message}`);
}

function drawFacts({ entry: { run }, problem, facts, cancel }) {
  const { kind, origin } = run.trigger;
  write(problem, run.error ? outcomeOf(run) : '');
  const values = [
    ['Fired by', origin === null ? kind : `${kind}, ${typeof origin === 'number' ? clock(origin) : origin}`],
    ['Run', run.runId],
    ['Queued', clock(run.queuedAt)],
    ['Summary', run.summary],
    ['Input', run.input],
    ['Output', run.output],
  ];
  facts.replaceChildren(
    ...values
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([term, value]) => fact(term, short(value, VALUE_CHARS))),
  );
  cancel.hidden = run.endedAt !== null;
}

function short(value, chars) {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return text.length > chars ? `${text.slice(0, chars - 1)}…` : text;
}
