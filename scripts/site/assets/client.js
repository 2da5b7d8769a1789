// What pages do besides being read: the search, buttons that copy code, and the mark at the heading in view.
const MOST_FOUND = 30;
const EXCERPT_LENGTH = 160;

const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

/** Buttons at blocks of code; those of a shell are most of them. */
for (const figure of document.querySelectorAll('figure.code')) {
  const button = element('button', { type: 'button', className: 'copy', textContent: 'Copy' });
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(figure.querySelector('code').textContent);
      button.textContent = 'Copied';
    } catch {
      // Without the right to write there, the text is selected for the keys that copy.
      getSelection().selectAllChildren(figure.querySelector('code'));
      button.textContent = 'Selected';
    }
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 2000);
  });
  figure.append(button);
}

/** The heading that is read is marked in the list beside the text. */
const inList = new Map(
  [...document.querySelectorAll('.toc a')].map((link) => [decodeURIComponent(link.hash.slice(1)), link]),
);
const headings = [...document.querySelectorAll('article :is(h2, h3)[id]')].filter(({ id }) => inList.has(id));
if (headings.length > 0) {
  const mark = () => {
    const passed = headings.findLast((heading) => heading.getBoundingClientRect().top < innerHeight / 4);
    for (const [id, link] of inList) {
      if (id === passed?.id) link.setAttribute('aria-current', 'true');
      else link.removeAttribute('aria-current');
    }
  };
  let isDue = false;
  addEventListener(
    'scroll',
    () => {
      if (isDue) return;
      isDue = true;
      requestAnimationFrame(() => {
        isDue = false;
        mark();
      });
    },
    { passive: true },
  );
  mark();
}
// On a wide page the entry of this page may be below the edge of the list.
document.querySelector('#contents [aria-current]')?.scrollIntoView({ block: 'nearest' });

const dialog = document.getElementById('search');
const field = dialog.querySelector('input');
const list = dialog.querySelector('[role="listbox"]');
const hint = dialog.querySelector('[role="status"]');
let chosen = -1;
let loading = null;

/** The index is read once, when the search is opened for the first time. */
const load = () => {
  loading ??= new Promise((resolve, reject) => {
    const script = element('script', { src: 'search.js' });
    script.addEventListener('load', resolve);
    script.addEventListener('error', () => reject(new Error('The index of the search could not be loaded.')));
    document.head.append(script);
  });
  return loading;
};

/** Text with the found words marked, from a little before the first of them on. */
function excerpt(text, terms) {
  const words = terms.map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|');
  const first = text.search(new RegExp(words, 'i'));
  const from = first > 60 ? text.lastIndexOf(' ', first - 40) + 1 : 0;
  const part = `${from > 0 ? '… ' : ''}${text.slice(from, from + EXCERPT_LENGTH)}${text.length > from + EXCERPT_LENGTH ? ' …' : ''}`;
  return part
    .split(new RegExp(`(${words})`, 'i'))
    .map((piece, i) => (i % 2 === 1 ? element('mark', { textContent: piece }) : piece));
}

function choose(at) {
  const options = [...list.children];
  chosen = Math.max(-1, Math.min(at, options.length - 1));
  for (const [i, option] of options.entries()) option.setAttribute('aria-selected', String(i === chosen));
  if (chosen < 0) field.removeAttribute('aria-activedescendant');
  else {
    field.setAttribute('aria-activedescendant', options[chosen].id);
    options[chosen].scrollIntoView({ block: 'nearest' });
  }
}

async function find() {
  const typed = field.value.trim();
  try {
    await load();
  } catch ({ message }) {
    hint.textContent = message;
    return;
  }
  // Something else may have been typed meanwhile.
  if (typed !== field.value.trim()) return;
  const found = typed === '' ? [] : globalThis.findSections(typed, MOST_FOUND);
  list.replaceChildren(
    ...found.map(({ href, page, heading, text, terms }, i) => {
      const where = page === heading ? [] : [element('small', { textContent: page })];
      const option = element(
        'a',
        { href, id: `found-${i}`, tabIndex: -1 },
        element('strong', {}, ...excerpt(heading, terms)),
        ...where,
        element('p', {}, ...excerpt(text, terms)),
      );
      option.setAttribute('role', 'option');
      return option;
    }),
  );
  field.setAttribute('aria-expanded', String(found.length > 0));
  choose(found.length > 0 ? 0 : -1);
  hint.textContent =
    typed === ''
      ? 'Type a word: a command, a route, an error code, a setting.'
      : found.length === 0
        ? `Nothing has all of “${typed}”.`
        : `${found.length === MOST_FOUND ? `The first ${MOST_FOUND} results` : found.length === 1 ? '1 result' : `${found.length} results`}. ↑ ↓ choose, Enter opens, Esc closes.`;
}

function open() {
  if (!dialog.open) dialog.showModal();
  field.select();
  void find();
}

const button = document.querySelector('.find');
button.hidden = false;
button.addEventListener('click', open);
addEventListener('keydown', (event) => {
  const isKey = event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey;
  const isPalette = event.key === 'k' && (event.ctrlKey || event.metaKey);
  if (dialog.open || !(isKey || isPalette)) return;
  event.preventDefault();
  open();
});
field.addEventListener('input', () => void find());
field.addEventListener('keydown', (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    choose(Math.max(0, chosen + step));
  } else if (event.key === 'Enter') {
    event.preventDefault();
    list.children[chosen]?.click();
  }
});
// A result on this page only moves the page.
list.addEventListener('click', (event) => {
  if (event.target.closest('a')) dialog.close();
});
dialog.addEventListener('click', (event) => {
  if (event.target === dialog) dialog.close();
});
