/**
 * The page bridge, served at `/svc/_client.js` and put first into the `<head>` of every app's page:
 *
 *     <script src="/svc/_client.js" data-app="todos"></script>
 *
 * It gives the page `window.svc` (decisions, section 5), one change stream, and its settings on `<html>` before the first
 * paint. The session cookie authenticates. The tag in a page of a draft has `data-draft="<sid>" data-version="<of its files>"` too:
 * that page talks to the draft's routes only, and loads itself again when the draft's files change. A live page does so when
 * another version of its app goes live, but not while something that somebody has written in it would be lost. When its session
 * has ended it says so, and goes on where it was once somebody has signed in.
 */
(() => {
  const RETRY_MS = 1000;
  const RETRY_MAX_MS = 30_000;
  /** A browser allows six HTTP/1.1 connections per origin over all tabs, so a tab in the background gives its own back. */
  const HIDDEN_MS = 30_000;
  /** How often it is looked whether somebody still writes in a page that is to load itself again. */
  const IDLE_MS = 1000;
  /** How often a page that is signed out looks whether somebody has signed in, besides when it gets the focus. */
  const SIGNED_OUT_MS = 10_000;

  const { app: appId, draft, version: shown } = document.currentScript.dataset;
  const root = draft === undefined ? '/svc' : `/svc/_draft/${draft}`;
  const settingsUrl = `${root}/_apps/${appId}/settings`;
  const { knobs = [], prefs = {}, settings = {}, versionId } = loadSettings();
  /** What the page shows, so that it hears of another one that came while it followed no stream. */
  const version = shown ?? versionId;
  window.svc ??= {};
  const { svc } = window;

  // ---- Calls ---------------------------------------------------------------------------------------------------------

  /**
   * Every rejection is one of these. `code` is the gateway's error code, `UNREACHABLE` when no answer came,
   * `UNAUTHORIZED` when the session has ended, or `ACTION_FAILED` for an action that answered with a status of 400 or above and names no code in its body.
   */
  class SvcError extends Error {
    constructor(status, { code, message, path, issues }, body) {
      super(message);
      this.name = 'SvcError';
      Object.assign(this, { code, status, path, issues, body });
    }
  }

  const unreachable = (status) => new SvcError(status, { code: 'UNREACHABLE', message: 'The gateway did not answer.' });

  async function request(method, url, value) {
    const init = { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) };
    let response;
    let answer;
    try {
      response = await fetch(url, init);
      answer = await response.json();
    } catch {
      throw unreachable(response?.status ?? 0);
    }
    return answerOf(response.status, answer);
  }

  /** The answer, or what it says is wrong, thrown. */
  function answerOf(status, answer) {
    if (answer.isError && answer.error.code === 'UNAUTHORIZED') {
      signedOut();
      // The gateway's own message is for programs, which have a token.
      answer.error.message = 'Your session has ended. Sign in and try again.';
    }
    if (answer.isError) throw new SvcError(status, answer.error);
    return answer;
  }

  const tool = async (name, args) => (await request('POST', `${root}/_tool/${name}`, args)).data;

  /** Resolves to the query's value. */
  svc.read = ({ query, input = {} }) => {
    if (source?.readyState !== EventSource.OPEN) missed = true;
    return tool('svc_read', { app: appId, query, input });
  };

  /** Actions without an answer yet. */
  let writes = 0;

  /** Resolves to the action's body. */
  svc.write = async ({ action, input = {} }) => {
    writes++;
    const call = tool('svc_write', { app: appId, action, input });
    const { status, body } = await call.finally(() => writes--);
    if (status < 400) return body;
    const told = { code: 'ACTION_FAILED', message: `The action ${action} answered with status ${status}.` };
    for (const member of ['code', 'message', 'path']) {
      if (typeof body?.[member] === 'string') told[member] = body[member];
    }
    throw new SvcError(status, told, body);
  };

  /**
   * Stores a file beside the app's database, for as long as nobody deletes it; the page finds it at `_blobs/<sha256>`. `file` is a
   * File or Blob. Resolves to `{ sha256, size, type }`. `onProgress` is told a number from 0 to 1; `signal` stops it.
   */
  svc.upload = async (file, { onProgress, signal } = {}) => {
    signal?.throwIfAborted();
    writes++;
    try {
      return await upload(file, onProgress, signal);
    } finally {
      writes--;
    }
  };

  /** `fetch` does not tell how far an upload is. */
  function upload(file, onProgress, signal) {
    return new Promise((resolve, reject) => {
      const xhr = new XMLHttpRequest();
      const stop = () => xhr.abort();
      xhr.open('PUT', `${root}/${appId}/_blobs`);
      if (!file.type) xhr.setRequestHeader('content-type', 'application/octet-stream');
      if (onProgress) xhr.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 1 : loaded / total);
      xhr.onabort = () => reject(signal.reason);
      xhr.onloadend = () => {
        signal?.removeEventListener('abort', stop);
        try {
          resolve(answerOf(xhr.status, JSON.parse(xhr.responseText)));
        } catch (error) {
          reject(error instanceof SvcError ? error : unreachable(xhr.status));
        }
      };
      signal?.addEventListener('abort', stop);
      xhr.send(file);
    });
  }

  /** The app's manifest, or one tool of it: `describe({ action: 'add' })`. */
  svc.describe = (filter = {}) => tool('svc_describe', { app: appId, ...filter });

  svc.appId = appId;

  // ---- Changes -------------------------------------------------------------------------------------------------------

  let source = null;
  let retries = 0;
  let retryTimer;
  let hiddenTimer;
  /** Something may have changed that the stream did not tell: what the page has read is told to be read again. */
  let missed = false;

  const emit = (detail) => document.dispatchEvent(new CustomEvent('svc:datachange', { bubbles: true, detail }));
  const reset = () => emit({ type: 'reset', app: appId, tables: [] });

  /**
   * Calls back with `{ type: 'change', table, tables, action, source, ts, seq }` for each change of the app's data, and
   * with `{ type: 'reset', tables: [] }` when changes may have been missed and everything should be read again.
   * Returns the function that unsubscribes. The same object is the `detail` of the DOM event `svc:datachange`.
   */
  svc.onChange = (callback) => {
    const listener = (event) => callback(event.detail);
    document.addEventListener('svc:datachange', listener);
    return () => document.removeEventListener('svc:datachange', listener);
  };

  function connect() {
    clearTimeout(retryTimer);
    if (source) return;
    const following = version === undefined ? '' : `?version=${encodeURIComponent(version)}`;
    source = new EventSource(`${root}/${appId}/_changes${following}`);
    source.addEventListener('open', () => {
      retries = 0;
      if (missed) reset();
      missed = false;
    });
    source.addEventListener('change', (event) => emit({ type: 'change', ...JSON.parse(event.data) }));
    source.addEventListener('reset', reset);
    source.addEventListener('reload', draft === undefined ? renew : reload);
    // Only drafts have these: `dev.js` shows them.
    source.addEventListener('fault', ({ data }) =>
      document.dispatchEvent(new CustomEvent('svc:fault', { detail: JSON.parse(data) })),
    );
    source.addEventListener('error', () => {
      // A lost connection the browser reopens by itself, with Last-Event-ID. An HTTP error it takes as final; we do not.
      if (source.readyState !== EventSource.CLOSED) return;
      disconnect();
      const wait = Math.min(RETRY_MS * 2 ** retries++, RETRY_MAX_MS);
      retryTimer = setTimeout(connect, wait * (0.5 + Math.random() / 2));
      // An EventSource does not tell what it was refused for.
      void lookForSession();
    });
  }

  function disconnect() {
    clearTimeout(retryTimer);
    source?.close();
    source = null;
    missed = true;
  }

  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiddenTimer);
    if (document.visibilityState === 'visible') comeBack();
    else hiddenTimer = setTimeout(disconnect, HIDDEN_MS);
  });
  // An open stream would keep the page out of the back/forward cache.
  addEventListener('pagehide', disconnect);
  addEventListener('pageshow', comeBack);
  addEventListener('focus', comeBack);

  function comeBack() {
    if (bar) void lookForSession();
    else connect();
  }

  // ---- The session ---------------------------------------------------------------------------------------------------

  /** What says that the session has ended, as long as that is so. */
  let bar = null;
  let looking;

  /** Whether the browser is signed in here; without an answer everything stays as it is. */
  async function lookForSession() {
    let signedIn;
    try {
      ({ signedIn } = await (await fetch('/svc/_session')).json());
    } catch {
      return;
    }
    if (signedIn === false) signedOut();
    else if (signedIn && bar) signedInAgain();
  }

  function signedOut() {
    disconnect();
    bar ??= makeBar();
    placeBar();
    clearInterval(looking);
    looking = setInterval(() => {
      if (document.visibilityState === 'visible') void lookForSession();
    }, SIGNED_OUT_MS);
  }

  function signedInAgain() {
    clearInterval(looking);
    bar.remove();
    bar = null;
    retries = 0;
    connect();
  }

  /** What is outside of a modal dialog cannot be reached while it is open. */
  function placeBar() {
    const home = [...document.querySelectorAll('dialog:modal')].at(-1) ?? document.documentElement;
    if (bar && bar.parentNode !== home) home.append(bar);
  }
  addEventListener('close', placeBar, true);

  /** In a tree of its own and styled by nobody else: the app's styles do not reach it, nor its the app's. */
  function makeBar() {
    const host = document.createElement('div');
    host.attachShadow({ mode: 'open' }).innerHTML = `
      <style>
        :host { all: initial !important; position: fixed !important; z-index: 2147483647 !important; inset: auto 1rem 1rem !important;
          display: flex !important; justify-content: center !important; pointer-events: none !important; color-scheme: light dark !important; }
        p { display: flex; align-items: center; gap: 1rem; margin: 0; padding: 0.6rem 0.7rem 0.6rem 1rem; border-radius: 12px;
          background: light-dark(#1d1b18, #f0ede8); color: light-dark(#fff, #1d1b18); font: 15px / 1.4 system-ui, sans-serif;
          box-shadow: 0 4px 24px #0005; pointer-events: auto; }
        a { flex: none; padding: 0.35rem 0.8rem; border-radius: 8px; background: light-dark(#ff8d5c, #b8451a);
          color: light-dark(#26130a, #fff); font-weight: 600; text-decoration: none; }
        a:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
        @media print { :host { display: none !important; } }
      </style>
      <p role="alert">You are signed out. What is on this page stays. <a rel="noopener">Sign in</a></p>`;
    const link = host.shadowRoot.querySelector('a');
    // Also for those who open it by the keyboard, the middle button or the menu: the address is that of the moment.
    for (const type of ['pointerdown', 'focus', 'click']) link.addEventListener(type, () => aim(link));
    aim(link);
    return host;
  }

  /** Signing in takes this tab only where nothing would be lost, and never a frame: a page may not sign in inside of another. */
  function aim(link) {
    link.href = `/svc/_enter?to=${encodeURIComponent(location.href)}`;
    link.target = parent !== window || isBusy() ? '_blank' : '_self';
  }

  connect();

  // ---- Reloading -----------------------------------------------------------------------------------------------------

  const SCROLL = `svc:scroll:${location.pathname}`;
  /** How long a page that loads again may take to be as long as it was. */
  const SCROLL_MS = 2000;

  function reload() {
    sessionStorage.setItem(SCROLL, JSON.stringify([scrollX, scrollY]));
    location.reload();
  }

  /** The fields that somebody has changed; of those that are no form controls, what they held before. */
  const touched = new Map();
  for (const type of ['beforeinput', 'input']) addEventListener(type, touch, true);

  function touch(event) {
    const [field] = event.composedPath();
    if (!(field instanceof Element) || touched.has(field)) return;
    for (const old of touched.keys()) if (!old.isConnected) touched.delete(old);
    touched.set(field, event.type === 'beforeinput' ? field.textContent : null);
  }

  /** Whether a field holds something else than at first. What a form is reset to, or a closed dialog left behind, is nobody's loss. */
  function isWritten([field, before]) {
    if (!field.isConnected || field.closest('dialog:not([open])')) return false;
    if (field.isContentEditable) return field.textContent !== before;
    const isChoice = field.matches('select, [type=checkbox], [type=radio]');
    // A choice outside of a form takes effect when it is made.
    if (!isChoice) return field.value !== (field.defaultValue ?? field.value);
    return field.form !== null && (field.options ? isChosen(field) : field.checked !== field.defaultChecked);
  }

  function isChosen({ options, multiple }) {
    const all = [...options];
    const first = all.find((option) => option.defaultSelected) ?? (multiple ? undefined : all[0]);
    return all.some((option) => option.selected !== (option.defaultSelected || option === first));
  }

  /** A reload would lose something: what was written, what a dialog shows, or the answer to an action. */
  const isBusy = () => writes > 0 || document.querySelector('dialog[open]') !== null || [...touched].some(isWritten);

  let waiting;

  /** Another version is live. A page that would rather choose the moment prevents `svc:newversion`, and reloads by itself. */
  function renew() {
    clearInterval(waiting);
    const told = new CustomEvent('svc:newversion', { bubbles: true, cancelable: true });
    if (!document.dispatchEvent(told)) return;
    const whenIdle = () => {
      if (isBusy()) return;
      clearInterval(waiting);
      reload();
    };
    waiting = setInterval(whenIdle, IDLE_MS);
    whenIdle();
  }

  /** The browser restores the position too, but before a page whose content its script makes is long enough. */
  function restoreScroll() {
    const [x, y] = JSON.parse(sessionStorage.getItem(SCROLL) ?? '[0, 0]');
    sessionStorage.removeItem(SCROLL);
    const until = performance.now() + SCROLL_MS;
    let moved = x === 0 && y === 0;
    for (const sign of ['wheel', 'touchstart', 'keydown', 'pointerdown']) {
      addEventListener(sign, () => (moved = true), { once: true, passive: true });
    }
    const step = () => {
      if (moved || performance.now() > until) return;
      scrollTo({ left: x, top: y, behavior: 'instant' });
      if (Math.abs(scrollX - x) > 1 || Math.abs(scrollY - y) > 1) requestAnimationFrame(step);
    };
    step();
  }
  document.addEventListener('DOMContentLoaded', restoreScroll);

  // ---- Settings ------------------------------------------------------------------------------------------------------

  /**
   * Settings must be on `<html>` before the first paint, HTML is served as it was stored and the script tag is the same for
   * everybody: so the script asks, and asks synchronously. The gateway that has just served the page answers in about a
   * millisecond. Without an answer the page keeps the looks of its own style sheet.
   */
  function loadSettings() {
    try {
      const xhr = new XMLHttpRequest();
      xhr.open('GET', settingsUrl, false);
      xhr.send();
      return xhr.status === 200 ? JSON.parse(xhr.responseText) : {};
    } catch {
      return {};
    }
  }

  const defaults = Object.fromEntries(knobs.map((knob) => [knob.key, knob.default]));
  let stored = settings;
  /** The URL may only choose what a knob offers: a link cannot put a value of its own into the page. */
  const query = Object.fromEntries(
    [...new URLSearchParams(location.search)].filter(([key, value]) =>
      knobs.some((knob) => knob.key === key && knob.options.some((option) => option.value === value)),
    ),
  );
  /** What the embedding page has set since. */
  let live = {};

  const isSetting = (key, value) =>
    /^[a-z][a-z0-9_-]*$/i.test(key) && ['string', 'number', 'boolean'].includes(typeof value);
  const kebab = (key) => key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

  /** Sets `data-<key>` for every setting, and `--<key>` as well for colours (`appAccent`, `appPaperColor`). */
  function applySettings() {
    const html = document.documentElement;
    const entries = [defaults, prefs, stored, query, live].flatMap((layer) => Object.entries(layer));
    const next = Object.fromEntries(entries.filter(([key, value]) => isSetting(key, value)));
    for (const key of Object.keys({ ...svc.settings, ...next })) {
      const name = kebab(key);
      if (key in next) html.setAttribute(`data-${name}`, next[key]);
      else html.removeAttribute(`data-${name}`);
      if (/^app\w*(Color|Accent)$/.test(key)) html.style.setProperty(`--${name}`, next[key] ?? '');
    }
    /** The settings in force, a frozen object. */
    svc.settings = Object.freeze(next);
  }

  /** Stores a change of the app's settings, for all its users; `null` takes a setting back to its default. */
  svc.saveSettings = async (patch) => {
    const next = Object.fromEntries(Object.entries({ ...stored, ...patch }).filter(([, value]) => value !== null));
    await request('PUT', settingsUrl, next);
    stored = next;
    for (const key of Object.keys(patch)) {
      delete query[key];
      delete live[key];
    }
    applySettings();
  };

  // Whoever embeds the page may set these, whatever its origin: `frame-ancestors` lets only the page's own origin and the
  // console embed it, and the console has an origin of its own.
  addEventListener('message', ({ source: sender, data }) => {
    if (sender !== parent) return;
    if (data?.type === 'svc:settings') live = { ...live, ...data.settings };
    else if (data?.type === 'svc:theme') live = { ...live, theme: data.theme };
    else return;
    applySettings();
  });

  applySettings();
})();
