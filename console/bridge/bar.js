/** The bar at the bottom of a page that says why nothing is stored at the moment, and what to do about it. */

/** How long it shows that the problem is over. */
const GOOD_NEWS_MS = 4000;

const TEXTS = {
  offline: 'No connection. What is on this page stays, but nothing is stored until the connection is back.',
  'signed-out': 'You are signed out. What is on this page stays.',
};
const FOR_GUESTS = {
  ...TEXTS,
  'signed-out':
    'The link by which you came here has ended. What is on this page stays. Ask whoever sent it for another one.',
};
const FOR_VISITORS = { ...TEXTS, 'signed-out': 'Sign in to use this. What is on this page stays.' };

/** In a tree of its own: the app's styles do not reach it, nor its the app's. Of the page it takes whether it is light or dark. */
const MARKUP = `
  <style>
    :host { all: initial !important; position: sticky !important; z-index: 2147483647 !important; bottom: 0 !important;
      display: flex !important; flex: none !important; grid-column: 1 / -1 !important; justify-content: center !important;
      box-sizing: border-box !important; width: 100% !important; padding: 0.5rem 1rem 1rem !important;
      pointer-events: none !important; color-scheme: inherit !important; }
    div { display: flex; flex-wrap: wrap; align-items: center; justify-content: center; gap: 0.4rem 1rem; min-width: 0;
      padding: 0.6rem 0.7rem 0.6rem 1rem; border: 1px solid light-dark(#d9d3ca, #4a433d); border-radius: 12px;
      background: light-dark(#fffdf9, #2b2622); color: light-dark(#1d1b18, #f0ede8); font: 15px / 1.4 system-ui, sans-serif;
      box-shadow: 0 4px 24px #0004; pointer-events: auto; }
    p { flex: 0 1 auto; margin: 0; overflow-wrap: anywhere; }
    a, button { flex: none; padding: 0.35rem 0.8rem; border: 0; border-radius: 8px; background: light-dark(#b8451a, #ff8d5c);
      color: light-dark(#fff, #26130a); font: inherit; font-weight: 600; text-decoration: none; cursor: pointer; }
    :focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
    [hidden] { display: none; }
    @media print { :host { display: none !important; } }
  </style>
  <div><p role="status"></p><a rel="noopener" hidden>Sign in</a><button type="button" hidden>Try again</button></div>`;

/**
 * `signIn()` gives `{ href, target }` of the moment, `retry()` looks for the connection. While the bar is there, its height is
 * in the page's `--svc-bar`, for what is fixed to the bottom of the window. `isVisitor`: nobody has been signed in here;
 * `isGuest`: who is here came by a link.
 */
export function createBar({ signIn, retry, isVisitor, isGuest }) {
  const texts = isVisitor ? FOR_VISITORS : isGuest ? FOR_GUESTS : TEXTS;
  let host = null;
  let shown = 'online';
  let leaving;
  /** What had the focus before somebody went into the bar. */
  let focused = null;
  const { documentElement: root } = document;
  const measuring = new ResizeObserver(() => root.style.setProperty('--svc-bar', `${host?.offsetHeight ?? 0}px`));
  const opening = new MutationObserver(place);

  const part = (name) => host.shadowRoot.querySelector(name);

  function open() {
    host = document.createElement('div');
    host.attachShadow({ mode: 'open' }).innerHTML = MARKUP;
    const link = part('a');
    // Also for those who open it by the keyboard, the middle button or the menu: the address is that of the moment.
    for (const type of ['pointerdown', 'focus', 'click'])
      link.addEventListener(type, () => Object.assign(link, signIn()));
    link.addEventListener('click', tellAddress);
    part('button').addEventListener('click', retry);
    host.addEventListener('focusin', ({ relatedTarget }) => {
      if (relatedTarget !== host) focused = relatedTarget;
    });
    root.style.setProperty('scroll-padding-bottom', 'var(--svc-bar)');
    measuring.observe(host);
    opening.observe(document, { attributes: true, attributeFilter: ['open'], subtree: true });
    if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', place, { once: true });
    else place();
  }

  function close() {
    measuring.disconnect();
    opening.disconnect();
    host.remove();
    host = null;
    for (const name of ['--svc-bar', 'scroll-padding-bottom']) root.style.removeProperty(name);
  }

  /** Behind the content, so that it covers nothing for good. What is outside of a modal dialog cannot be reached while it is open. */
  function place() {
    const home = [...document.querySelectorAll('dialog:modal')].at(-1) ?? root;
    if (host && host.parentNode !== home) home.append(host);
  }

  function newsAfter(before) {
    if (before === 'refused') return 'You may use this again.';
    if (before === 'offline') return 'Connected again.';
    return isVisitor ? 'Signed in.' : 'Signed in again.';
  }

  /** A frame that may open no tabs says nothing about it. */
  function tellAddress() {
    if (parent === window) return;
    part('p').textContent =
      `Sign in in the new tab, then come back: what is on this page stays. If no tab opened, go to ${location.href}`;
  }

  /** `status` is `online`, `offline` or `signed-out`, or `refused`, for the reason `why`. */
  return function show(status, why = '') {
    const before = shown;
    shown = status;
    clearTimeout(leaving);
    if (status === 'online') {
      if (host === null) return;
      leaving = setTimeout(close, GOOD_NEWS_MS);
    } else if (host === null) open();
    const [text, link, button] = [part('p'), part('a'), part('button')];
    const hadFocus = document.activeElement === host;
    link.hidden = status !== 'signed-out';
    button.hidden = status !== 'offline';
    if (!link.hidden) Object.assign(link, signIn());
    if (hadFocus) [link, button, focused].find((element) => element && !element.hidden)?.focus();
    const message = status === 'refused' ? `${why} What is on this page stays.` : (texts[status] ?? newsAfter(before));
    // A screen reader announces what changes in an element that is there already.
    setTimeout(() => {
      if (shown === status) text.textContent = message;
    });
  };
}
