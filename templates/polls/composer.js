/** The dialog in which a poll is made. */
import { $, el, iconButton, say } from './ui.js';

const { svc } = window;
const [FEWEST, MOST] = [2, 20];
let made = () => {};

/** Opens it, with what was typed before and not stored. `then` is called when a poll was made. */
export function openComposer(then) {
  made = then;
  showProblem('');
  $('composer').showModal();
  $('asked').focus();
}

const fields = () => [...$('options').querySelectorAll('input')];

function addField() {
  const field = el('input', { maxLength: 100, autocomplete: 'off' });
  const remove = iconButton('cross', '', () => {
    row.remove();
    number();
    $('another').focus();
  });
  const row = el('div', { className: 'choice' }, field, remove);
  field.addEventListener('keydown', (event) => {
    // The last option goes on to a new one, as long as there is something in it.
    if (event.key !== 'Enter' || event.isComposing || field !== fields().at(-1) || field.value.trim() === '') return;
    if (fields().length >= MOST || fields().length < FEWEST) return;
    event.preventDefault();
    addField().focus();
  });
  $('options').append(row);
  number();
  return field;
}

/** Names the options by their place; the first two stay. */
function number() {
  const all = fields();
  all.forEach((field, at) => {
    field.setAttribute('aria-label', `Option ${at + 1}`);
    field.placeholder = `Option ${at + 1}`;
    field.required = at < FEWEST;
    const remove = field.nextElementSibling;
    remove.hidden = all.length <= FEWEST;
    remove.setAttribute('aria-label', `Remove option ${at + 1}`);
    remove.title = `Remove option ${at + 1}`;
  });
  $('another').hidden = all.length >= MOST;
}

function clear() {
  $('add').reset();
  $('options').replaceChildren();
  for (let count = 0; count < FEWEST; count++) addField();
}

function showProblem(text) {
  $('problem').hidden = text === '';
  $('problem').textContent = text;
}

$('another').addEventListener('click', () => addField().focus());
for (const button of document.querySelectorAll('[data-close]')) {
  button.addEventListener('click', () => button.closest('dialog').close());
}
$('add').addEventListener('submit', async (event) => {
  event.preventDefault();
  const closes = $('closes').value === '' ? {} : { closesAt: new Date($('closes').value).getTime() };
  const input = {
    question: $('asked').value.trim(),
    options: fields().flatMap(({ value }) => value.trim() || []),
    several: $('several').checked,
    named: $('named').checked,
    ...closes,
  };
  const button = $('add').querySelector('[type=submit]');
  button.disabled = true;
  try {
    await svc.write({ action: 'add', input, once: true });
    $('composer').close();
    clear();
    made();
    say(`Made: ${input.question}`);
  } catch (error) {
    showProblem(error.message);
  } finally {
    button.disabled = false;
  }
});

clear();
