/**
 * Helps whoever works on an app: loaded after the page bridge, in pages of drafts only. It sends the page's errors to the gateway,
 * for the draft's log, which `svc dev` prints. And it shows errors of the draft's queries and actions over the page, until Escape.
 */
(() => {
  /** What went wrong is sent together this long after the first of it. */
  const SEND_MS = 250;
  /** Of one window so many errors are sent, each once; the others are counted. */
  const WINDOW_MS = 2000;
  const MOST = 10;
  const MESSAGE_CHARS = 1000;
  /** Addresses whose callers are remembered. */
  const ASKED = 100;
  /** What a page with a build is served as, with its map beside. */
  const BUILT = 'app.js';
  /** Scripts of the gateway itself, in which nobody looks for the cause. */
  const OURS = /^\/svc\/_(?:client|dev)\.js$/;

  const { app, draft } = document.currentScript.previousElementSibling.dataset;
  const root = `/svc/_draft/${draft}/${app}/`;
  const reports = `${root}_errors`;
  const { fetch: send } = window;

  // ---- Errors of the page --------------------------------------------------------------------------------------------

  let errors = [];
  let more = 0;
  /** Errors of this window, and whether any was only counted in it. */
  const seen = new Set();
  let dropped = false;
  let sending;
  let windowEnd;
  /** The gateway does not take them, because other apps' pages have this page's origin too. */
  let refused = false;

  function report(kind, message, place) {
    if (refused) return;
    const error = { kind, message: message.slice(0, MESSAGE_CHARS), ...place };
    const key = JSON.stringify(error);
    if (windowEnd === undefined) windowEnd = setTimeout(endWindow, WINDOW_MS);
    if (seen.has(key) || seen.size >= MOST) {
      more++;
      dropped = true;
      return;
    }
    seen.add(key);
    errors.push(error);
    sending ??= setTimeout(flush, SEND_MS);
  }

  /** What goes wrong again and again is not sent again before a window without it. */
  function endWindow() {
    windowEnd = undefined;
    if (dropped) windowEnd = setTimeout(endWindow, WINDOW_MS);
    else seen.clear();
    dropped = false;
    void flush();
  }

  async function flush() {
    clearTimeout(sending);
    sending = undefined;
    if (errors.length === 0 && more === 0) return;
    const [found, others] = [errors, more];
    errors = [];
    more = 0;
    // A page that goes has no time for that.
    const reported = document.visibilityState === 'hidden' ? found : await Promise.all(found.map(inSource));
    const body = JSON.stringify({ errors: reported, more: others });
    const headers = { 'content-type': 'application/json' };
    try {
      const { status } = await svc.fetch(reports, { method: 'POST', headers, body, keepalive: true });
      refused ||= status === 403;
    } catch {
      // The gateway is away, and nobody waits for these.
    }
  }
  addEventListener('pagehide', flush);

  let map;

  /** An error in what the page was built into, with its place in the source. */
  async function inSource(error) {
    if (error.file !== BUILT || !error.column) return error;
    map ??= send(`${root}${BUILT}.map`).then((answer) => (answer.ok ? answer.json() : null));
    const known = await map.catch(() => null);
    return { ...error, ...(known && sourcePlace(known, error)) };
  }

  /** By the mappings of a source map (tc39.es/ecma426), which are differences from the one before. */
  function sourcePlace({ sources, mappings }, { line, column }) {
    let [source, sourceLine, sourceColumn] = [0, 0, 0];
    let place = null;
    for (const [at, segments] of mappings.split(';').slice(0, line).entries()) {
      let generated = 0;
      for (const segment of segments.split(',')) {
        const [moved = 0, ...more] = numbersIn(segment);
        generated += moved;
        if (more.length < 3) continue;
        source += more[0];
        sourceLine += more[1];
        sourceColumn += more[2];
        if (at === line - 1 && generated < column)
          place = { file: sources[source], line: sourceLine + 1, column: sourceColumn + 1 };
      }
    }
    return place;
  }

  /** Base64 VLQ: five bits a digit, the lowest first; the lowest bit of a number is its sign. */
  function numbersIn(segment) {
    const numbers = [];
    let [value, shift] = [0, 0];
    for (const letter of segment) {
      const digit = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'.indexOf(letter);
      value += (digit & 31) << shift;
      shift += 5;
      if (digit & 32) continue;
      numbers.push(value & 1 ? -(value >> 1) : value >> 1);
      [value, shift] = [0, 0];
    }
    return numbers;
  }

  function urlOf(address) {
    try {
      return new URL(address, location.href);
    } catch {
      return null;
    }
  }

  /** A file of the app by its path in the app's folder. */
  function fileOf(address) {
    const { origin, pathname } = urlOf(address) ?? {};
    if (origin !== location.origin) return String(address);
    const path = pathname.startsWith(root) ? pathname.slice(root.length) : pathname.slice(1);
    return path === '' || path.endsWith('/') ? `${path}index.html` : path;
  }

  /** The first line of a stack that is the app's. */
  function placeOf(stack) {
    for (const [, address, line, column] of String(stack).matchAll(/(https?:\/\/[^\s()]+?):(\d+):(\d+)/g)) {
      if (!OURS.test(urlOf(address)?.pathname)) return { file: fileOf(address), line: +line, column: +column };
    }
    return { file: fileOf(location.href) };
  }

  function textOf(value) {
    try {
      if (value instanceof Error) return `${value.name}: ${value.message}`;
      return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
    } catch {
      return 'a value that cannot be shown';
    }
  }

  function reportThrown(kind, value, place) {
    report(kind, textOf(value), value?.stack ? placeOf(value.stack) : place);
  }

  const { error: logError } = console;
  console.error = (...args) => {
    const thrown = args.find((arg) => arg instanceof Error);
    report('console', args.map(textOf).join(' '), placeOf((thrown ?? new Error()).stack));
    logError.apply(console, args);
  };

  addEventListener(
    'error',
    (event) => {
      const { error, message, filename, lineno: line, colno: column, target } = event;
      if (event instanceof ErrorEvent) {
        reportThrown('error', error ?? message, { file: fileOf(filename || location.href), line, column });
        return;
      }
      const address = target.currentSrc || target.src || target.href;
      if (!address) return;
      const file = fileOf(location.href);
      report('request', `<${target.localName}> could not be loaded: ${fileOf(address)}`, { file });
    },
    true,
  );

  addEventListener('unhandledrejection', ({ reason }) =>
    reportThrown('rejection', reason, { file: fileOf(location.href) }),
  );

  document.addEventListener('securitypolicyviolation', (event) => {
    const { effectiveDirective, blockedURI, sourceFile, lineNumber: line, columnNumber: column } = event;
    const asked = OURS.test(urlOf(sourceFile)?.pathname) ? askedFrom.get(blockedURI) : undefined;
    const place = { file: fileOf(sourceFile || location.href), line, column };
    report('csp', `${effectiveDirective} does not allow ${blockedURI}`, asked === undefined ? place : placeOf(asked));
  });

  /** Calls of tools are the bridge's, and so are these reports: who called hears of it, and the log has what the handler threw. */
  function isTool(address) {
    const { origin, pathname = '' } = urlOf(address) ?? {};
    const isOurs = !pathname.startsWith(root) || pathname === reports;
    return origin === location.origin && pathname.startsWith('/svc/_') && isOurs;
  }

  function reportRequest(method, address, what, stack) {
    if (!isTool(address)) report('request', `${method} ${fileOf(address)}: ${what}`, placeOf(stack));
  }

  /** Address → stack of who asked for it last, because a refusal by the CSP names the caller that is here. */
  const askedFrom = new Map();

  function stackOf(address) {
    const { stack } = new Error();
    if (askedFrom.size >= ASKED) askedFrom.clear();
    askedFrom.set(urlOf(address)?.href, stack);
    return stack;
  }

  window.fetch = async (...args) => {
    const [input, init] = args;
    const address = input instanceof Request ? input.url : String(input);
    const stack = stackOf(address);
    const method = (init?.method ?? input?.method ?? 'GET').toUpperCase();
    try {
      const response = await send.apply(window, args);
      if (response.status >= 400) reportRequest(method, address, response.status, stack);
      return response;
    } catch (error) {
      if (error?.name !== 'AbortError') reportRequest(method, address, textOf(error), stack);
      throw error;
    }
  };

  const { open } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (...args) {
    const [method, address] = args;
    const stack = stackOf(address);
    const tell = (what) => reportRequest(method, address, what, stack);
    this.addEventListener('load', () => this.status >= 400 && tell(this.status), { once: true });
    this.addEventListener('error', () => tell('no answer'), { once: true });
    return open.apply(this, args);
  };

  // ---- Errors of the draft's handlers --------------------------------------------------------------------------------

  let panel = null;
  let count = 0;

  document.addEventListener('svc:fault', ({ detail }) => show(detail));
  addEventListener(
    'keydown',
    (event) => {
      if (event.key !== 'Escape' || panel === null) return;
      // It closes this and nothing of the page.
      event.preventDefault();
      event.stopImmediatePropagation();
      dismiss();
    },
    true,
  );

  function show({ tool, name, message, file, line, column, stack }) {
    count++;
    panel ??= makePanel();
    const write = (id, text) => {
      const element = panel.shadowRoot.getElementById(id);
      element.textContent = text;
      element.hidden = text === '';
    };
    write('title', tool === null ? 'The draft failed' : `${tool} failed`);
    write('message', name === null ? message : `${name}: ${message}`);
    write('where', file === undefined ? '' : `${file}:${line}:${column}`);
    write('stack', stack.length > 1 ? stack.join('\n') : '');
    write('count', count === 1 ? '' : `The latest of ${count} errors.`);
  }

  function dismiss() {
    panel.remove();
    panel = null;
    count = 0;
  }

  /** In a tree of its own: the app's styles do not reach it, nor its the app's. It does not take the focus from the page. */
  function makePanel() {
    const host = document.createElement('div');
    host.attachShadow({ mode: 'open' }).innerHTML = `
      <style>
        :host { all: initial !important; display: block !important; position: fixed !important; z-index: 2147483646 !important; inset: auto 0 0 !important;
          width: 100% !important; box-sizing: border-box !important; padding: 1rem !important; background: none !important;
          pointer-events: none !important; color-scheme: light dark !important; }
        section { display: grid; gap: 0.5rem; box-sizing: border-box; max-width: 48rem; max-height: 60vh; margin: 0 auto; overflow: auto;
          padding: 1rem 1.25rem; border-top: 4px solid #d33; border-radius: 12px; background: light-dark(#fff, #241f1c);
          color: light-dark(#1d1b18, #f0ede8); font: 15px / 1.45 system-ui, sans-serif; box-shadow: 0 4px 32px #0006;
          pointer-events: auto; }
        header { display: flex; align-items: start; justify-content: space-between; gap: 1rem; }
        h2, p, pre { margin: 0; overflow-wrap: anywhere; }
        h2 { font-size: 1.05rem; }
        #message, pre { white-space: pre-wrap; }
        #where, pre { font: 13px / 1.5 ui-monospace, monospace; }
        #where { font-weight: 600; }
        pre, #count { opacity: 0.8; }
        button { flex: none; padding: 0.3rem 0.7rem; border: 1px solid currentColor; border-radius: 8px; background: none;
          color: inherit; font: inherit; cursor: pointer; }
        button:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
        [hidden] { display: none; }
        @media print { :host { display: none !important; } }
      </style>
      <section role="alert" aria-labelledby="title">
        <header><h2 id="title"></h2><button type="button" aria-keyshortcuts="Escape">Dismiss (Esc)</button></header>
        <p id="message"></p>
        <p id="where"></p>
        <pre id="stack"></pre>
        <p id="count"></p>
      </section>`;
    host.shadowRoot.querySelector('button').onclick = dismiss;
    document.documentElement.append(host);
    // Over a dialog of the page too, where the browser can do that.
    host.popover = 'manual';
    host.showPopover?.();
    return host;
  }
})();
