/** Checks the settings of a cluster, the member `cluster` of the configuration (specification, "Cluster: nodes and buckets"). */
import { hostname } from 'node:os';
import { closed, formatted, matching } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import { ConfigError } from '../config.ts';

/**
 * `urls`: the database, by its primary and the standbys that may become it. `address` is where the other nodes reach this one,
 * `secret` what they prove themselves with; each is null where the configuration does not say.
 */
export type ClusterSettings = { urls: string[]; node: string; address: string | null; secret: string | null };

const MAX_URLS = 10;
const NAME_CHARS = 64;
const url = matching(
  /^postgres(?:ql)?:\/\/\S+$/,
  'the address of a PostgreSQL database, such as "postgres://svc@db.example.org/svc"',
);
const others = {
  node: matching(
    /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/,
    'a name of 1 to 64 letters, digits, "_", "." and "-", the first a letter or digit',
  ),
  address: formatted('public address', 'an http or https address without user, query and fragment'),
  secretEnv: matching(/^[A-Za-z_][A-Za-z0-9_]*$/, 'the name of an environment variable'),
};
const CLUSTER = shape({
  anyOf: [
    closed({ url }, others),
    closed(
      {
        urls: {
          type: 'array',
          items: url,
          minItems: 1,
          maxItems: MAX_URLS,
          wanted: `a list of 1 to ${MAX_URLS} addresses`,
        },
      },
      others,
    ),
  ],
  wanted: 'an object with either "url" or "urls"',
});

/**
 * Of the value of `cluster`, with the name of this machine where it names no node. Throws `ConfigError`, which names the
 * member.
 */
export function clusterSettings(value: unknown, environment: NodeJS.ProcessEnv = process.env): ClusterSettings {
  const fault = CLUSTER.fault(value);
  if (fault !== null || !CLUSTER.holds(value)) {
    const path = fault === null || fault.path === '' ? 'cluster' : `cluster.${fault.path}`;
    throw new ConfigError(`"${path}" in the configuration must be ${fault?.wanted}.`, 'cluster');
  }
  const { node = nameOfMachine(), address = null, secretEnv } = value;
  const urls = 'urls' in value ? value.urls : [value.url];
  const unreadable = urls.findIndex((one) => !URL.canParse(one));
  if (unreadable !== -1) {
    const path = 'urls' in value ? `cluster.urls[${unreadable}]` : 'cluster.url';
    throw new ConfigError(`"${path}" in the configuration must be ${url.wanted}.`, 'cluster');
  }
  return { urls, node, address, secret: secretEnv === undefined ? null : secretOf(secretEnv, environment) };
}

/** An address of a database as messages may show it. */
export function withoutPassword(address: string): string {
  const shown = new URL(address);
  shown.password = '';
  // Parameters may have one as well.
  shown.search = '';
  return shown.href;
}

function secretOf(name: string, environment: NodeJS.ProcessEnv): string {
  const secret = environment[name] ?? '';
  if (secret !== '') return secret;
  throw new ConfigError(`"cluster.secretEnv" names the environment variable ${name}, which is not set.`, 'cluster');
}

function nameOfMachine(): string {
  const name = hostname()
    .replace(/[^A-Za-z0-9_.-]/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '');
  return name.slice(0, NAME_CHARS) || 'node';
}
