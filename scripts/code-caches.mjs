// Makes the caches of V8's code that every start uses (storage/processes/cached-code.ts): runs a built gateway, its app, its jobs and
// a command line once, and stores what V8 has compiled then. They are good for the Node that runs this, with its flags.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const ENTRIES = [
  'serve',
  'writer',
  'writer-thread',
  'host',
  'actor',
  'commons',
  'jobs',
  'job',
  'sql',
  'sql-thread',
  'cli',
];
const LOOK_MS = 50;
const LIMIT_MS = 60_000;
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const keep = ['--require', join(root, 'scripts/keep-code.cjs')];

/** `tree` holds `bin/` and a built `dist/`; `node` is the Node that will run it. */
export async function makeCodeCaches(tree = root, node = process.execPath) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-code-'));
  const svc = [...keep, join(tree, 'bin/svc.js')];
  const data = ['--data-dir', join(folder, 'data')];
  const env = { ...process.env, TMPDIR: folder, SVC_URL: '', SVC_TOKEN: '' };
  const flags = ['--port', '0', '--json', '--with', 'todos', '--log-file', join(folder, 'log')];
  const daemon = spawn(node, [...svc, 'serve', ...data, ...flags], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [line] = await once(createInterface({ input: daemon.stdout }), 'line');
    const { url, token } = JSON.parse(line);
    const call = async (tool, body) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      const answer = await fetch(`${url}/svc/_tool/${tool}`, { method: 'POST', headers, body: JSON.stringify(body) });
      if (!answer.ok) throw new Error(`${tool} was answered ${answer.status}: ${await answer.text()}`);
    };
    // In the commons, in a thread, and with data.
    await call('svc_read', { app: 'todos', query: 'list' });
    await call('svc_write', { app: 'todos', action: 'add', input: { title: 'Milk' } });
    await call('svc_read', { app: 'todos', query: 'list' });
    for (const words of [['apps'], ['sql', 'todos', 'SELECT 1']])
      execFileSync(node, [...svc, ...words, ...data], { env, stdio: 'pipe' });
    await stored(join(tree, 'dist'), ENTRIES);
  } finally {
    // At once: a stop is not what a start uses.
    daemon.kill('SIGKILL');
    await once(daemon, 'exit');
    // Of a thread that ended while it stored one.
    for (const name of readdirSync(join(tree, 'dist')))
      if (/\.cache-\d/.test(name)) rmSync(join(tree, 'dist', name), { force: true });
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

async function stored(dist, entries) {
  const until = performance.now() + LIMIT_MS;
  const missing = () => {
    const names = readdirSync(dist);
    return entries.filter((entry) => !names.some((name) => name.startsWith(`${entry}.`) && name.endsWith('.cache')));
  };
  while (missing().length > 0) {
    if (performance.now() > until) throw new Error(`No cache was made of the code of ${missing().join(', ')}.`);
    await wait(LOOK_MS);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await makeCodeCaches();
