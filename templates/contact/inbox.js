/** The inbox: messages that came by the form and by the webhook, the newest first. */
import { $, attempt, confirmed, el, iconButton, reader, redraw, say } from './ui.js';

const { svc } = window;
const PAGE = 50;

let show = 'open';
let search = '';
let wanted = PAGE;
/** The message that is open, or null. */
let opened = null;

// ---- Data ------------------------------------------------------------------------------------------------------------

const refresh = reader(async () => {
  const asked = { show, search };
  const [counts, page] = await Promise.all([svc.read({ query: 'counts' }), readPages(wanted)]);
  const refused = counts.refused > 0 ? await svc.read({ query: 'refused' }) : [];
  if (asked.show !== show || asked.search !== search) return;
  render(counts, page, refused);
});

async function readPages(count) {
  const messages = [];
  let next = null;
  do {
    const limit = Math.min(200, count - messages.length);
    const input = { show, limit, ...(search ? { search } : {}), ...(next ? { before: next } : {}) };
    const answer = await svc.read({ query: 'inbox', input });
    messages.push(...answer.messages);
    next = answer.next;
  } while (next && messages.length < count);
  return { messages, next };
}

async function mark(id, change, done) {
  if (await attempt(() => svc.write({ action: 'mark', input: { id, ...change } }))) say(done);
  await refresh();
}

async function remove({ id, name }) {
  if (!(await confirmed(`Remove the message of ${name}?`))) return;
  if (await attempt(() => svc.write({ action: 'remove', input: { id } }))) say('Removed.');
  await refresh();
}

function toggle(message) {
  opened = opened === message.id ? null : message.id;
  if (opened !== null && message.readAt === null) void mark(message.id, { read: true }, '');
  else void refresh();
}

// ---- View ------------------------------------------------------------------------------------------------------------

const today = new Intl.DateTimeFormat(undefined, { hour: 'numeric', minute: '2-digit' });
const earlier = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric' });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'short' });
const isToday = (time) => new Date(time).toDateString() === new Date().toDateString();
const nameTime = (time) => (isToday(time) ? today : earlier).format(time);

function render({ unread, open, archived, refused: refusedCount }, { messages, next }, refused) {
  document.title = unread > 0 ? `(${unread}) Inbox` : 'Inbox';
  $('summary').textContent = unread > 0 ? `${unread} unread` : 'Nothing unread.';
  $('open').textContent = open || '';
  $('archived').textContent = archived || '';
  redraw($('list'), messages.map(drawMessage), $('search'));
  $('list').hidden = messages.length === 0;
  $('more').hidden = next === null;
  $('empty').hidden = messages.length > 0;
  $('empty').textContent =
    search !== ''
      ? `No message has “${search}” in it.`
      : show === 'archived'
        ? 'The archive is empty. What you have dealt with can go here.'
        : 'No messages. They arrive here from the contact form, and from other sites by the webhook of the automation “inbox”.';
  renderRefused(refusedCount, refused);
}

function renderRefused(count, refused) {
  $('refused').hidden = count === 0;
  $('refused').querySelector('summary').textContent =
    count === 1 ? 'One invalid post to the webhook' : `${count} invalid posts to the webhook`;
  $('refused')
    .querySelector('ul')
    .replaceChildren(...refused.map(({ reason, refusedAt }) => el('li', {}, `${nameTime(refusedAt)}: ${reason}`)));
}

function drawMessage(message) {
  const { id, name, email, message: text, source, receivedAt, readAt, archivedAt } = message;
  const isOpen = opened === id;
  const head = el(
    'button',
    {
      type: 'button',
      className: 'head',
      'aria-expanded': String(isOpen),
      'data-focus': `head-${id}`,
      onclick: () => toggle(message),
    },
    el(
      'span',
      { className: 'from' },
      readAt === null ? el('span', { className: 'dot', role: 'img', 'aria-label': 'Unread' }) : '',
      name,
    ),
    el('time', {
      dateTime: new Date(receivedAt).toISOString(),
      title: exact.format(receivedAt),
      textContent: nameTime(receivedAt),
    }),
    el('span', { className: 'excerpt', textContent: isOpen ? '' : text.slice(0, 200) }),
  );
  const item = el('li', { className: readAt === null ? 'message unread' : 'message' }, head);
  if (!isOpen) return item;
  const answer = el('a', { href: `mailto:${encodeURIComponent(email).replace('%40', '@')}`, textContent: email });
  const way = source === 'webhook' ? 'by the webhook' : 'by the form';
  const archive =
    archivedAt === null
      ? iconButton('box', 'Archive', () => mark(id, { archived: true }, 'Archived.'))
      : iconButton('undo', 'Back to the inbox', () => mark(id, { archived: false }, 'Back in the inbox.'));
  item.append(
    el(
      'div',
      { className: 'body' },
      el('p', { className: 'meta' }, answer, ` · ${exact.format(receivedAt)}, ${way}`),
      el('p', { className: 'text', textContent: text }),
      el(
        'div',
        { className: 'row' },
        el('button', {
          type: 'button',
          className: 'quiet',
          textContent: 'Mark as unread',
          onclick: () => {
            opened = null;
            return mark(id, { read: false }, 'Unread.');
          },
        }),
        archive,
        iconButton('cross', 'Remove', () => remove(message), { className: 'icon delete' }),
      ),
    ),
  );
  return item;
}

// ---- Input -----------------------------------------------------------------------------------------------------------

$('show').addEventListener('change', (event) => {
  show = event.target.value;
  wanted = PAGE;
  opened = null;
  return refresh();
});
$('search').addEventListener('input', () => {
  search = $('search').value.trim();
  wanted = PAGE;
  return refresh();
});
$('clear').addEventListener('click', (event) =>
  attempt(async () => {
    await svc.write({ action: 'clearRefused', input: {} });
    await refresh();
  }, event.currentTarget),
);
$('more').addEventListener('click', () => {
  wanted += PAGE;
  return refresh();
});

svc.onChange(refresh);
await refresh();
