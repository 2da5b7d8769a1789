/**
 * The page bridge, served at `/svc/_client.js` and put first into the `<head>` of every app's page:
 *
 *     <script src="/svc/_client.js" data-app="todos"></script>
 *
 * It gives the page `window.svc` (specification, "Page bridge"), one change stream, and its settings on `<html>` before the
 * first paint. The session cookie authenticates, together with the page key that it sends with each call (specification,
 * "Page key"). The tag in a page of a draft has `data-draft="<sid>" data-version="<of its files>"` too: that page talks to the
 * draft's routes only, and loads itself again when the draft's files change. A live page does so when another version of its
 * app goes live, but not while something that somebody has written in it would be lost. When the gateway is away or its session
 * has ended it says so, and goes on where it was once that is over. It keeps no calls for later. A visitor of a public page has
 * no session and follows no changes, until somebody signs in.
 */
import { PAGE_KEY_HEADER } from '../protocol/http/page-key.ts';
import { createBar } from './bridge/bar.js';
import { giveCalls, SvcError } from './bridge/calls.js';
import { hasEdits } from './bridge/edits.js';
import { watchFiles } from './bridge/files.js';
import { linkInstalled } from './bridge/installed.js';
import { keyHeaders, signedAddress, takePageKey } from './bridge/page-key.ts';
import { giveSettings } from './bridge/settings.js';
import { answerOf, retryDelay, watchConnection } from './bridge/streams/connection.js';
import { EventStream } from './bridge/streams/event-stream.ts';
import { createLiveQueries } from './bridge/streams/live.js';
import { put } from './bridge/upload.js';

(() => {
  takePageKey();
  /** A browser allows six HTTP/1.1 connections per origin over all tabs, so a tab in the background gives its own back. */
  const HIDDEN_MS = 30_000;
  /** How often it is looked whether somebody still writes in a page that is to load itself again. */
  const IDLE_MS = 1000;

  const { app: appId, draft, version: shown } = document.currentScript.dataset;
  const root = draft === undefined ? '/svc' : `/svc/_draft/${draft}`;
  const settingsUrl = `${root}/_apps/${appId}/settings`;
  /** The page has no page key, and is on the way to get it. */
  let leaving = false;
  const {
    knobs = [],
    prefs = {},
    settings = {},
    versionId,
    visitor = false,
    guest = false,
    user = null,
  } = loadSettings();
  /** What the page shows, so that it hears of another one that came while it followed no stream. */
  const version = shown ?? versionId;
  window.svc ??= {};
  const { svc } = window;

  // ---- Calls ---------------------------------------------------------------------------------------------------------

  const UNANSWERED = 'The server did not answer. Try again.';

  function request(method, url, value, { headers = {}, unanswered } = {}) {
    const init = { method, redirect: 'manual', body: JSON.stringify(value) };
    const all = () => ({ 'content-type': 'application/json', ...keyHeaders(), ...headers });
    return exchange(() => fetch(url, { ...init, headers: all() }), { unanswered });
  }

  /** `send` resolves to a Response. `unanswered` is what a person is told when nobody knows whether it was taken. */
  async function exchange(send, { unanswered = UNANSWERED, signal }) {
    if (leaving) return new Promise(() => {});
    if (svc.status === 'offline' && (await connection.check()) === 'offline') {
      const message = 'There is no connection, so this was not sent. Try again when the connection is back.';
      throw new SvcError(0, { code: 'OFFLINE', message });
    }
    let response;
    let answer;
    try {
      response = await send();
      answer = await answerOf(response);
    } catch {
      signal?.throwIfAborted();
      await connection.check();
      throw new SvcError(response?.status ?? 0, { code: 'UNREACHABLE', message: unanswered });
    }
    if (!answer.isError) return answer;
    if (answer.error.code === 'UNAUTHORIZED') {
      connection.refused(answer.byHost);
      // The gateway's own message is for programs, which have a token.
      const ended = guest
        ? 'The link by which you came here has ended.'
        : 'Your session has ended. Sign in and try again.';
      answer.error.message = svc.visitor ? 'Sign in to do this.' : ended;
    }
    throw new SvcError(response.status, answer.error);
  }

  const tool = async (name, args, options) => (await request('POST', `${root}/_tool/${name}`, args, options)).data;

  /**
   * Stores a file beside the app's database, for as long as nobody deletes it; `svc.url('_blobs/<sha256>')` shows it. `file` is a
   * File or Blob. Resolves to `{ sha256, size, type }`. `onProgress` is told a number from 0 to 1; `signal` stops it.
   */
  svc.upload = async (file, { onProgress, signal } = {}) => {
    signal?.throwIfAborted();
    const url = `${root}/${appId}/_blobs`;
    const send = () => put(url, file, { headers: keyHeaders(), onProgress, signal });
    return calls.writing(exchange(send, { signal }));
  };

  /** The address of a file, `_blobs/<sha256>`, for what the browser loads by itself: a picture, a video, a download. */
  svc.url = signedAddress;
  watchFiles(signedAddress);

  /** As `fetch`, with what lets this page call the gateway. */
  svc.fetch = (address, init) => {
    const asked = new Request(address, init);
    const isOurs = new URL(asked.url).origin === location.origin;
    for (const [name, value] of Object.entries(isOurs ? keyHeaders() : {})) asked.headers.set(name, value);
    return fetch(asked);
  };

  svc.appId = appId;

  const calls = giveCalls(svc, {
    read: (query, input) => {
      if (![source, ...replaced].some((stream) => stream?.readyState === EventStream.OPEN)) missed = true;
      return tool('svc_read', { app: appId, query, input });
    },
    write: (action, input, { key, unanswered }) => {
      const headers = key === undefined ? {} : { 'idempotency-key': key };
      return tool('svc_write', { app: appId, action, input }, { headers, unanswered });
    },
    describe: (filter) => tool('svc_describe', { app: appId, ...filter }),
    keepsKeys: true,
    written: () => liveQueries.written(),
  });
  const { emit, reset } = calls;

  /** Nobody is signed in, and the page is public: it may call what is public, and hears of no changes. */
  svc.visitor = visitor;

  // ---- People --------------------------------------------------------------------------------------------------------

  /** The person who has the page open, `{ id, name, email?, role }`, frozen; null where nobody with an account does. */
  svc.user = user && Object.freeze(user);

  /** Goes to where one signs in, and comes back. */
  svc.signIn = () => {
    const { href, target } = signIn();
    window.open(href, target);
  };

  // A page of an app signs nobody out and shares nothing by itself: the console asks, in a tab of its own.
  const atConsole = (view) => window.open(`/svc/#/${view}`, '_blank', 'noopener');

  /** Shows the account of who is signed in, where one signs out. */
  svc.signOut = () => atConsole('account');

  /** Shows the dialog in which the app is shared with others. */
  svc.share = () => atConsole(`apps/${appId}/settings?part=sharing&share`);

  // ---- Changes -------------------------------------------------------------------------------------------------------

  let source = null;
  let retries = 0;
  let retryTimer;
  let hiddenTimer;
  /** Something may have changed that the stream did not tell: what the page has read is told to be read again. */
  let missed = false;
  /** The bar says that somebody may not use the app. */
  let isRefused = false;

  /** Streams that go on until the one that took their place is open. */
  const replaced = [];

  function connect() {
    clearTimeout(retryTimer);
    if (source || leaving || svc.visitor || svc.status !== 'online') return;
    open();
  }

  function open() {
    const following = version === undefined ? '' : `version=${encodeURIComponent(version)}`;
    const { address, take } = liveQueries.next();
    const path = address === '' ? `_changes?${following}` : `_live?${address}&changes&${following}`;
    const stream = new EventStream(`${root}/${appId}/${path}`);
    source = stream;
    stream.on('open', () => {
      for (const old of replaced.splice(0)) old.close();
      retries = 0;
      if (missed) reset();
      missed = false;
      if (isRefused) showStatus('online');
      isRefused = false;
    });
    stream.on('change', (event) => emit({ type: 'change', ...JSON.parse(event.data) }));
    stream.on('reset', reset);
    stream.on('reload', draft === undefined ? renew : reload);
    stream.on('data', take);
    // Only drafts have these: `dev.js` shows them.
    stream.on('fault', ({ data }) =>
      document.dispatchEvent(new CustomEvent('svc:fault', { detail: JSON.parse(data) })),
    );
    stream.on('error', (event) => {
      // What a live query failed with has data, what ended the stream has none.
      if (event.data !== undefined) {
        take(event);
        return;
      }
      if (stream !== source) return;
      // A lost connection it reopens by itself. An HTTP error it takes as final; we do not.
      if (stream.readyState === EventStream.CLOSED) {
        disconnect();
        retryTimer = setTimeout(connect, retryDelay(retries++));
        // The role that let somebody in was taken away: a page that calls nothing would not show it.
        isRefused = stream.refusal?.code === 'FORBIDDEN';
        if (isRefused) showStatus('refused', stream.refusal.message);
      }
      // It does not tell what ended it.
      void connection.check();
    });
  }

  function disconnect() {
    clearTimeout(retryTimer);
    for (const stream of [...replaced.splice(0), source]) stream?.close();
    source = null;
    missed = true;
  }

  const liveQueries = createLiveQueries({
    changed: () => {
      if (source === null) return;
      replaced.push(source);
      open();
    },
    makeError: (body) => new SvcError(body.status ?? 0, body),
    isWriting: calls.isWriting,
  });

  /**
   * Calls back with the query's value at once and again whenever it differs, also after the connection was lost. `onError` gets why
   * there is no value for now; without it the console of the browser does. Answers the function that ends it. For a visitor, of a
   * public query, only the value of now.
   */
  svc.live = (query, input, callback, onError) => {
    if (typeof callback !== 'function')
      throw new TypeError('svc.live(query, input, callback): the callback is missing.');
    const end = liveQueries.follow(query, input ?? {}, callback, onError);
    if (!svc.visitor) return end;
    let ended = false;
    svc.read({ query, input: input ?? {} }).then(
      (value) => ended || callback(value),
      (error) => ended || (onError ?? console.error)(error),
    );
    return () => {
      ended = true;
      end();
    };
  };

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
    if (svc.status === 'online') connect();
    else void connection.check();
  }

  // ---- The connection ------------------------------------------------------------------------------------------------

  /** Whether calls can be taken at the moment: `online`, `offline` or `signed-out`. */
  svc.status = 'online';

  const showStatus = createBar({ signIn, retry: () => void connection.check(), isVisitor: visitor, isGuest: guest });

  const connection = watchConnection(changed, { isVisitor: visitor });

  function changed(status) {
    // Without a session that was asked for, the status would not be this.
    if (svc.status === 'signed-out' && status === 'online') svc.visitor = false;
    svc.status = status;
    showStatus(status);
    document.dispatchEvent(new CustomEvent('svc:status', { bubbles: true, detail: { status } }));
    retries = 0;
    if (status !== 'online') disconnect();
    // A visitor follows no stream that would say so when it opens.
    else if (svc.visitor) reset();
    else connect();
  }

  /** Signing in takes this tab only where nothing would be lost, and never a frame: a page may not sign in inside of another. */
  function signIn() {
    // A page that asks before it is left has something to lose.
    const mayLeave = () => dispatchEvent(new Event('beforeunload', { cancelable: true }));
    const isApart = parent !== window || isBusy() || !mayLeave();
    return { href: connection.signInAddress(), target: isApart ? '_blank' : '_self' };
  }

  connect();

  // ---- Reloading -----------------------------------------------------------------------------------------------------

  const SCROLL = `svc:scroll:${location.pathname}`;
  /** How long a page that loads again may take to be as long as it was. */
  const SCROLL_MS = 2000;

  function reload() {
    try {
      sessionStorage.setItem(SCROLL, JSON.stringify([scrollX, scrollY]));
    } catch {
      // A browser that stores nothing begins at the top.
    }
    location.reload();
  }

  function takeScroll() {
    try {
      const stored = sessionStorage.getItem(SCROLL);
      sessionStorage.removeItem(SCROLL);
      return JSON.parse(stored ?? '[0, 0]');
    } catch {
      return [0, 0];
    }
  }

  /** A reload would lose something: what was written, what a dialog shows, or the answer to an action. */
  const isBusy = () => calls.isWriting() || document.querySelector('dialog[open]') !== null || hasEdits();

  let waiting;

  /** Another version is live. A page that would rather choose the moment prevents `svc:newversion`, and reloads by itself. */
  function renew() {
    clearInterval(waiting);
    const event = new CustomEvent('svc:newversion', { bubbles: true, cancelable: true });
    if (!document.dispatchEvent(event)) return;
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
    const [x, y] = takeScroll();
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

  // ---- On a home screen ----------------------------------------------------------------------------------------------

  // A draft is gone with its session, and what is in a frame is not what is installed.
  if (draft === undefined && parent === window)
    document.addEventListener('DOMContentLoaded', () => linkInstalled(`${root}/${appId}/`));

  // ---- Settings ------------------------------------------------------------------------------------------------------

  /**
   * Settings must be on `<html>` before the first paint, HTML is served as it was stored and the script tag is the same for
   * everybody: so the script asks, and asks synchronously. The gateway that has just served the page answers in about a
   * millisecond. Without an answer the page keeps the looks of its own style sheet. A page that has a session but no page key gets
   * it at the console: it was opened in a browser that does not store it, or that forgot it.
   */
  function loadSettings() {
    try {
      const xhr = new XMLHttpRequest();
      xhr.open('GET', settingsUrl, false);
      for (const [name, value] of Object.entries(keyHeaders())) xhr.setRequestHeader(name, value);
      xhr.send();
      const answer = JSON.parse(xhr.responseText);
      if (xhr.status === 200) return answer;
      if (answer.error?.path === PAGE_KEY_HEADER) {
        leaving = true;
        location.replace(`/svc/_enter?to=${encodeURIComponent(location.href)}`);
      }
      return {};
    } catch {
      return {};
    }
  }

  const setLive = giveSettings(svc, { knobs, prefs, settings }, (next) => request('PUT', settingsUrl, next));

  // Whoever embeds the page may set these, whatever its origin: `frame-ancestors` lets only the page's own origin and the
  // console embed it, and the console has an origin of its own.
  addEventListener('message', ({ source: sender, data }) => {
    if (sender !== parent) return;
    if (data?.type === 'svc:settings') setLive(data.settings);
    else if (data?.type === 'svc:theme') setLive({ theme: data.theme });
  });
})();
