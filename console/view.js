/**
 * The bridge of a page in a host of MCP Apps (specification, "MCP Apps"): `window.svc` as at the gateway, over the host's
 * messages. The gateway puts it first into the page's document, whose tag says what app it is:
 *
 *     <script data-app="{ …app.json, app }" data-home="…" data-settings="{ … }">…</script>
 *
 * The page has an address of nowhere, and no storage; what it may do is what the host lets it do with the tools of its app.
 */
import { describedTool, toolNameOf } from '../protocol/http/mcp-app.ts';
import { Host, HostError } from './bridge/app-host.ts';
import { giveCalls, SvcError } from './bridge/calls.js';
import { createLook, keepFragments, loadFonts, openLinksOutside, tellSize, watchSight } from './bridge/frame.ts';
import { showFiles } from './bridge/host-files.ts';
import { linkModules } from './bridge/modules.js';
import { giveSettings } from './bridge/settings.js';
import { createLiveQueries } from './bridge/streams/live.js';
import { Polling } from './bridge/streams/polling.ts';

const { app, home, settings = '{}' } = document.currentScript.dataset;
const described = JSON.parse(app);
const host = new Host(described.name);
window.svc ??= {};
const { svc } = window;
svc.appId = described.app;
svc.visitor = false;
svc.user = null;
svc.status = 'online';

// ---- Calls -----------------------------------------------------------------------------------------------------------

const UNANSWERED = 'The host did not answer. Try again.';

/** Calls a tool of the app: `kind` is query or action. Rejects with an `SvcError`. */
async function call(kind, name, input, unanswered) {
  const params = { name: toolNameOf(described, kind, name), arguments: input };
  const result = await host.request('tools/call', params).catch((error) => {
    throw refusalOf(error, unanswered);
  });
  const text = result?.content?.find(({ type }) => type === 'text')?.text;
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new SvcError(0, { code: 'UNREACHABLE', message: typeof text === 'string' && text ? text : unanswered });
  }
  const isError = result.isError === true;
  if (isError && value?.isError === true) throw new SvcError(statusOf(value.error), value.error);
  return { isError, value };
}

/** The gateway's own error, where the host passed it on. */
function refusalOf(error, unanswered) {
  if (!(error instanceof HostError)) return new SvcError(0, { code: 'UNREACHABLE', message: unanswered });
  const { data } = error;
  if (typeof data?.code === 'string') return new SvcError(statusOf(data), data);
  return new SvcError(0, { code: 'HOST_REFUSED', message: error.message });
}

/** A tool says no status: that of an input which is wrong is known. */
const statusOf = ({ code }) => (code === 'INVALID_INPUT' ? 400 : 0);

async function readNow(query, input) {
  const { isError, value } = await call('query', query, input, UNANSWERED);
  if (!isError) return value;
  throw new SvcError(value?.status ?? 0, { code: 'HANDLER_ERROR', message: `The query ${query} failed.` });
}

const polling = new Polling(
  readNow,
  () => liveQueries,
  () => calls.reset(),
);

const calls = giveCalls(svc, {
  read: (query, input) => polling.read(query, input),
  write: async (action, input, { unanswered }) => {
    const { isError, value } = await call('action', action, input, unanswered);
    return isError ? value : { status: 200, body: value };
  },
  describe: async ({ query, action }) => {
    const kind = query === undefined ? 'action' : 'query';
    const name = query ?? action;
    if (name === undefined) return structuredClone(described);
    const tool = describedTool(described.app, described, kind, name);
    if (tool !== undefined) return structuredClone(tool);
    const code = kind === 'query' ? 'UNKNOWN_QUERY' : 'UNKNOWN_ACTION';
    throw new SvcError(404, { code, message: `"${described.app}" has no ${kind} "${name}".` });
  },
  keepsKeys: false,
  written: () => {
    liveQueries.written();
    calls.reset();
    void polling.ask();
  },
});

const liveQueries = createLiveQueries({
  changed: () => void polling.ask(),
  makeError: (body) => new SvcError(body.status ?? 0, body),
  isWriting: calls.isWriting,
});

svc.live = (query, input, callback, onError) => {
  if (typeof callback !== 'function') throw new TypeError('svc.live(query, input, callback): the callback is missing.');
  return liveQueries.follow(query, input ?? {}, callback, onError);
};

const unsupported = (what) => async () => {
  throw new SvcError(0, { code: 'UNSUPPORTED', message: `${what} from here: open the app in a browser to do it.` });
};
svc.upload = unsupported('Files cannot be added');
svc.fetch = unsupported('Nothing can be fetched');
svc.signIn = unsupported('Nobody signs in');
svc.signOut = unsupported('Nobody signs out');
svc.share = unsupported('Nothing is shared');
svc.url = (address) => address;
showFiles(host, described.app);

// ---- The host --------------------------------------------------------------------------------------------------------

const setLive = giveSettings(svc, { knobs: described.knobs, settings: JSON.parse(settings) }, async () => {});
const look = createLook((theme) => setLive({ theme }));

/** How long a page may take to store what it holds before it is taken away. */
const LAST_MS = 3000;
let input = null;

/** The call of the model that opened the page, or calls it again. */
function opened(context) {
  const tool = context?.toolInfo?.tool?.name;
  if (typeof tool === 'string') svc.opened = { tool, input };
}

host.on('ui/notifications/host-context-changed', (context) => {
  look(context);
  opened(context);
});
host.on('ui/notifications/tool-input', (params) => {
  input = params.arguments ?? {};
  if (svc.opened) svc.opened = { ...svc.opened, input };
  document.dispatchEvent(new CustomEvent('svc:opened', { bubbles: true, detail: { ...svc.opened, input } }));
});
host.on('ui/notifications/tool-result', () => {
  calls.reset();
  void polling.ask();
});
host.on('ui/resource-teardown', async () => {
  dispatchEvent(new Event('pagehide'));
  const until = performance.now() + LAST_MS;
  while (calls.isWriting() && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 50));
  return {};
});

/** Of the call that opened it; null in a host that does not say. */
svc.opened = null;
host.ready.then(
  ({ hostContext = {} }) => {
    look(hostContext);
    opened(hostContext);
    watchSight((isSeen) => polling.seen(isSeen));
  },
  () => {
    svc.status = 'offline';
    document.dispatchEvent(new CustomEvent('svc:status', { bubbles: true, detail: { status: 'offline' } }));
  },
);
keepFragments();
openLinksOutside(host, home);
document.addEventListener('DOMContentLoaded', () => {
  tellSize(host);
  loadFonts();
});

// ---- Scripts ---------------------------------------------------------------------------------------------------------

/** Takes the modules of the page, and gives what runs one of them. */
window.svcModules = (definitions) => {
  window.svcRun = linkModules(definitions);
};
/** Runs a script that was to run once the page is there. */
window.svcScript = (code) => {
  const script = document.createElement('script');
  script.text = code;
  document.head.append(script);
  script.remove();
};
