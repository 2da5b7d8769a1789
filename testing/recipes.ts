/** For tests: the reverse proxies of deploy/ run from their files, with only ports, names and certificates replaced. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { OutgoingHttpHeaders } from 'node:http';
import { request } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from './free-port.ts';
import { root } from './gateway.ts';
import { inTime, LONG_MS } from './waiting.ts';

export type RecipeKind = 'nginx' | 'caddy';

/** The domain of the recipes. */
const DOMAIN = 'apps.example.org';
const COMMANDS: Record<RecipeKind, string> = { nginx: '/usr/sbin/nginx', caddy: 'caddy' };

/** Why tests behind this proxy are skipped here, or false. */
export function withoutProxy(kind: RecipeKind): string | false {
  const needed = kind === 'nginx' ? [COMMANDS.nginx, 'openssl'] : [COMMANDS.caddy];
  const missing = needed.filter((command) => spawnSync(command, ['version']).error !== undefined);
  return missing.length === 0 || process.env.CI === 'true' ? false : `${missing.join(' and ')}: not installed.`;
}

export type Answered = { status: number; headers: Record<string, string | string[] | undefined>; body: Buffer };
export type Asked = { host?: string; headers?: OutgoingHttpHeaders; body?: string | Buffer };

export type RecipeProxy = {
  readonly domain: string;
  /** One request over TLS to a host of the domain, by default to the console. */
  ask(method: string, path: string, options?: Asked): Promise<Answered>;
  /** The pieces of an event stream as they arrive; ends with the test. */
  events(path: string, headers: OutgoingHttpHeaders): Promise<AsyncIterator<Buffer>>;
  readonly httpPort: number;
};

/** Each text must occur: otherwise the test would not cover a changed recipe. */
function replaceAll(text: string, replacements: [from: string, to: string][]): string {
  return replacements.reduce((changed, [from, to]) => {
    if (!changed.includes(from)) throw new Error(`The recipe has no "${from}".`);
    return changed.replaceAll(from, to);
  }, text);
}

type Ports = { http: number; https: number; gateway: number };

function nginx(folder: string, ports: Ports): string[] {
  const names = ['-subj', `/CN=${DOMAIN}`, '-addext', `subjectAltName=DNS:${DOMAIN},DNS:*.${DOMAIN}`];
  const files = ['-keyout', join(folder, 'key.pem'), '-out', join(folder, 'cert.pem')];
  const made = spawnSync('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-days',
    '2',
    ...names,
    ...files,
  ]);
  if (made.status !== 0) throw new Error(`openssl: ${made.stderr}`);
  const recipe = replaceAll(readFileSync(join(root, 'deploy/nginx.conf'), 'utf8'), [
    ['listen 80;', `listen 127.0.0.1:${ports.http};`],
    ['listen 443 ssl http2;', `listen 127.0.0.1:${ports.https} ssl http2;`],
    ['127.0.0.1:8787', `127.0.0.1:${ports.gateway}`],
    [`/etc/letsencrypt/live/${DOMAIN}/fullchain.pem`, join(folder, 'cert.pem')],
    [`/etc/letsencrypt/live/${DOMAIN}/privkey.pem`, join(folder, 'key.pem')],
  ]);
  const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  const file = join(folder, 'nginx.conf');
  const main = `daemon off;\nmaster_process off;\npid ${folder}/nginx.pid;\nevents {}\n`;
  writeFileSync(file, `${main}http {\naccess_log off;\n${places.join('\n')}\n${recipe}\n}\n`);
  return ['-p', folder, '-c', file, '-e', join(folder, 'error.log')];
}

function caddy(folder: string, ports: Ports): string[] {
  const recipe = replaceAll(readFileSync(join(root, 'deploy/Caddyfile'), 'utf8'), [
    [
      '\temail {$ACME_EMAIL}\n',
      `\tadmin off\n\tskip_install_trust\n\thttp_port ${ports.http}\n\thttps_port ${ports.https}\n\tstorage file_system ${folder}/store\n`,
    ],
    ['\t\tdns {$DNS_PROVIDER} {$DNS_TOKEN}\n', '\t\tissuer internal\n'],
  ]);
  const file = join(folder, 'Caddyfile');
  writeFileSync(file, recipe);
  return ['run', '--adapter', 'caddyfile', '--config', file];
}

/** Runs the proxy in front of the gateway at this port until the end of the test. */
export async function startRecipe(
  t: { after(end: () => unknown): void },
  kind: RecipeKind,
  gateway: number,
): Promise<RecipeProxy> {
  const folder = mkdtempSync(join(tmpdir(), `svc-${kind}-`));
  const ports = { http: await freePort(), https: await freePort(), gateway };
  mkdirSync(join(folder, 'home'));
  const child = spawn(COMMANDS[kind], (kind === 'nginx' ? nginx : caddy)(folder, ports), {
    env: { PATH: process.env.PATH, HOME: join(folder, 'home'), APP_DOMAIN: DOMAIN, GATEWAY: `127.0.0.1:${gateway}` },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const streams = new Set<{ destroy(): void }>();
  t.after(async () => {
    for (const stream of streams) stream.destroy();
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    rmSync(folder, { recursive: true, force: true });
  });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said = (said + chunk).slice(-4096);
  });
  const target = (method: string, path: string, { host = DOMAIN, headers = {} }: Asked) => ({
    host: '127.0.0.1',
    port: ports.https,
    servername: host,
    // A certificate made for this test.
    rejectUnauthorized: false,
    method,
    path,
    headers: { host, ...headers },
  });
  const proxy: RecipeProxy = {
    domain: DOMAIN,
    httpPort: ports.http,
    ask: (method, path, options = {}) => {
      const answered = new Promise<Answered>((resolve, reject) => {
        const req = request({ ...target(method, path, options), agent: false }, (res) => {
          const chunks: Buffer[] = [];
          res.on('data', (chunk: Buffer) => chunks.push(chunk));
          res.on('error', reject);
          res.on('end', () =>
            resolve({ status: res.statusCode ?? 0, headers: res.headers, body: Buffer.concat(chunks) }),
          );
        });
        req.on('error', reject);
        req.end(options.body);
      });
      return inTime(answered, `the answer to ${method} ${path}`, LONG_MS);
    },
    events: async (path, headers) => {
      const req = request(target('GET', path, { headers }));
      streams.add(req);
      req.on('error', () => {});
      req.end();
      const [res] = await inTime(once(req, 'response'), `the head of ${path}`, LONG_MS);
      return res[Symbol.asyncIterator]();
    },
  };
  const until = Date.now() + LONG_MS;
  for (;;) {
    if (child.exitCode !== null || Date.now() > until) throw new Error(`${kind} does not serve: ${said}`);
    if (await isServing(proxy, ports.https)) return proxy;
    await pause(50);
  }
}

/** A proxy does not say when it listens, and Caddy makes its certificates first. */
async function isServing(proxy: RecipeProxy, port: number): Promise<boolean> {
  const isListening = await new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket.destroy() !== undefined));
    socket.on('error', () => resolve(false));
  });
  if (!isListening) return false;
  return proxy.ask('GET', '/svc/_health').then(
    ({ status }) => status === 200,
    () => false,
  );
}
