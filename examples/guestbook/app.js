/** The page of the guestbook: a form whose rules are the action's own, a wall of entries, and the app's settings. */
const { svc } = window;
const $ = (id) => document.getElementById(id);
const PAGE = 50;

// ---- Entries ---------------------------------------------------------------------------------------------------------

const wall = $('entries');
const dates = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
let seen = null;
let wanted = PAGE;
let reads = 0;

function entryElement({ id, name, message, signedAt }) {
  const element = $('entry').content.firstElementChild.cloneNode(true);
  const at = new Date(signedAt);
  element.querySelector('blockquote').textContent = message;
  element.querySelector('b').textContent = name;
  element.querySelector('time').textContent = dates.format(at);
  element.querySelector('time').dateTime = at.toISOString();
  element.querySelector('button').addEventListener('click', () => remove(id, name));
  element.classList.toggle('new', seen !== null && id > seen);
  return element;
}

/** Reads the entries page by page, as far as the visitor has gone back. */
async function refresh() {
  const turn = ++reads;
  const entries = [];
  let page;
  do {
    const before = entries.at(-1)?.id;
    page = await svc.read({ query: 'entries', input: { limit: PAGE, ...(before && { before }) } });
    entries.push(...page);
  } while (page.length === PAGE && entries.length < wanted);
  if (turn !== reads) return;
  wall.replaceChildren(...entries.map(entryElement));
  seen = entries[0]?.id ?? 0;
  const more = page.length === PAGE;
  $('older').hidden = !more;
  $('empty').hidden = entries.length > 0;
  $('count').textContent = `${entries.length}${more ? '+' : ''} ${entries.length === 1 ? 'entry' : 'entries'}`;
}

async function remove(id, name) {
  const dialog = $('confirm');
  $('question').textContent = `Tear out what ${name} wrote? It cannot be put back.`;
  dialog.returnValue = '';
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener('close', resolve, { once: true }));
  if (dialog.returnValue === 'yes') await svc.write({ action: 'remove', input: { id } }).catch(show);
}

$('older').addEventListener('click', () => {
  wanted += PAGE;
  refresh().catch(show);
});

// ---- The form --------------------------------------------------------------------------------------------------------

const form = $('sign');

/** The gateway's rules in the words of this page; a rule that is not listed speaks for itself. */
const WORDS = {
  minLength: 'That is a little short.',
  maxLength: 'That is a little too long.',
  pattern: 'There is nothing here yet.',
};

/** Puts what is wrong beside its field: `path` is a JSON Pointer into the input, such as `/message`. */
function show(error) {
  const issues = error.issues ?? [error];
  for (const { path, keyword, message } of issues) {
    const field = form.elements[path?.slice(1)];
    const place = field ? $(`${field.name}-error`) : $('form-error');
    if (place.textContent) continue;
    place.textContent = WORDS[keyword] ?? message;
    field?.setAttribute('aria-invalid', 'true');
  }
  form.querySelector('[aria-invalid]')?.focus();
}

function clear(field) {
  field.removeAttribute('aria-invalid');
  $(`${field.name}-error`).textContent = '';
  $('form-error').textContent = '';
}

form.addEventListener('input', (event) => clear(event.target));

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const { name, message } = form.elements;
  const submit = form.querySelector('button');
  clear(name);
  clear(message);
  submit.disabled = true;
  try {
    await svc.write({ action: 'sign', input: { name: name.value, message: message.value }, once: true });
    message.value = '';
    message.focus();
  } catch (error) {
    show(error);
  }
  submit.disabled = false;
});

// ---- Settings --------------------------------------------------------------------------------------------------------

/** Builds the menu from the manifest's knobs, so that a new knob needs no new markup. */
async function buildSettings() {
  const { knobs } = await svc.describe();
  const fieldsets = knobs.map((knob) => {
    const fieldset = Object.assign(document.createElement('fieldset'), { className: knob.type });
    fieldset.append(Object.assign(document.createElement('legend'), { textContent: knob.label }));
    for (const { value, label } of knob.options) {
      const option = document.createElement('label');
      const checked = svc.settings[knob.key] === value;
      const input = Object.assign(document.createElement('input'), { type: 'radio', name: knob.key, value, checked });
      const text = Object.assign(document.createElement('span'), { textContent: label, title: label });
      text.style.setProperty('--swatch', value);
      option.append(input, text);
      fieldset.append(option);
    }
    return fieldset;
  });
  $('settings').replaceChildren(...fieldsets);
}

$('settings').addEventListener('change', ({ target }) => {
  svc.saveSettings({ [target.name]: target.value }).catch(show);
});

document.addEventListener('click', (event) => {
  if (!$('looks').contains(event.target)) $('looks').open = false;
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') $('looks').open = false;
});

svc.onChange(() => refresh().catch(show));
await Promise.all([refresh(), buildSettings()]).catch(show);
