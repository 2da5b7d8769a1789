/** The configuration: defaults, the file, and what the host or the command line sets (decisions, section 9). */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { DEFAULTS, LIMITS } from '../protocol/limits.ts';
import { type EgressSettings, isHostPattern, PATTERN_FORM } from '../protocol/rules/egress.ts';
import { type EntryFault, type ToolServerEntry, toolServersFault } from '../protocol/tool-servers.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** Times in milliseconds, sizes in bytes unless the name says otherwise. */
export type Config = {
  dataDir: string;
  /** Null: `apps` in the data directory. */
  appsDir: string | null;
  /** Where the git store is; null: the tarball backend. */
  appsStoreRoot: string | null;
  /** Who the commits of the git store are by. */
  commitAuthor: { name: string; email: string };
  /** A catalog of templates, fetched at start; null: only those that come with the gateway. */
  templatesUrl: string | null;
  host: string;
  port: number;
  edge: 'auto' | 'uws' | 'node';
  versionRetention: number;
  handlerHosts: number;
  maxLiveActors: number;
  actorMemoryMb: number;
  actorIdleMs: number;
  queryTimeoutMs: number;
  actionTimeoutMs: number;
  automationTimeoutMs: number;
  mailboxLimit: number;
  maxResultBytes: number;
  durability: 'full' | 'normal';
  corsOrigins: string[];
  /** Whether each app's pages have an origin of their own; `auto`: where the browser came by a name that allows it. */
  pageOrigins: 'auto' | 'isolated' | 'shared';
  /** The domain below which apps have their names, behind a proxy with HTTPS. */
  appDomain: string | null;
  /** Host names, besides those of this machine, `host` and `appDomain`, that requests may name. */
  allowedHosts: string[];
  /** Where `ctx.fetch` may connect to. */
  egress: Partial<EgressSettings>;
  trashDays: number;
  /** The MCP servers whose tools automations may call, by name. */
  mcpServers: Record<string, ToolServerEntry>;
  log: LogLevel;
};

/** A configuration that cannot be used; the message names the key. */
export class ConfigError extends Error {
  readonly key: string | null;

  constructor(message: string, key: string | null = null) {
    super(message);
    this.name = 'ConfigError';
    this.key = key;
  }
}

/** What the value must be, and where in it the fault is when that is not the whole; null when it is as it must be. */
type Check = (value: unknown) => string | EntryFault | null;

const text: Check = (value) => (typeof value === 'string' && value !== '' ? null : 'a non-empty string');
const oneOf =
  (...allowed: string[]): Check =>
  (value) =>
    allowed.includes(value as string) ? null : `one of ${allowed.map((word) => `"${word}"`).join(', ')}`;
const integer =
  (min: number, max: number): Check =>
  (value) =>
    Number.isInteger(value) && (value as number) >= min && (value as number) <= max
      ? null
      : `an integer from ${min} to ${max}`;
const origins: Check = (value) =>
  Array.isArray(value) && value.every((item) => typeof item === 'string' && /^https?:\/\/[^/\s]+$/.test(item))
    ? null
    : 'a list of origins such as "https://example.org"';

const HOST_NAME = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/i;
const domain: Check = (value) =>
  typeof value === 'string' && HOST_NAME.test(value) && value.includes('.')
    ? null
    : 'a domain such as "apps.example.org"';
const hostNames: Check = (value) =>
  Array.isArray(value) && value.every((item) => typeof item === 'string' && (HOST_NAME.test(item) || isIP(item) !== 0))
    ? null
    : 'a list of host names or addresses without port, such as "gateway.lan"';

const webAddress: Check = (value) =>
  typeof value === 'string' && /^https?:\/\/\S+$/.test(value) && URL.canParse(value)
    ? null
    : 'an address such as "https://example.org/templates.json"';

/** As git takes them: on one line, and nothing that its own format uses. */
const person: Check = (value) => {
  const wanted = '{ "name", "email" } of one line each, without < and >';
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return wanted;
  const { name, email, ...more } = value as Record<string, unknown>;
  const isPart = (part: unknown) => typeof part === 'string' && part.trim() !== '' && !/[<>\p{Cc}]/u.test(part);
  return isPart(name) && isPart(email) && Object.keys(more).length === 0 ? null : wanted;
};

const egress: Check = (value) => {
  const wanted = '{ "allow": [...], "deny": [...] }, lists of hosts';
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return wanted;
  for (const [list, patterns] of Object.entries(value)) {
    if (list !== 'allow' && list !== 'deny') return wanted;
    if (!Array.isArray(patterns)) return { at: list, wanted: 'a list of hosts' };
    const bad = patterns.findIndex((pattern) => !isHostPattern(pattern));
    if (bad >= 0) return { at: `${list}[${bad}]`, wanted: PATTERN_FORM };
  }
  return null;
};

const DAY = LIMITS.dayMs;
const MiB = 1024 * 1024;

/** What each key must be; a key that is not here is an error. */
const CHECKS: Record<keyof Config, Check> = {
  dataDir: text,
  appsDir: text,
  appsStoreRoot: text,
  commitAuthor: person,
  templatesUrl: webAddress,
  host: text,
  port: integer(0, 65_535),
  edge: oneOf('auto', 'uws', 'node'),
  versionRetention: integer(LIMITS.minVersionRetention, 1000),
  handlerHosts: integer(1, 64),
  maxLiveActors: integer(1, 10_000),
  actorMemoryMb: integer(16, 16_384),
  actorIdleMs: integer(1000, DAY),
  queryTimeoutMs: integer(10, LIMITS.toolTimeoutMs),
  actionTimeoutMs: integer(10, LIMITS.toolTimeoutMs),
  automationTimeoutMs: integer(1000, LIMITS.automationTimeoutMaxMs),
  mailboxLimit: integer(1, 1_000_000),
  maxResultBytes: integer(1024, 64 * MiB),
  durability: oneOf('full', 'normal'),
  corsOrigins: origins,
  pageOrigins: oneOf('auto', 'isolated', 'shared'),
  appDomain: domain,
  allowedHosts: hostNames,
  egress,
  trashDays: integer(0, 3650),
  mcpServers: toolServersFault,
  log: oneOf('debug', 'info', 'warn', 'error', 'silent'),
};

/** Every key of the configuration file, for documents and messages. */
export const CONFIG_KEYS = Object.keys(CHECKS) as (keyof Config)[];

export function defaultConfig(dataDir: string): Config {
  return {
    dataDir,
    appsDir: null,
    appsStoreRoot: null,
    commitAuthor: { ...DEFAULTS.commitAuthor },
    templatesUrl: null,
    host: DEFAULTS.host,
    port: DEFAULTS.port,
    edge: 'auto',
    versionRetention: DEFAULTS.versionRetention,
    handlerHosts: Math.max(1, availableParallelism() - 1),
    maxLiveActors: DEFAULTS.maxLiveActors,
    actorMemoryMb: DEFAULTS.actorMemoryMb,
    actorIdleMs: DEFAULTS.actorIdleMs,
    queryTimeoutMs: DEFAULTS.queryTimeoutMs,
    actionTimeoutMs: DEFAULTS.actionTimeoutMs,
    automationTimeoutMs: DEFAULTS.automationTimeoutMs,
    mailboxLimit: DEFAULTS.mailboxLimit,
    maxResultBytes: DEFAULTS.maxResultBytes,
    durability: 'full',
    corsOrigins: [],
    pageOrigins: 'auto',
    appDomain: null,
    allowedHosts: [],
    egress: { allow: [], deny: [] },
    trashDays: DEFAULTS.trashDays,
    mcpServers: {},
    log: 'info',
  };
}

/** Checks a part of a configuration. Throws `ConfigError` for the first key that is unknown or wrong. */
export function checkConfig(value: unknown, source: string): Partial<Config> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new ConfigError(`${source} must be a JSON object.`);
  for (const [key, setting] of Object.entries(value)) {
    const check = Object.hasOwn(CHECKS, key) ? CHECKS[key as keyof Config] : undefined;
    if (!check)
      throw new ConfigError(`${source} has the unknown key "${key}". Known keys: ${CONFIG_KEYS.join(', ')}.`, key);
    const fault = check(setting);
    if (fault === null) continue;
    const { at, wanted } = typeof fault === 'string' ? { at: '', wanted: fault } : fault;
    throw new ConfigError(`"${at === '' ? key : `${key}.${at}`}" in ${source} must be ${wanted}.`, key);
  }
  return value as Partial<Config>;
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

/** The whole configuration; later parts win. Relative folders are taken from the current one. */
export function resolveConfig(dataDir: string, ...parts: Partial<Config>[]): Config {
  const config: Config = Object.assign(defaultConfig(dataDir), ...parts);
  const folders = { appsDir: config.appsDir ?? 'apps', appsStoreRoot: config.appsStoreRoot ?? 'code-store' };
  const { templatesUrl, appDomain, ...settings } = config;
  const optional = { ...(templatesUrl === null ? {} : { templatesUrl }), ...(appDomain === null ? {} : { appDomain }) };
  checkConfig({ ...settings, ...folders, ...optional }, 'the configuration');
  config.dataDir = resolve(config.dataDir);
  for (const key of ['appsDir', 'appsStoreRoot'] as const) {
    if (config[key] !== null) config[key] = resolve(config.dataDir, config[key]);
  }
  return config;
}
