/** nginx and HAProxy as Debian packages them, each a separate process in front of one gateway. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '../free-port.ts';

export type ProxyKind = 'nginx' | 'haproxy';

/**
 * The configuration of a proxy: as in its documentation, or as lenient as possible, so that it passes on as much as it
 * can.
 */
export type Strictness = 'default' | 'lenient';

export type ProxyProcess = {
  readonly ports: Readonly<Record<Strictness, number>>;
  readonly version: string;
  stop(): Promise<void>;
};

const READY_MS = 10_000;

/** The command's path and version; null if it is not installed. */
export function installed(kind: ProxyKind): { command: string; version: string } | null {
  for (const command of [`/usr/sbin/${kind}`, kind]) {
    const { error, stdout, stderr } = spawnSync(command, ['-v'], { encoding: 'utf8' });
    if (!error) return { command, version: /\d+\.\d+\.\d+/.exec(stdout + stderr)?.[0] ?? 'unknown' };
  }
  return null;
}

/** Starts the proxy in `folder`. Throws with its output if it does not start, or is not installed. */
export async function startProxy(kind: ProxyKind, upstreamPort: number, folder: string): Promise<ProxyProcess> {
  const found = installed(kind);
  if (found === null) throw new Error(`${kind} is not installed.`);
  const ports = { default: await freePort(), lenient: await freePort() };
  const file = join(folder, `${kind}.conf`);
  writeFileSync(file, (kind === 'nginx' ? nginxConfig : haproxyConfig)(upstreamPort, ports, folder));
  const args = kind === 'nginx' ? ['-p', folder, '-c', file, '-e', join(folder, 'error.log')] : ['-db', '-f', file];
  const child = spawn(found.command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said = (said + chunk).slice(-4096);
  });
  try {
    for (const port of Object.values(ports)) await accepting(child, port);
  } catch (error) {
    child.kill('SIGKILL');
    throw new Error(`${kind} did not start: ${said}`, { cause: error });
  }
  return { ports, version: found.version, stop: () => stop(child) };
}

function nginxConfig(upstream: number, ports: Record<Strictness, number>, folder: string): string {
  const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  const server = (port: number, own: string) => `server {
    listen 127.0.0.1:${port};
    ${own}
    location / {
      proxy_pass http://gateway;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
    }
  }`;
  return `daemon off;
master_process off;
pid ${folder}/nginx.pid;
events { worker_connections 512; }
http {
  access_log off;
  ${places.join('\n  ')}
  upstream gateway { server 127.0.0.1:${upstream}; keepalive 4; }
  ${server(ports.default, '')}
  ${server(ports.lenient, 'proxy_request_buffering off; ignore_invalid_headers off; underscores_in_headers on; merge_slashes off;')}
}
`;
}

function haproxyConfig(upstream: number, ports: Record<Strictness, number>): string {
  return `defaults
  mode http
  timeout connect 5s
  timeout client 15s
  timeout server 15s
  timeout http-keep-alive 15s
frontend default
  bind 127.0.0.1:${ports.default}
  default_backend gateway
frontend lenient
  bind 127.0.0.1:${ports.lenient}
  option accept-invalid-http-request
  default_backend gateway
backend gateway
  http-reuse always
  server gateway 127.0.0.1:${upstream}
`;
}

/** A proxy does not say when it listens. */
async function accepting(child: ChildProcess, port: number): Promise<void> {
  for (const deadline = Date.now() + READY_MS; ; await pause(20)) {
    if (child.exitCode !== null) throw new Error(`It ended with ${child.exitCode}.`);
    if (Date.now() > deadline) throw new Error(`Nothing listens on port ${port} after ${READY_MS} ms.`);
    const socket = connect(port, '127.0.0.1');
    const open = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    });
    socket.destroy();
    if (open) return;
  }
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}
