/** The page of the bookmarks: a list that is narrowed by text, tag and state. */
import { askForImport, edit } from './dialogs.js';
import { createRow, fillRow } from './row.js';
import { readTags, toAddress } from './text.js';
import { $, confirmed, create, say, show, toast, toastUnread } from './ui.js';

const { svc } = window;
const PAGE = 50;
const MOST = 1000;

/** What narrows the list; kept in the address, so that a reload shows the same. */
const filter = { text: '', tag: '', state: 'all' };
/** How many are shown: more after each click on "Show more". */
let shown = PAGE;
let reads = 0;

// ---- Data ------------------------------------------------------------------------------------------------------------

async function refresh() {
  const turn = ++reads;
  const { text, tag, state } = filter;
  const input = { state, limit: Math.min(shown + 1, MOST), ...(text && { text }), ...(tag && { tag }) };
  try {
    const [bookmarks, tags, stats] = await Promise.all([
      svc.read({ query: 'list', input }),
      svc.read({ query: 'tags' }),
      svc.read({ query: 'stats' }),
    ]);
    if (turn !== reads) return;
    renderList(bookmarks, stats);
    renderTags(tags);
    renderStats(stats);
  } catch (error) {
    toastUnread(error);
  }
}

/** Resolves to the action's body, or null when it failed and the page has said why. `once`: what may be sent again. */
async function write(action, input, once = false) {
  try {
    return await svc.write({ action, input, once });
  } catch (error) {
    toast(error.message);
    return null;
  } finally {
    await refresh();
  }
}

async function add(url) {
  const input = { url, tags: readTags($('new-tags').value), later: $('new-later').checked };
  const bookmark = await write('add', input, true);
  if (!bookmark) return;
  // Unless somebody has typed the next one by now.
  if (toAddress($('url').value) === url) $('add').reset();
  say(`Kept: ${bookmark.host}`);
  // The page itself knows its title best. It may take a while, and may say nothing.
  await svc.write({ action: 'fetchTitle', input: { id: bookmark.id } }).catch(() => {});
}

// ---- View ------------------------------------------------------------------------------------------------------------

/** Rows by the id of their bookmark: they live as long as it is shown, so that the focus survives a change. */
const rows = new Map();
const deeds = {
  later: (bookmark) => write('update', { id: bookmark.id, later: !bookmark.later }),
  change: (bookmark) => edit(bookmark, write, () => deeds.remove(bookmark)),
  remove: async ({ id, title, url }) => {
    if (!(await confirmed(`Remove “${title || url}”?`))) return;
    if (!(await write('remove', { id }))) return;
    say('Removed');
    if (document.activeElement === document.body) $('search').focus();
  },
  tag: (tag) => narrow({ tag: filter.tag === tag ? '' : tag }),
};

function renderList(bookmarks, { total }) {
  const elements = bookmarks.slice(0, shown).map((bookmark) => {
    const row = rows.get(bookmark.id) ?? createRow(deeds);
    rows.set(bookmark.id, row);
    return fillRow(row, bookmark, deeds);
  });
  show($('list'), elements);
  for (const [id, row] of rows) if (!row.element.isConnected) rows.delete(id);
  $('list').hidden = elements.length === 0;
  $('more').hidden = bookmarks.length <= shown || shown >= MOST - 1;
  $('empty').hidden = elements.length > 0;
  $('empty').textContent =
    total === 0
      ? 'No bookmarks yet. Paste an address above, or import existing ones.'
      : filter.text || filter.tag
        ? 'No matches. Try fewer words or another tag.'
        : filter.state === 'later'
          ? 'Nothing left to read.'
          : 'Every page was there at the last check.';
}

function renderTags(tags) {
  $('tag-side').hidden = tags.length === 0;
  $('known-tags').replaceChildren(...tags.map(({ tag }) => create('option', { value: tag })));
  show(
    $('tags'),
    tags.map(({ tag, count }) => {
      const button = create('button', { className: 'tag', type: 'button' }, tag, create('b', { textContent: count }));
      button.setAttribute('aria-pressed', String(tag === filter.tag));
      button.addEventListener('click', () => deeds.tag(tag));
      return create('li', {}, button);
    }),
  );
}

function renderStats({ total, later, dead }) {
  $('total').textContent = total || '';
  $('later').textContent = later || '';
  $('dead').textContent = dead || '';
  $('dead-choice').hidden = dead === 0 && filter.state !== 'dead';
  $('summary').textContent = total === 0 ? 'Worth coming back to.' : `${total} kept, ${later} to read`;
}

// ---- Input -----------------------------------------------------------------------------------------------------------

/** Narrows the list by these, and the others as before. */
function narrow(change) {
  Object.assign(filter, change);
  shown = PAGE;
  const query = new URLSearchParams(
    Object.entries(filter).filter(([key, value]) => value && `${key}=${value}` !== 'state=all'),
  );
  history.replaceState(null, '', query.size === 0 ? location.pathname : `#${query}`);
  return refresh();
}

$('add').addEventListener('submit', (event) => {
  event.preventDefault();
  const url = toAddress($('url').value);
  if (url) void add(url);
  else toast('Paste the address of a web page, such as example.org.');
  $('url').focus();
});

$('state').addEventListener('change', (event) => narrow({ state: event.target.value }));

let typing;
$('search').addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(() => narrow({ text: $('search').value.trim() }), 150);
});

$('more').addEventListener('click', () => {
  shown += PAGE;
  void refresh();
});

$('open-import').addEventListener('click', () => askForImport(write));

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (event.target.matches('input:not([type=radio], [type=checkbox]), textarea, select')) return;
  const field = { n: 'url', '/': 'search' }[event.key];
  if (!field) return;
  event.preventDefault();
  $(field).focus();
});

for (const [key, value] of new URLSearchParams(location.hash.slice(1))) if (key in filter) filter[key] = value;
$('search').value = filter.text;
const chosen = document.querySelector(`[name=state][value="${CSS.escape(filter.state)}"]`);
if (chosen) chosen.checked = true;
else filter.state = 'all';
svc.onChange(refresh);
await refresh();
if (matchMedia('(hover: hover)').matches) $('url').focus();
