/** The page of the todo list: what the gateway holds, with the writes still on their way laid over it. */
const { svc } = window;
const $ = (id) => document.getElementById(id);

/** What the gateway told last. */
let todos = [];
/** Writes that the gateway has not answered yet, each as a function from the list before it to the list after it. */
const pending = new Set();
/** The name of who has the page open; null for the administrator. */
const me = svc.user?.name ?? null;
/** Whether several people have this list: the rows then say whose they are. */
let isShared = false;
let filter = 'all';
let unfollow = () => {};
let drafts = 0;

const isDone = (todo) => todo.doneAt !== null;
const isShown = (todo) => filter === 'all' || (filter === 'done') === isDone(todo);

// ---- Data ------------------------------------------------------------------------------------------------------------

/** Has the list shown now and whenever anybody changes it. */
function follow() {
  unfollow();
  const show = (list) => {
    todos = list;
    renderList();
  };
  unfollow = svc.live('list', { filter }, show, tell);
}

/**
 * Shows a write at once and sends it, and takes it back if it was refused. Answers whether it was taken. The list with it may come
 * before the answer or after: a preview of what is there already changes nothing.
 */
async function write(preview, send) {
  pending.add(preview);
  renderList();
  try {
    await send();
    todos = preview(todos);
    return true;
  } catch (error) {
    tell(error);
    return false;
  } finally {
    pending.delete(preview);
    renderList();
  }
}

function add(title) {
  const draft = { id: `draft-${++drafts}`, title, createdAt: Date.now(), doneAt: null, addedBy: me, doneBy: null };
  return write(
    (list) => (list.some(({ id }) => id === draft.id) ? list : [draft, ...list]),
    async () => {
      const { id } = await svc.write({ action: 'add', input: { title }, once: true });
      // Its row stays, if the filter shows it.
      if (rows.has(draft.id)) rows.set(id, rows.get(draft.id));
      rows.delete(draft.id);
      draft.id = id;
      say(`Added: ${title}`);
    },
  );
}

function update(id, patch) {
  const { done, ...rest } = patch;
  const change = done === undefined ? rest : { ...rest, doneAt: done ? Date.now() : null, doneBy: done ? me : null };
  return write(
    (list) => list.map((todo) => (todo.id === id ? { ...todo, ...change } : todo)),
    () => svc.write({ action: 'update', input: { id, ...patch } }),
  );
}

async function remove({ id, title }) {
  if (!(await confirmed(`Remove “${title}”?`))) return;
  const removed = await write(
    (list) => list.filter((todo) => todo.id !== id),
    () => svc.write({ action: 'remove', input: { id } }),
  );
  if (removed) say(`Removed: ${title}`);
}

async function clearDone() {
  if (!(await confirmed('Remove everything that is done?'))) return;
  await write(
    (list) => list.filter((todo) => !isDone(todo)),
    () => svc.write({ action: 'remove', input: { done: true } }),
  );
}

// ---- View ------------------------------------------------------------------------------------------------------------

/** Rows by the id of their todo: they live as long as it is shown, so that focus and animations survive a change. */
const rows = new Map();
let arrivals = false;

function createRow() {
  const element = $('row').content.firstElementChild.cloneNode(true);
  const [box, title, who, button] = element.children;
  const row = { element, box, title, who, button, todo: null };
  element.classList.toggle('new', arrivals);
  box.addEventListener('change', () => update(row.todo.id, { done: box.checked }));
  title.addEventListener('click', () => edit(row));
  button.addEventListener('click', () => remove(row.todo));
  element.addEventListener('keydown', (event) => {
    if (event.target.className === 'edit') return;
    if (event.key === 'Delete') void remove(row.todo);
    else if (event.key === 'Enter' && event.target === box) edit(row);
  });
  return row;
}

function renderRow(todo) {
  const row = rows.get(todo.id) ?? createRow();
  rows.set(todo.id, row);
  row.todo = todo;
  row.element.classList.toggle('done', isDone(todo));
  // Not stored yet.
  row.element.inert = typeof todo.id === 'string';
  row.box.checked = isDone(todo);
  row.box.setAttribute('aria-label', todo.title);
  row.title.textContent = todo.title;
  row.who.textContent = isShared ? whoOf(todo) : '';
  row.button.setAttribute('aria-label', `Remove: ${todo.title}`);
  return row.element;
}

/** Who added it, and who ticked it off; the administrator has no name. */
function whoOf({ addedBy, doneAt, doneBy }) {
  const named = (name) => (name === me ? 'you' : name);
  const added = addedBy === null ? [] : [`from ${named(addedBy)}`];
  const done = doneAt === null || doneBy === null ? [] : [`done by ${named(doneBy)}`];
  return [...added, ...done].join(', ');
}

function renderList() {
  const all = [...pending].reduce((before, preview) => preview(before), todos);
  const names = all.flatMap(({ addedBy, doneAt, doneBy }) => (doneAt === null ? [addedBy] : [addedBy, doneBy]));
  isShared = new Set([me, ...names]).size > 1;
  const shown = all.filter(isShown).sort((a, b) => isDone(a) - isDone(b) || b.createdAt - a.createdAt);
  const list = $('list');
  const focused = document.activeElement;
  const index = [...list.children].indexOf(focused.closest('li'));

  const elements = shown.map(renderRow);
  elements.forEach((element, at) => {
    if (list.children[at] !== element) list.insertBefore(element, list.children[at] ?? null);
  });
  while (list.children.length > elements.length) list.lastElementChild.remove();
  for (const [id, row] of rows) if (!row.element.isConnected) rows.delete(id);
  arrivals = true;

  list.hidden = shown.length === 0;
  $('empty').hidden = shown.length > 0;
  $('empty').textContent = { all: 'Nothing to do yet.', open: 'All done. Enjoy your day!', done: 'Nothing done yet.' }[
    filter
  ];

  // Moving a row takes the focus from it; removing one leaves the focus nowhere.
  if (index < 0 || focused === document.activeElement) return;
  if (focused.isConnected) focused.focus();
  else (list.children[Math.min(index, elements.length - 1)]?.firstElementChild ?? $('title')).focus();
}

function renderStats({ total, open, done }) {
  $('total').textContent = total || '';
  $('open').textContent = open || '';
  $('done').textContent = done || '';
  $('summary').textContent =
    total === 0 ? 'A clean slate.' : open === 0 ? 'Everything is done.' : `${open} to do, ${done} done`;
  $('clear').hidden = done === 0;
  $('progress').style.setProperty('--share', total && done / total);
  $('progress').parentElement.classList.toggle('full', total > 0 && open === 0);
}

/** Puts a text field in the place of the title until Enter, Escape or a click elsewhere; again when its text was not stored. */
function edit(row, value = row.todo.title) {
  const { todo, title } = row;
  const field = Object.assign(document.createElement('input'), {
    className: 'edit',
    value,
    maxLength: 200,
  });
  field.setAttribute('aria-label', 'Title');
  let ended = false;
  const end = async (keep) => {
    if (ended) return;
    ended = true;
    const text = field.value.trim();
    const refocus = document.activeElement === field;
    field.replaceWith(title);
    if (refocus) title.focus();
    if (!keep || !text || text === todo.title || (await update(todo.id, { title: text }))) return;
    if (title.isConnected) edit(row, text);
  };
  field.addEventListener('blur', () => end(true));
  field.addEventListener('keydown', (event) => {
    if (event.isComposing || (event.key !== 'Enter' && event.key !== 'Escape')) return;
    // Else the same key press would go on to the button that gets the focus, and open the field again.
    event.preventDefault();
    void end(event.key === 'Enter');
  });
  title.replaceWith(field);
  // Somebody may be writing elsewhere by now.
  if (document.activeElement.matches('input:not([type=checkbox])')) return;
  field.focus();
  field.select();
}

/** Asks before what cannot be undone, as `confirmation: "required"` in the manifest wants it. */
function confirmed(question) {
  const dialog = $('confirm');
  $('question').textContent = question;
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}

function say(text) {
  $('said').textContent = text;
}

let toastTimer;
function tell(error) {
  $('toast').textContent = error.message;
  $('toast').hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => {
    $('toast').hidden = true;
  }, 5000);
}

// ---- Input -----------------------------------------------------------------------------------------------------------

$('add').addEventListener('submit', async (event) => {
  event.preventDefault();
  const title = $('title').value.trim();
  $('title').value = '';
  if (!title || (await add(title))) return;
  // What was not stored comes back, before what has been typed since.
  $('title').value = [title, $('title').value].filter(Boolean).join(' ');
});

$('filter').addEventListener('change', (event) => {
  filter = event.target.value;
  arrivals = false;
  renderList();
  arrivals = false;
  follow();
});

$('clear').addEventListener('click', clearDone);

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $('confirm').open) return;
  const typing = event.target.matches('input:not([type=checkbox], [type=radio])');
  if (!typing && (event.key === 'n' || event.key === '/')) {
    event.preventDefault();
    $('title').focus();
  }
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
  const stops = [$('title'), ...$('list').querySelectorAll('input[type=checkbox]')];
  const row = event.target.closest('li');
  const at = stops.indexOf(row ? row.firstElementChild : event.target);
  if (at < 0 || event.target.className === 'edit') return;
  event.preventDefault();
  stops[at + (event.key === 'ArrowDown' ? 1 : -1)]?.focus();
});

follow();
svc.live('stats', {}, renderStats, tell);
if (matchMedia('(hover: hover)').matches) $('title').focus();
