/** What the page says, asks and keeps: messages, questions before what cannot be undone, and the look. */
const { svc } = window;
export const $ = (id) => document.getElementById(id);

/** For those who hear the page. */
export function say(text) {
  $('said').textContent = text;
}

let toastTimer;
export function toast(text) {
  $('toast').textContent = text;
  $('toast').hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => {
    $('toast').hidden = true;
  }, 6000);
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
