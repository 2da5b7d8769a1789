/** Finds gateways that run on this machine, for a command that found none where it looked. */
import { DEFAULTS } from '../../protocol/limits.ts';
import { dataDirectoryIn, serviceFile } from '../service/unit-files.ts';
import { shellPath, shortPath } from '../terminal/paths.ts';
import { running } from './background.ts';
import { applicationData, daemonOf, defaultDataDirectory, type Surroundings } from './connection.ts';
import { gatewayOn } from './listener.ts';

/** Where the Debian package and the unit of the machine keep data (deploy/svc.service). */
const OF_THE_MACHINE = '/var/lib/svc';

/** The address or the data directory where none answered. */
type Tried = { url?: string | undefined; dataDir?: string | undefined };

/**
 * A line for each, with its address and the option that reaches it: those of the default data directories, of the
 * service, and on the default port. Never rejects.
 */
export async function gatewaysElsewhere(tried: Tried, surroundings: Surroundings): Promise<string[]> {
  const found = new Map<string, string | null>();
  const places = [
    defaultDataDirectory(surroundings),
    applicationData(surroundings),
    dataDirectoryIn(serviceFile(surroundings)),
    OF_THE_MACHINE,
  ];
  for (const dataDir of new Set(places)) {
    if (dataDir === null || (dataDir === tried.dataDir && tried.url === undefined)) continue;
    const gateway = await running(dataDir, surroundings).catch(() => null);
    if (gateway !== null) found.set(gateway.client.url, dataDir);
  }
  const { host, port } = DEFAULTS;
  const url = `http://${host}:${port}`;
  const there = found.has(url) || tried.url === url ? null : await gatewayOn(host, port, surroundings);
  if (there !== null) found.set(url, there.dataDir);
  found.delete(tried.url ?? '');
  return [...found].map(([address, dataDir]) => {
    const hasToken = dataDir !== null && daemonOf(dataDir, surroundings)?.token !== undefined;
    if (hasToken)
      return `One runs at ${address}; to use it, add: --data-dir ${shellPath(shortPath(dataDir, surroundings))}`;
    return `One of another user runs at ${address}; to use it, add: --url ${address} --token <token> ("svc token" there prints it)`;
  });
}
