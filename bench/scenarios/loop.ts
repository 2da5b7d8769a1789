/** How long the worst request of each route keeps the supervisor's event loop: the largest, deepest and longest that is legal. */
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import type { Route } from '../../supervisor/http/router.ts';
import { allRoutes } from '../../supervisor/routes/all.ts';
import type { Services } from '../../supervisor/services.ts';
import { APP, automationFiles, benchApp } from '../bench-app.ts';
import { type Scenario, sized, withDaemon } from '../context.ts';
import type { Daemon } from '../daemon.ts';
import { type Finding, fact } from '../measurements.ts';
import { appIds, crowd } from './crowd.ts';

const APPS = { full: 2000, smoke: 20 };
const ROUNDS = { full: 3, smoke: 1 };
/** A route that answers for longer is left after this; an event stream after the other. */
const LEFT_MS = 1500;
const STREAM_MS = 200;
/** Longer than the loop's delay is sampled at. */
const SETTLE_MS = 25;
const MiB = 1024 * 1024;
const LARGE = 'large';
const NODES = 5000;

/** A request, by default with the token and without a body. */
type Send = {
  what: string;
  target: string;
  headers?: Record<string, string>;
  body?: string | Buffer;
  isStranger?: true;
};
/** What the addresses of routes name. */
type Names = Record<string, string>;
type Place = { names: Names; large: Names };

export const loopScenario: Scenario = {
  name: 'loop',
  question: "How long does the worst request of each route hold the supervisor's event loop?",
  run: async (context) => {
    const rounds = sized(context, ROUNDS);
    const worst = new Map<string, Finding>();
    const measure = async (daemon: Daemon, route: Route, sends: Send[]): Promise<void> => {
      const name = `${route.method} ${route.path}`;
      for (const send of sends) {
        const delays: number[] = [];
        for (let i = 0; i < rounds; i++) delays.push(await delayOf(daemon, route.method, send));
        // What other processes take of the processor makes a delay longer, and never shorter.
        const value = Math.min(...delays);
        if (value < (worst.get(name)?.value ?? 0)) continue;
        const detail = `${send.what}; the least of ${rounds}, the longest ${Math.max(...delays).toFixed(1)} ms`;
        worst.set(name, fact(name, value, 'ms', detail));
      }
    };
    const routes = allRoutes({ automations: {} } as Services);

    // On the git store, which has all routes.
    const appsStoreRoot = join(context.newFolder(), 'code-store');
    const onGit = async (daemon: Daemon) => {
      const place = await fillAuthoring(daemon, context.options.smoke);
      for (const route of routes)
        await measure(daemon, route, [...anySends(route, place.names), ...ownSends(route, place)]);
    };
    await withDaemon(context, onGit, { config: { appsStoreRoot } });
    const amongMany = async (daemon: Daemon) => {
      for (const route of routes) await measure(daemon, route, crowdSends(route));
    };
    const dataDir = await crowd(context, appIds(sized(context, APPS)));
    await withDaemon(context, amongMany, { dataDir });
    return [...worst.values()].sort((a, b) => b.value - a.value);
  },
};

/** Milliseconds that the supervisor's loop was late at most while it answered. */
export async function delayOf(daemon: Daemon, method: string, send: Send): Promise<number> {
  await daemon.takeEventLoop();
  await pause(SETTLE_MS);
  await daemon.takeEventLoop();
  await answered(daemon, method, send);
  await pause(SETTLE_MS);
  return (await daemon.takeEventLoop())?.max ?? 0;
}

/** Resolves when the answer is whole, or refused, or lasts too long. */
async function answered(daemon: Daemon, method: string, { target, headers, body, isStranger }: Send): Promise<void> {
  const auth = isStranger ? {} : { authorization: `Bearer ${daemon.token}` };
  const signal = AbortSignal.timeout(LEFT_MS);
  const options = { method, headers: { ...auth, ...headers }, signal, redirect: 'manual' as const };
  try {
    const answer = await fetch(daemon.url + target, { ...options, ...(body === undefined ? {} : { body }) });
    const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream');
    if (isStream) await pause(STREAM_MS);
    await (isStream ? answer.body?.cancel() : answer.arrayBuffer());
  } catch {
    // It was cut off, by whichever side.
  }
}

const CALL = '{"app":"bench","query":"list","action":"put","input":';

/** A list of as many small values as fit, which takes longest to parse. */
function fill(value: string, bytes: number): string {
  const [before, after] = [`${CALL}[`, ']}'];
  const count = Math.floor((bytes - before.length - after.length + 1) / (value.length + 1));
  return before + Array(count).fill(value).join(',') + after;
}

/** Members with names that differ. */
function members(bytes: number, before = `${CALL}{`, after = '}}'): string {
  const all: string[] = [];
  for (let left = bytes - before.length - after.length, i = 0; ; i++) {
    const member = `"${i.toString(36)}":0`;
    left -= member.length + 1;
    if (left < 0) return before + all.join(',') + after;
    all.push(member);
  }
}

const HEADERS = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`x-${i}`, 'a'.repeat(300)]));
const COOKIES = { cookie: Array.from({ length: 900 }, () => 'svc_session=1').join('; ') };
const BODIES: [what: string, body: string][] = [
  ['1 MiB of brackets', '['.repeat(MiB)],
  ['1 MiB of levels, as deep as may be', fill('['.repeat(900) + ']'.repeat(900), MiB)],
  ['1 MiB of empty objects', fill('{}', MiB)],
  ['as many values as a body may hold', fill('{}', LIMITS.jsonValues * 1.45)],
  ['1 MiB of members', members(MiB)],
  ['1 MiB of texts', fill('"\\n\\u0041a"', MiB)],
];

/** What can be sent to any route. */
function anySends({ method, path }: Route, names: Names): Send[] {
  // Not to take away what the other routes need.
  const nobody = method === 'DELETE' ? { id: 'nobody', sid: 'nobody', app: 'nobody' } : {};
  const target = addressOf(path, { ...names, ...nobody });
  const long = `${target}?${'a%41&'.repeat((LIMITS.urlBytes - target.length - 100) / 5)}`;
  const sends: Send[] = [
    { what: 'plain', target },
    { what: 'the longest address and most headers', target: long, headers: HEADERS },
    { what: 'a stranger with a long cookie', target, headers: COOKIES, isStranger: true },
  ];
  if (method === 'GET') return sends;
  for (const [what, body] of BODIES) sends.push({ what, target, body });
  sends.push({ what: 'a stranger with 1 MiB of objects', target, body: BODIES[2]?.[1] as string, isStranger: true });
  return sends;
}

/** What is worst on a route of its own. */
function ownSends(route: Route, { names, large }: Place): Send[] {
  const target = addressOf(route.path, large);
  const small = addressOf(route.path, names);
  const body = (what: string, value: object, to = target): Send => ({ what, target: to, body: JSON.stringify(value) });
  const settings = JSON.parse(members(LIMITS.settingsBytes * 0.9, '{', '}')) as object;
  const own: Record<string, Send[]> = {
    'POST /svc/_tool/svc_describe': [body('a manifest of 900 KiB', { app: LARGE })],
    'POST /svc/_tool/svc_write': [
      { what: 'a key and 1 MiB of objects', target: small, headers: key(), body: fill('{}', MiB) },
      { what: 'a key and 64 KiB of members', target: small, headers: key(), body: members(LIMITS.callParsedBytes) },
    ],
    'POST /svc/_tool/svc_read': [body('1,000 rows', { app: APP, query: 'list', input: { limit: 1000 } }, small)],
    'PUT /_svc-user/prefs': [body('6,000 preferences', { patch: settings })],
    'GET /_svc-user/prefs': [{ what: '6,000 preferences', target }],
    'PUT /svc/_apps/:id/settings': [body('6,000 settings', settings)],
    'PUT /svc/_draft/:sid/_apps/:id/settings': [body('6,000 settings', settings)],
    'POST /svc/_automations/:app/:id/run': [
      {
        what: 'as much input as it may have',
        target: `${small}?wait=1`,
        body: members(LIMITS.jsonValues * 8, '{"input":{'),
      },
      { what: '5,000 nodes', target: `/svc/_automations/${APP}/nodes/run?wait=1`, body: '{}' },
    ],
    'GET /svc/_runs': [{ what: '500 rows', target: `${target}?limit=500` }],
    'PUT /svc/_sessions/:sid/apps/:id/files/*': [
      { what: '5 MiB', target: `${target}/large.txt`, body: Buffer.alloc(LIMITS.archiveFileBytes, 'x\n') },
    ],
    'POST /svc/_sessions/:sid/apps/:id/files': [
      { what: '20 MiB that are no archive', target, body: Buffer.alloc(20 * MiB) },
    ],
    'POST /svc/_apps/:id/upload': [{ what: '20 MiB that are no archive', target, body: Buffer.alloc(20 * MiB) }],
    'GET /svc/:id/_changes': [{ what: 'from the first event on', target, headers: { 'last-event-id': '1' } }],
    'GET /svc/:id/*': [{ what: 'a file of 1 MiB', target: `/svc/${LARGE}/file-0.json` }],
  };
  const more = own[`${route.method} ${route.path}`] ?? [];
  return route.method === 'GET' ? [{ what: 'the largest app', target }, ...more] : more;
}

/** What is worst where there are many apps. */
function crowdSends({ method, path }: Route): Send[] {
  const name = `${method} ${path}`;
  const target = addressOf(path, { id: `${APP}-0`, app: `${APP}-0` });
  if (name === 'POST /svc/_tool/svc_describe') return [{ what: 'all of many apps', target, body: '{}' }];
  const isList = method === 'GET' && !path.includes(':') && !path.includes('*') && path.startsWith('/svc/_');
  return isList ? [{ what: 'many apps', target }] : [];
}

let keys = 0;
function key(): Record<string, string> {
  return { 'idempotency-key': `loop ${keys++}` };
}

/** `job` and `nodes` are automations of `APP`. */
function addressOf(path: string, names: Names): string {
  return path
    .replace('_automations/:app/:id', `_automations/${names.id === 'nobody' ? 'nobody/job' : `${APP}/job`}`)
    .replace(/:(\w+)/g, (_all, name: string) => names[name] ?? 'nobody')
    .replace(/\/\*$/, '/index.html');
}

/** Everything large at once: an app, its files, a run with its nodes, a workspace. */
async function fillAuthoring(daemon: Daemon, smoke: boolean): Promise<Place> {
  const call = async (method: string, path: string, body?: unknown): Promise<Record<string, string>> =>
    (await daemon.request(method, path, body === undefined ? undefined : JSON.stringify(body))).json() as never;
  await daemon.install(APP, benchApp(APP, { ...automationFiles('job', []), ...nodesFiles(smoke ? 50 : NODES) }));
  await daemon.install(LARGE, benchApp(LARGE, largeFiles(smoke ? 20 : 380)));
  const { runId = '' } = await call('POST', `/svc/_automations/${APP}/nodes/run?wait=1`, {});
  const input = 'x'.repeat(LIMITS.runValueBytes * 0.9);
  for (let i = 0; i < (smoke ? 2 : 200); i++) await call('POST', `/svc/_automations/${APP}/job/run?wait=1`, { input });
  const { sessionId: sid = '' } = await call('POST', '/svc/_sessions', {});
  for (let i = 0; i < (smoke ? 1 : 4); i++) {
    await daemon.request('PUT', `/svc/_sessions/${sid}/apps/${LARGE}/files/file-${i}.json`, largeFile('changed'));
  }
  for (const app of [APP, LARGE]) await (await daemon.request('GET', `/svc/_draft/${sid}/${app}/`)).arrayBuffer();
  const names = { id: APP, app: APP, sid, runId, tool: 'svc_read' };
  return { names, large: { ...names, id: LARGE } };
}

function largeFile(word: string): string {
  return `${JSON.stringify(Array(80_000).fill(word), null, 1)}\n`;
}

/** A manifest near its limit, and files of 1 MiB. */
function largeFiles(queries: number): Record<string, string> {
  const manifest = JSON.parse(String(benchApp()['app.json'])) as { queries: object[] };
  const files: Record<string, string> = {};
  for (let i = 0; i < queries; i++) {
    manifest.queries.push({ name: `query_${i}`, description: 'd'.repeat(2300), reads: [] });
    files[`queries/query_${i}.js`] = 'export default () => 1;\n';
  }
  for (let i = 0; i < 4; i++) files[`file-${i}.json`] = largeFile('word');
  return { ...files, 'app.json': JSON.stringify({ ...manifest, id: LARGE }) };
}

/** An automation whose run has so many nodes, each with as much as all of them may have. */
function nodesFiles(nodes: number): Record<string, string> {
  const [manifest, handler] = Object.entries(automationFiles('nodes', [])) as [[string, string], [string, string]];
  const bytes = Math.floor(LIMITS.runNodesBytes / nodes / 2);
  const code = `export default async ({ ctx }) => {
  for (let i = 0; i < ${nodes}; i++) await ctx.tool('svc_read', { app: '${APP}', query: 'get', input: { id: 1 }, more: 'x'.repeat(${bytes}) });
};\n`;
  return { [manifest[0]]: manifest[1], [handler[0]]: code };
}
