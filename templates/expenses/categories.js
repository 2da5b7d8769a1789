/** The dialog in which categories get their names and budgets. */
import { toCents, toText } from './money.js';
import { $, confirmed, el, iconButton, redraw } from './ui.js';

const { svc } = window;
let changed = () => {};

export function openCategories() {
  problem('');
  $('categories').showModal();
}

/** Draws the dialog's list; `refresh` is called after each change. */
export function renderCategories(categories, refresh) {
  changed = refresh;
  // What somebody is typing is not taken from them.
  if ($('category-list').contains(document.activeElement) && document.activeElement.matches('input')) return;
  const sorted = [...categories].sort((a, b) => a.name.localeCompare(b.name));
  redraw($('category-list'), sorted.map(drawCategory), $('category-name'));
}

function drawCategory({ id, name, budget }) {
  const title = el('input', { className: 'bare', value: name, maxLength: 40, 'aria-label': `Name of ${name}` });
  const limit = el('input', {
    className: 'bare budget',
    value: budget === null ? '' : toText(budget),
    maxLength: 12,
    inputMode: 'decimal',
    placeholder: 'No budget',
    'aria-label': `Budget of ${name}`,
  });
  title.addEventListener('change', () => {
    const text = title.value.trim();
    if (text === '') title.value = name;
    else void save('updateCategory', { id, name: text });
  });
  limit.addEventListener('change', () => {
    const cents = toCents(limit.value);
    if (limit.value.trim() !== '' && cents === null) problem('Write a budget like 300 or 49.90.');
    else void save('updateCategory', { id, budget: cents });
  });
  const remove = async () => {
    if (await confirmed(`Remove the category “${name}”?`)) await save('removeCategory', { id });
  };
  return el(
    'li',
    {},
    title,
    limit,
    iconButton('cross', `Remove category ${name}`, remove, { className: 'icon delete' }),
  );
}

/** Resolves to whether it worked. */
async function save(action, input) {
  // Not afterwards: what went wrong meanwhile with something else stays to be read.
  problem('');
  try {
    await svc.write({ action, input });
    return true;
  } catch (error) {
    problem(error.message);
    return false;
  } finally {
    await changed();
  }
}

function problem(text) {
  $('category-problem').hidden = text === '';
  $('category-problem').textContent = text;
}

$('add-category').addEventListener('submit', async (event) => {
  event.preventDefault();
  if (await save('addCategory', { name: $('category-name').value.trim() })) $('category-name').value = '';
});
