/** Completes the settings of a cluster, the member `cluster` of the configuration (specification, "Cluster: nodes and buckets"). */
import { hostname } from 'node:os';
import { type Config, ConfigError } from '../config.ts';

/**
 * `urls`: the database, by its primary and the standbys that may become it. `address` is where the other nodes reach this one,
 * `secret` what they prove themselves with.
 */
export type ClusterSettings = { urls: string[]; node: string; address: string; secret: string };

const NAME_CHARS = 64;
const SECRET_ENV = 'SVC_CLUSTER_SECRET';

/** Throws `ConfigError`, which names the member that is missing and has no default here, or what no node can do. */
export function clusterSettings(
  cluster: NonNullable<Config['cluster']>,
  { host, port, backups }: Pick<Config, 'host' | 'port' | 'backups'>,
  environment: NodeJS.ProcessEnv = process.env,
): ClusterSettings {
  const { node = nameOfMachine(), address, secretEnv = SECRET_ENV } = cluster;
  if (backups !== null)
    throw new ConfigError(
      'A node of a cluster has some of the apps. Back up the database of the cluster, and remove "backups" from the configuration.',
      'backups',
    );
  const urls = 'urls' in cluster ? cluster.urls : [cluster.url];
  return { urls, node, address: address ?? ownAddress(host, port), secret: secretOf(secretEnv, environment) };
}

function secretOf(name: string, environment: NodeJS.ProcessEnv): string {
  const secret = environment[name] ?? '';
  if (secret !== '') return secret;
  throw new ConfigError(
    `The environment variable ${name} is not set: give all nodes of the cluster the same secret in it, such as the output of "openssl rand -hex 32".`,
    'cluster',
  );
}

/** What listens on all addresses, or on a port that the system chooses, cannot tell the others where it is. */
function ownAddress(host: string, port: number): string {
  if (port !== 0 && host !== '0.0.0.0' && host !== '::')
    return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  throw new ConfigError(
    '"cluster.address" is missing: say where the other nodes reach this one, such as "http://10.0.0.5:8787".',
    'cluster',
  );
}

function nameOfMachine(): string {
  const name = hostname()
    .replace(/[^A-Za-z0-9_.-]/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '');
  return name.slice(0, NAME_CHARS) || 'node';
}
