/** The page of the reader: the feeds at the side, the items of one choice beside them. Everything is drawn as text. */
import { $, attempt, confirmed, el, iconButton, redraw, say, toast } from './ui.js';

const { svc } = window;
const PAGE = 50;
const MOST = 500;
const VIEWS = { unread: 'Unread', starred: 'Starred', all: 'Everything' };
const EMPTY = {
  unread: 'You have read everything.',
  starred: 'Nothing here yet. Mark what you want to find again with the star.',
  all: 'This feed has no items yet.',
};

/** What the gateway told last, and the marks that it has not answered yet, each as a function from an item to the item after it. */
let feeds = null;
let page = null;
const marks = new Set();
let view = 'unread';
/** The feed that is shown alone, or null. */
let only = null;
let wanted = PAGE;
/** Unread items that were read just now stay in the list until something else is chosen. */
let kept = new Set();
let unfollow = () => {};

// ---- Data ------------------------------------------------------------------------------------------------------------

const tell = (error) => toast(error.message);

function takeFeeds(list) {
  const has = (all) => all?.some(({ id }) => id === only);
  const isGone = has(feeds) && !has(list);
  if (feeds === null && list.length === 0 && matchMedia('(hover: hover)').matches) $('url').focus();
  feeds = list;
  if (isGone) choose({ feed: null });
  render();
}

function takeItems({ items, next }) {
  const before = page?.items ?? [];
  const stay = before.filter(({ id }) => kept.has(id) && !items.some((item) => item.id === id));
  const all = [...items, ...stay.map((item) => marked(item, { read: true }))];
  page = { items: all.sort((a, b) => b.publishedAt - a.publishedAt || b.id - a.id), next };
  render();
}

/** Has the items shown now and whenever they change, until something else is chosen. */
function follow() {
  unfollow();
  const input = { show: view, limit: wanted, ...(only === null ? {} : { feed: only }) };
  unfollow = svc.live('items', input, takeItems, tell);
}

function choose({ show = view, feed = only }) {
  view = show;
  only = feed;
  wanted = PAGE;
  kept = new Set();
  follow();
}

const marked = (item, { read, starred = item.starred }) => ({
  ...item,
  starred,
  readAt: read === undefined ? item.readAt : read ? (item.readAt ?? Date.now()) : null,
});

/** Shows it at once, and takes it back when it was not stored. */
async function mark({ id }, change) {
  const one = (item) => (item.id === id ? marked(item, change) : item);
  if (view === 'unread' && change.read) kept.add(id);
  marks.add(one);
  render();
  if (await attempt(() => svc.write({ action: 'mark', input: { id, ...change } }))) page.items = page.items.map(one);
  marks.delete(one);
  render();
}

// ---- View ------------------------------------------------------------------------------------------------------------

const date = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric' });
const ago = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' });

function since(time) {
  const minutes = Math.round((time - Date.now()) / 60_000);
  if (minutes > -60) return ago.format(Math.min(minutes, 0), 'minute');
  if (minutes > -24 * 60) return ago.format(Math.round(minutes / 60), 'hour');
  if (minutes > -7 * 24 * 60) return ago.format(Math.round(minutes / 60 / 24), 'day');
  return date.format(time);
}

const isWeb = (url) => /^https?:\/\//.test(url ?? '');

function render() {
  if (feeds === null || page === null) return;
  const items = page.items.map((item) => [...marks].reduce((before, one) => one(before), item));
  const feed = feeds.find(({ id }) => id === only);
  const unread = feeds.reduce((sum, one) => sum + one.unread, 0);
  redraw(
    $('views'),
    Object.entries(VIEWS).map(([key, name]) => drawChoice({ name, key, count: key === 'unread' ? unread : 0 })),
  );
  redraw(
    $('feeds'),
    feeds.map(({ id, title, unread: count, problem }) => drawChoice({ name: title, feed: id, count, problem })),
    $('url'),
  );
  $('feeds-title').hidden = feeds.length === 0;
  $('refreshing').hidden = feeds.length === 0;
  $('heading').textContent = feed ? feed.title : VIEWS[view];
  document.title = unread > 0 ? `(${unread}) Feeds` : 'Feeds';
  $('edit').hidden = !feed;
  $('trouble').hidden = !feed?.problem;
  $('trouble').textContent = feed?.problem ? `It could not be fetched ${since(feed.checkedAt)}. ${feed.problem}` : '';
  $('read-all').hidden = !items.some(({ readAt }) => readAt === null);
  redraw($('items'), items.map(drawItem), $('heading'));
  $('items').hidden = items.length === 0;
  $('keys').hidden = items.length === 0;
  $('more').hidden = page.next === null || wanted === MOST;
  $('empty').hidden = items.length > 0;
  $('empty').textContent =
    feeds.length === 0
      ? 'You follow nothing yet. Paste the address of a site that you like to read: a blog, a newspaper, a podcast. If it has a feed, it is found.'
      : EMPTY[view];
}

function drawChoice({ name, key, feed = null, count, problem = null }) {
  const current = key === undefined ? only === feed : only === null && view === key;
  const button = el(
    'button',
    {
      type: 'button',
      className: 'choice',
      'aria-current': current ? 'true' : 'false',
      'data-focus': `choice-${key ?? feed}`,
    },
    el('span', { textContent: name }),
  );
  if (problem !== null)
    button.append(
      el('b', { className: 'wrong', textContent: '!', title: problem, 'aria-label': 'could not be fetched' }),
    );
  if (count > 0) button.append(el('b', { textContent: count, 'aria-label': `${count} unread` }));
  button.addEventListener('click', () =>
    choose(key === undefined ? { feed, show: view === 'starred' ? 'unread' : view } : { show: key, feed: null }),
  );
  return el('li', {}, button);
}

function drawItem(item) {
  const { id, url, title, summary, feedTitle, publishedAt, readAt, starred } = item;
  const properties = { className: 'title', textContent: title, 'data-focus': `title-${id}` };
  const link = isWeb(url)
    ? el('a', { ...properties, href: url, target: '_blank', rel: 'noopener noreferrer' })
    : el('span', { ...properties, tabIndex: 0 });
  const open = () => {
    if (readAt === null) void mark(item, { read: true });
  };
  link.addEventListener('click', open);
  link.addEventListener('auxclick', open);
  const read = iconButton(
    readAt === null ? 'check' : 'undo',
    readAt === null ? 'Mark as read' : 'Mark as unread',
    () => mark(item, { read: readAt === null }),
    {
      'data-focus': `read-${id}`,
    },
  );
  const star = iconButton('star', 'Star', () => mark(item, { starred: !starred }), {
    className: starred ? 'icon starred' : 'icon',
    'aria-pressed': String(starred),
    'data-focus': `star-${id}`,
  });
  const time = el('time', { dateTime: new Date(publishedAt).toISOString(), textContent: since(publishedAt) });
  const row = el(
    'li',
    { className: readAt === null ? 'item' : 'item read' },
    el(
      'div',
      { className: 'words' },
      el('p', { className: 'meta' }, feedTitle, ' · ', time),
      link,
      el('p', { className: 'summary', textContent: summary }),
    ),
    el('div', { className: 'marks' }, read, star),
  );
  row.addEventListener('keydown', (event) => onItemKey(event, item));
  return row;
}

// ---- Input -----------------------------------------------------------------------------------------------------------

function onItemKey(event, item) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'm') void mark(item, { read: item.readAt === null });
  if (event.key === 's') void mark(item, { starred: !item.starred });
}

document.addEventListener('keydown', (event) => {
  if (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    event.target.matches('input') ||
    document.querySelector('dialog[open]')
  )
    return;
  if (event.key !== 'j' && event.key !== 'k') return;
  const titles = [...$('items').querySelectorAll('.title')];
  const at = titles.indexOf(event.target.closest('li.item')?.querySelector('.title'));
  titles[Math.max(0, at + (event.key === 'j' ? 1 : -1))]?.focus();
});

function problem(field, text) {
  $(`${field}-problem`).hidden = text === '';
  $(`${field}-problem`).textContent = text;
}

$('url').addEventListener('input', () => problem('url', ''));
$('subscribe').addEventListener('submit', async (event) => {
  event.preventDefault();
  problem('url', '');
  event.submitter.disabled = true;
  say('Looking for the feed …');
  try {
    const { feed, added } = await svc.write({ action: 'subscribe', input: { url: $('url').value.trim() } });
    $('url').value = '';
    say(`You follow ${feed.title}, with ${added} items.`);
    choose({ feed: feed.id, show: 'unread' });
  } catch (error) {
    problem('url', error.message);
    $('url').focus();
  } finally {
    event.submitter.disabled = false;
  }
});

$('refresh').addEventListener('click', (event) =>
  attempt(async () => {
    $('refresh').textContent = 'Fetching …';
    try {
      const { added, failed } = await svc.write({ action: 'refresh', input: {} });
      say(`${added} new${failed > 0 ? `, ${failed} could not be fetched` : ''}.`);
    } finally {
      $('refresh').textContent = 'Refresh now';
    }
  }, event.currentTarget),
);

$('read-all').addEventListener('click', (event) =>
  attempt(async () => {
    const upTo = Math.max(...page.items.map(({ id }) => id));
    await svc.write({ action: 'markAllRead', input: only === null ? { upTo } : { feed: only, upTo } });
    choose({});
  }, event.currentTarget),
);

$('edit').addEventListener('click', () => {
  const feed = feeds.find(({ id }) => id === only);
  $('title').value = feed.title;
  $('from').textContent = feed.url;
  problem('title', '');
  $('editor').showModal();
});
$('cancel').addEventListener('click', () => $('editor').close());
$('rename').addEventListener('submit', async (event) => {
  event.preventDefault();
  try {
    await svc.write({ action: 'rename', input: { id: only, title: $('title').value.trim() } });
    $('editor').close();
  } catch (error) {
    problem('title', error.message);
  }
});
$('unsubscribe').addEventListener('click', async () => {
  $('editor').close();
  if (
    !(await confirmed(
      `Stop following “${$('title').value}”? Its items go too, the starred ones as well.`,
      'Stop following',
    ))
  )
    return;
  if (await attempt(() => svc.write({ action: 'unsubscribe', input: { id: only } }))) choose({ feed: null });
});

$('more').addEventListener('click', () => {
  wanted = Math.min(wanted + PAGE, MOST);
  follow();
});

follow();
svc.live('feeds', {}, takeFeeds, tell);
