/** What the page is drawn with: elements, icons, messages, questions. */

export const $ = (id) => document.getElementById(id);

const ICONS = {
  box: 'M4 8v11h16V8M3 4h18v4H3ZM10 12h4',
  check: 'm5 12.5 5 5 9-10',
  cross: 'm6 6 12 12M18 6 6 18',
  pencil: 'm4 20 1-4L16.5 4.5l3 3L8 19l-4 1Z',
  star: 'm12 4 2.5 5.2 5.7.8-4.1 4 1 5.7-5.1-2.7-5.1 2.7 1-5.7-4.1-4 5.7-.8Z',
  undo: 'M9 7 4 12l5 5M4 12h11a5 5 0 0 1 0 10h-2',
};

/** An element with properties, attributes (names with a hyphen) and children. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes('-') || key === 'role') element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children);
  return element;
}

export function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  path.setAttribute('d', ICONS[name]);
  svg.append(path);
  return svg;
}

/** A button that shows an icon only; `label` is what it is called. */
export function iconButton(name, label, onclick, properties = {}) {
  return el(
    'button',
    { type: 'button', className: 'icon', title: label, ...properties, 'aria-label': label, onclick },
    icon(name),
  );
}

/** Puts children in the place of others. The focus stays on what has the same `data-focus`, or goes to `fallback`. */
export function redraw(parent, children, fallback) {
  const focused = parent.contains(document.activeElement) && document.activeElement.dataset.focus;
  parent.replaceChildren(...children);
  if (!focused) return;
  const same = parent.querySelector(`[data-focus="${CSS.escape(focused)}"]`);
  (same ?? fallback)?.focus();
}

/** What a gateway or an app answers that is busy: too many requests, overloaded, not in time. */
const BUSY = [429, 503, 504];
const AGAIN_MS = 3000;

/**
 * A function that runs `read`, and once more when it was asked for meanwhile. What fails is shown, unless the gateway's bar says why.
 * Where the gateway was busy, it is tried again.
 */
export function reader(read) {
  let asked = false;
  let running = null;
  let again;
  const failed = (error) => {
    if (window.svc.status !== 'online') return;
    toast(error.message);
    if (BUSY.includes(error.status)) again = setTimeout(ask, AGAIN_MS);
  };
  const run = async () => {
    while (asked) {
      asked = false;
      clearTimeout(again);
      await read().catch(failed);
    }
    running = null;
  };
  function ask() {
    asked = true;
    running ??= run();
    return running;
  }
  return ask;
}

/** Puts back what was not stored, before what has been typed since. */
export function giveBack(field, text) {
  field.value = [text, field.value].filter(Boolean).join(' ');
}

/** Tells those who listen to the page. */
export function say(text) {
  $('said').textContent = text;
}

let toastTimer;
/** Tells everybody, for a while. */
export function toast(text) {
  $('toast').textContent = text;
  $('toast').hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => {
    $('toast').hidden = true;
  }, 6000);
}

/** Asks before what cannot be undone, as `confirmation: "required"` in the manifest wants it. */
export function confirmed(question, answer = 'Remove') {
  const dialog = $('confirm');
  $('question').textContent = question;
  $('yes').textContent = answer;
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}

/** Runs what a button starts: the button rests meanwhile, and a failure is shown. Resolves to whether it worked. */
export async function attempt(run, button) {
  if (button) button.disabled = true;
  try {
    await run();
    return true;
  } catch (error) {
    toast(error.message);
    return false;
  } finally {
    if (button) button.disabled = false;
  }
}
