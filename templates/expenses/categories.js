/** The dialog in which categories get their names and budgets. */
import { toCents, toText } from './money.js';
import { $, confirmed, el, giveBack, iconButton, redraw } from './ui.js';

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
  const typed = new Map(unsaved().map((field) => [field.dataset.focus, field.value]));
  const sorted = [...categories].sort((a, b) => a.name.localeCompare(b.name));
  redraw($('category-list'), sorted.map(drawCategory), $('category-name'));
  for (const field of fields()) field.value = typed.get(field.dataset.focus) ?? field.value;
}

const fields = () => [...$('category-list').querySelectorAll('input')];
const unsaved = () => fields().filter((field) => field.value !== field.defaultValue);

// What could not be stored is, once there is a connection and a workspace again.
document.addEventListener('svc:status', () => {
  if (svc.status === 'online') for (const field of unsaved()) field.dispatchEvent(new Event('change'));
});

function drawCategory({ id, name, budget }) {
  const title = el('input', {
    className: 'bare',
    defaultValue: name,
    maxLength: 40,
    'aria-label': `Name of ${name}`,
    'data-focus': `name-${id}`,
  });
  const limit = el('input', {
    className: 'bare budget',
    defaultValue: budget === null ? '' : toText(budget),
    maxLength: 12,
    inputMode: 'decimal',
    placeholder: 'No budget',
    'aria-label': `Budget of ${name}`,
    'data-focus': `budget-${id}`,
  });
  title.addEventListener('change', () => {
    const text = title.value.trim();
    if (text === '') title.value = name;
    else void save('updateCategory', { id, name: text }, { field: title });
  });
  limit.addEventListener('change', () => {
    const cents = toCents(limit.value);
    if (limit.value.trim() !== '' && cents === null) problem('Write a budget like 300 or 49.90.');
    else void save('updateCategory', { id, budget: cents }, { field: limit });
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

/** Resolves to whether it worked. `field` is what holds it. */
async function save(action, input, { field, once = false } = {}) {
  // Not afterwards: what went wrong meanwhile with something else stays to be read.
  problem('');
  try {
    await svc.write({ action, input, once });
    if (field) field.defaultValue = field.value;
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
  const name = $('category-name').value.trim();
  $('category-name').value = '';
  if (!(await save('addCategory', { name }, { once: true }))) giveBack($('category-name'), name);
});
