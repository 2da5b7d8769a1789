/** What the page says, asks and keeps: messages, questions before what cannot be undone, and the look. */
const { svc } = window;
export const $ = (id) => document.getElementById(id);

/** For those who hear the page. */
export function say(text) {
  $('said').textContent = text;
}

let toastTimer;
export function toast(text) {
  // What is outside of a dialog that is open lies behind it.
  (document.querySelector('dialog:modal') ?? document.body).append($('toast'));
  $('toast').textContent = text;
  $('toast').hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => {
    $('toast').hidden = true;
  }, 6000);
}

/** Tells that something could not be read, unless the gateway's bar says why. */
export function toastUnread(error) {
  if (svc.status === 'online') toast(error.message);
}

/** Puts back what was not stored, before what has been typed since. */
export function giveBack(field, text) {
  field.value = [text, field.value].filter(Boolean).join(' ');
}

/** Asks before what cannot be undone, as `confirmation: "required"` in the manifest wants it. */
export function confirmed(question) {
  const dialog = $('confirm');
  $('question').textContent = question;
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}

/**
 * Opens a dialog with a form. A button runs what `choices` has under its value, and the dialog stays as it is until that resolves to
 * true; other buttons close it.
 */
export function openForm(dialog, choices) {
  let busy = false;
  dialog.querySelector('form').onsubmit = async (event) => {
    const choice = choices[event.submitter?.value];
    if (!choice) return;
    event.preventDefault();
    if (busy) return;
    busy = true;
    if (await choice()) dialog.close();
    busy = false;
  };
  dialog.showModal();
}

/** An element with these properties and children. */
export function create(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

/** Puts only into the page what differs, so that focus and selection survive. */
export function show(list, elements) {
  elements.forEach((element, at) => {
    if (list.children[at] !== element) list.insertBefore(element, list.children[at] ?? null);
  });
  while (list.children.length > elements.length) list.lastElementChild.remove();
}

/** The selects of the footer are the app's settings, kept for everybody who uses it. */
for (const select of document.querySelectorAll('[data-setting]')) {
  const { setting } = select.dataset;
  const read = () => {
    select.value = document.documentElement.dataset[setting];
  };
  select.addEventListener('change', () => {
    svc.saveSettings({ [setting]: select.value }).catch((error) => {
      toast(error.message);
      read();
    });
  });
  new MutationObserver(read).observe(document.documentElement, { attributes: true });
  read();
}
