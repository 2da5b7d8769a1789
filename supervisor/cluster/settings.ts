/** Completes the settings of a cluster, `cluster` and `blobs` of the configuration (specification, "Cluster: nodes and buckets"). */
import { hostname } from 'node:os';
import type { S3Settings } from '../../storage/shared-files/s3.ts';
import { type Config, ConfigError } from '../config.ts';

/**
 * `urls`: the database, by its primary and the standbys that may become it. `address` is where the other nodes reach this one,
 * `secret` what they prove themselves with. `s3` has large files; null: the database has them.
 */
export type ClusterSettings = {
  urls: string[];
  node: string;
  address: string;
  secret: string;
  s3: S3Settings | null;
};

const NAME_CHARS = 64;
const SECRET_ENV = 'SVC_CLUSTER_SECRET';
/** As the programs of AWS name them. */
const ACCESS_KEY_ENV = 'AWS_ACCESS_KEY_ID';
const SECRET_KEY_ENV = 'AWS_SECRET_ACCESS_KEY';

const SECRET_MISSING =
  'give all nodes of the cluster the same secret in it, such as the output of "openssl rand -hex 32".';

/** Throws `ConfigError`, which names the member that is missing and has no default here, or what no node can do. */
export function clusterSettings(
  cluster: NonNullable<Config['cluster']>,
  { host, port, backups, blobs }: Pick<Config, 'host' | 'port' | 'backups' | 'blobs'>,
  environment: NodeJS.ProcessEnv = process.env,
): ClusterSettings {
  const { node = nameOfMachine(), address, secretEnv = SECRET_ENV } = cluster;
  if (backups !== null)
    throw new ConfigError(
      'A node of a cluster has some of the apps. Back up the database of the cluster, and remove "backups" from the configuration.',
      'backups',
    );
  const urls = 'urls' in cluster ? cluster.urls : [cluster.url];
  const secret = variable(environment, secretEnv, 'cluster', SECRET_MISSING);
  const s3 = blobs === null ? null : s3Settings(blobs.s3, environment);
  return { urls, node, address: address ?? ownAddress(host, port), secret, s3 };
}

function s3Settings(s3: NonNullable<Config['blobs']>['s3'], environment: NodeJS.ProcessEnv): S3Settings {
  const { accessKeyEnv = ACCESS_KEY_ENV, secretKeyEnv = SECRET_KEY_ENV, prefix = '' } = s3;
  const { endpoint, bucket, region } = s3;
  const accessKey = variable(environment, accessKeyEnv, 'blobs', 'it has the access key for "blobs.s3".');
  const secretKey = variable(environment, secretKeyEnv, 'blobs', 'it has the secret key for "blobs.s3".');
  return { endpoint, bucket, region, prefix, accessKeyEnv, secretKeyEnv, accessKey, secretKey };
}

function variable(environment: NodeJS.ProcessEnv, name: string, key: string, missing: string): string {
  const value = environment[name] ?? '';
  if (value !== '') return value;
  throw new ConfigError(`The environment variable ${name} is not set: ${missing}`, key);
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
