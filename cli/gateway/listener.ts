/** Finds out who listens on a port in use: another gateway with its data directory, or another program. */
import { basename, resolve } from 'node:path';
import { DEFAULTS, LIMITS } from '../../protocol/limits.ts';
import { Layout } from '../../storage/layout.ts';
import { lockHolder } from '../../storage/processes/data-lock.ts';
import { type Listener, listenerOn } from '../../storage/processes/port-listener.ts';
import { shellPath, shortPath } from '../terminal/paths.ts';
import { Client } from './client.ts';
import { defaultDataDirectory, type Surroundings } from './connection.ts';

/** `what` begins a sentence; `steps` say what to do about it. */
type PortListener = { what: string; steps: string[] };

const FREE_PORT = 'svc serve --port 0';

/** Never rejects. `port` is known to be in use. */
export async function whoListens(host: string, port: number, surroundings: Surroundings): Promise<PortListener> {
  const listener = listenerOn(port);
  const pid = listener === null ? '' : ` (pid ${listener.pid})`;
  const stop = listener === null ? 'Stop it' : `Stop it (kill ${listener.pid})`;
  const version = await gatewayVersion(host, port);
  if (version === null)
    return { what: `${programOf(listener)}${pid}`, steps: [`${stop}, or use any free port: ${FREE_PORT}`] };
  const dataDir = listener === null ? null : dataDirectoryOf(listener, surroundings.platform);
  if (dataDir === null)
    return {
      what: `Another gateway (svc-gateway ${version}${listener === null ? '' : `, pid ${listener.pid}`})`,
      steps: [`${stop}, or use any free port: ${FREE_PORT}`],
    };
  const shown = shortPath(dataDir, surroundings);
  return {
    what: `Another gateway (svc-gateway ${version}, pid ${listener?.pid}) with the data directory ${shown}`,
    steps: [`Use that one: svc status --data-dir ${shellPath(shown)}`, `${stop}, or use any free port: ${FREE_PORT}`],
  };
}

/** The gateway that listens on a port of this machine, with its data directory where this user may know it. */
export async function gatewayOn(
  host: string,
  port: number,
  { platform }: Surroundings,
): Promise<{ dataDir: string | null } | null> {
  if ((await gatewayVersion(host, port)) === null) return null;
  const listener = listenerOn(port);
  return { dataDir: listener === null ? null : dataDirectoryOf(listener, platform) };
}

/** A gateway tells its version without a token; null if it is not a gateway, or does not answer. */
async function gatewayVersion(host: string, port: number): Promise<string | null> {
  const here = host === '0.0.0.0' || host === '::' ? DEFAULTS.host : host;
  const url = `http://${here.includes(':') ? `[${here}]` : here}:${port}`;
  try {
    const asked = new Client({ url, urlFrom: 'this command', token: undefined, tokenFrom: 'nowhere' });
    const { ok, version } = await asked.call('GET /svc/_health', {}, { timeoutMs: LIMITS.helloMs });
    return ok === true && typeof version === 'string' ? version : null;
  } catch {
    return null;
  }
}

/** The program and its script, but no further arguments, which may contain secrets. */
function programOf(listener: Listener | null): string {
  const [program, script = ''] = listener?.command ?? [];
  if (program === undefined) return 'Another program';
  return script === '' || script.startsWith('-') ? basename(program) : `${basename(program)} ${basename(script)}`;
}

/**
 * The data directory whose lock the process holds; its arguments, environment and current folder give the candidates.
 */
function dataDirectoryOf({ pid, command, cwd, env }: Listener, platform: NodeJS.Platform): string | null {
  const at = command.findIndex((word) => /^--data-dir(?:=|$)/.test(word));
  const word = command[at] ?? '';
  const named = word.includes('=') ? word.slice(word.indexOf('=') + 1) : command[at + 1];
  const candidates = [
    ...(at < 0 || named === undefined ? [] : [resolve(cwd, named)]),
    defaultDataDirectory({ env, cwd, platform }),
  ];
  return candidates.find((folder) => isHeldBy(folder, pid)) ?? null;
}

function isHeldBy(folder: string, pid: number): boolean {
  try {
    return lockHolder(new Layout(folder).lock) === pid;
  } catch {
    return false;
  }
}
