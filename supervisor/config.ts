/**
 * Makes the configuration from defaults, the file, and the settings of the host or command line (specification,
 * "Configuration").
 */
import { readFileSync } from 'node:fs';
import { availableParallelism, freemem } from 'node:os';
import { resolve } from 'node:path';
import { BUILT_IN_RUNNERS } from '../protocol/agents/agents.ts';
import { DEFAULTS, LIMITS } from '../protocol/limits.ts';
import type { EgressSettings } from '../protocol/rules/egress.ts';
import type { Of } from '../protocol/shapes/schema.ts';
import { type Fault, isRecord } from '../protocol/shapes/shape.ts';
import { CONFIG, KEYS } from './config-shape.ts';
import { cronFault } from './operations/backup-schedule.ts';

/** Keys that are null where they are not set. */
type Unset =
  | 'appsDir'
  | 'appsStoreRoot'
  | 'maxLiveActors'
  | 'templatesUrl'
  | 'appDomain'
  | 'publicUrl'
  | 'signInHours'
  | 'backups'
  | 'mail'
  | 'runner'
  | 'cluster'
  | 'blobs'
  | 'metricsToken'
  | 'logFile';

export type Config = {
  [Key in keyof typeof KEYS]: Of<(typeof KEYS)[Key]> | (Key extends Unset ? null : never);
};

/** What a host gives of a configuration. */
export type Settings<C = Config> = { [Key in keyof C]?: C[Key] | undefined };

/** A configuration that cannot be used; the message names the key. */
export class ConfigError extends Error {
  readonly key: string | null;

  constructor(message: string, key: string | null = null) {
    super(message);
    this.name = 'ConfigError';
    this.key = key;
  }
}

/** A Node that is too old cannot say it; `buildGateway` refuses that one with words. */
function freeBytes(): number {
  return process.availableMemory?.() ?? freemem();
}

/** A third of what is free, in MiB. */
const APP_MEMORY_MB = Math.max(LIMITS.minAppMemoryMb, Math.floor(freeBytes() / 3 / 1024 ** 2));

/** Every key of the configuration file, for documents and messages. */
export const CONFIG_KEYS = Object.keys(KEYS) as (keyof Config)[];

export function defaultConfig(dataDir: string): Config {
  return {
    ...structuredClone(DEFAULTS),
    dataDir,
    appsDir: null,
    appsStoreRoot: null,
    templatesUrl: null,
    edge: 'auto',
    handlerHosts: Math.max(1, availableParallelism() - 1),
    appMemoryMb: APP_MEMORY_MB,
    maxLiveActors: null,
    durability: 'full',
    corsOrigins: [],
    pageOrigins: 'auto',
    appDomain: null,
    allowedHosts: [],
    publicUrl: null,
    trustedProxies: [],
    egress: { allow: [], deny: [] },
    signInHours: null,
    backups: null,
    mail: null,
    notify: [],
    mcpServers: {},
    runners: {},
    runner: null,
    cluster: null,
    blobs: null,
    metricsToken: null,
    log: 'info',
    logFormat: 'auto',
    logFile: null,
  };
}

/** Checks a part of a configuration. Throws `ConfigError` for the first key that is unknown or wrong. */
export function checkConfig(value: unknown, source: string): Partial<Config> {
  if (!isRecord(value)) throw new ConfigError(`${source} must be a JSON object.`);
  for (const key of Object.keys(value)) {
    if (!(CONFIG_KEYS as string[]).includes(key))
      throw new ConfigError(`${source} has the unknown key "${key}". Known keys: ${CONFIG_KEYS.join(', ')}.`, key);
  }
  if (!CONFIG.holds(value)) throw wrong(CONFIG.fault(value), source);
  const cron = value.backups === undefined ? null : cronFault(value.backups.cron, null);
  if (cron !== null) throw wrong({ path: `backups.${cron.path}`, wanted: cron.wanted }, source);
  return value;
}

function wrong(fault: Fault | null, source: string): ConfigError {
  const { path = '', wanted } = fault ?? {};
  return new ConfigError(`"${path}" in ${source} must be ${wanted}.`, /^\w*/.exec(path)?.[0]);
}

/** Throws `ConfigError` where nobody could sign in to an account. */
function checkWays({ signIn: { passkeys, passwords, providers = {}, proxy } }: Config): void {
  if (passkeys || passwords || proxy !== undefined || Object.keys(providers).length > 0) return;
  throw new ConfigError(
    '"signIn" in the configuration leaves no way to sign in: keep passkeys or passwords, or name a provider.',
    'signIn',
  );
}

/** Reads a configuration file. Throws `ConfigError`. */
export function loadConfig(path: string): Partial<Config> {
  let content: string;
  try {
    content = readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError(`The configuration file ${path} cannot be read (${(error as NodeJS.ErrnoException).code}).`);
  }
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch (error) {
    throw new ConfigError(`The configuration file ${path} is not JSON: ${(error as Error).message}`);
  }
  return checkConfig(value, path);
}

/** Which hosts the gateway and its apps may connect to. */
export const egressOf = ({ egress }: Config): EgressSettings => ({
  allow: egress.allow ?? [],
  deny: egress.deny ?? [],
});

/** The whole configuration; later parts win, and a setting that is undefined is not given. Relative folders are taken from the current one. */
export function resolveConfig(dataDir: string, ...parts: Settings[]): Config {
  const defaults: Record<string, unknown> = defaultConfig(dataDir);
  const set = parts.map((part) => Object.fromEntries(Object.entries(part).filter(([, value]) => value !== undefined)));
  const config: Config = Object.assign(defaultConfig(dataDir), ...set);
  // Null means "none" where it is the default.
  const given = Object.entries(config).filter(([key, value]) => value !== null || defaults[key] !== null);
  checkConfig(Object.fromEntries(given), 'the configuration');
  const runners = Object.keys(config.runners).length > 0 ? Object.keys(config.runners) : BUILT_IN_RUNNERS;
  if (config.runner !== null && !runners.includes(config.runner))
    throw new ConfigError(`"runner" in the configuration must be one of ${runners.join(', ')}.`, 'runner');
  if (config.mail === null && config.notify.some(({ kind }) => kind === 'mail'))
    throw new ConfigError('"notify" in the configuration names mail, so "mail" must be set.', 'mail');
  if (config.mail?.to === undefined && config.notify.some((entry) => entry.kind === 'mail' && entry.to === undefined))
    throw new ConfigError('"notify" in the configuration names mail without "to", so "mail.to" must be set.', 'mail');
  config.signIn = { ...DEFAULTS.signIn, ...config.signIn };
  checkWays(config);
  config.publicLimits = { ...DEFAULTS.publicLimits, ...config.publicLimits };
  config.publicUrl = config.publicUrl?.replace(/\/+$/, '') ?? null;
  config.dataDir = resolve(config.dataDir);
  for (const key of ['appsDir', 'appsStoreRoot'] as const) {
    if (config[key] !== null) config[key] = resolve(config.dataDir, config[key]);
  }
  return config;
}
