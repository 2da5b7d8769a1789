/** The secrets of an app, or of a draft of it: lists their names, sets and removes them. Values are sent, and never shown again. */
import { $, ago, element, get, put, remove, write } from '/svc/_console/view.js';

const STATES = { unreadable: 'cannot be read: set it again', missing: 'no value in this draft' };

let path = '';

/** `session` is that of the draft; null for the live app. */
export function openSecrets({ app, name, session = null }) {
  path = session === null ? `/svc/_apps/${app}/secrets` : `/svc/_draft/${session}/_apps/${app}/secrets`;
  write($('secrets-title'), session === null ? `Secrets of ${name}` : `Secrets of the draft of ${name}`);
  $('secrets-of-draft').hidden = session === null;
  $('secrets-list').replaceChildren();
  $('secrets-none').hidden = true;
  write($('secrets-done'), '');
  $('secret-form').reset();
  $('secrets').showModal();
  $('secret-name').focus();
  void attempt(read);
}

async function read() {
  const asked = path;
  const rows = await get(asked);
  // Another app's may have been opened since.
  if (asked !== path) return;
  $('secrets-list').replaceChildren(...rows.map(rowOf));
  $('secrets-none').hidden = rows.length > 0;
}

function rowOf({ name, state, updatedAt }) {
  const replace = button('Replace', `Replace ${name}`, () => {
    $('secret-name').value = name;
    $('secret-value').focus();
  });
  const drop = button('Remove', `Remove ${name}`, () => {
    if (confirm(`Remove ${name}? Its value is lost.`))
      void change(() => remove(`${path}/${name}`), `${name} is removed`);
  });
  const when = STATES[state] ?? `set ${ago(updatedAt)}`;
  const row = element('li', 'line', element('code', '', name), element('span', 'aside', when), replace);
  if (state !== 'missing') row.append(drop);
  return row;
}

function button(text, label, act) {
  const made = element('button', 'small', text);
  made.type = 'button';
  made.setAttribute('aria-label', label);
  made.addEventListener('click', act);
  return made;
}

$('secret-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const name = $('secret-name').value.trim();
  void change(async () => {
    await put(`${path}/${encodeURIComponent(name)}`, { value: $('secret-value').value });
    $('secret-form').reset();
  }, `${name} is set`);
});

/** What is closed leaves no value in the page. */
$('secrets').addEventListener('close', () => $('secret-form').reset());

function change(work, done) {
  return attempt(async () => {
    await work();
    await read();
    $('secret-name').focus();
    write($('secrets-done'), done);
  });
}

async function attempt(work) {
  write($('secrets-problem'), '');
  write($('secrets-done'), '');
  try {
    await work();
  } catch (error) {
    write($('secrets-problem'), error.message);
  }
}
