/** Makes the configuration from defaults, the file, and the settings of the host or command line (decisions, section 9). */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { availableParallelism, freemem } from 'node:os';
import { resolve } from 'node:path';
import { BUILT_IN_RUNNERS, type RunnerEntry } from '../protocol/agents/agents.ts';
import { runnersFault } from '../protocol/agents/runner-entries.ts';
import { type ToolServerEntry, toolServersFault } from '../protocol/agents/tool-servers.ts';
import type { EntryFault } from '../protocol/entry-checks.ts';
import { DEFAULTS, LIMITS } from '../protocol/limits.ts';
import { isNetwork } from '../protocol/rules/addresses.ts';
import { type EgressSettings, isHostPattern, PATTERN_FORM } from '../protocol/rules/egress.ts';
import { type MailSettings, mailFault, type NotifyEntry, notifyFault } from './notices/settings.ts';
import { type ConfiguredSchedule, scheduleFault } from './operations/backup-schedule.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** Times in milliseconds, sizes in bytes unless the name says otherwise. */
export type Config = {
  dataDir: string;
  /** Null: `apps` in the data directory. */
  appsDir: string | null;
  /** Where the git store is; null: the tarball backend. */
  appsStoreRoot: string | null;
  /** The author of commits in the git store. */
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
  /** Whether each app's pages have a separate origin; `auto`: if the name in the browser's address allows it. */
  pageOrigins: 'auto' | 'isolated' | 'shared';
  /** The domain below which apps have their names, behind a proxy with HTTPS. */
  appDomain: string | null;
  /** Further host names that requests may use, beside those of this machine, `host` and `appDomain`. */
  allowedHosts: string[];
  /** Where others reach the gateway, for the addresses of webhooks, without a slash at the end; null: the address it listens on. */
  publicUrl: string | null;
  /** Addresses and networks of proxies, whose `X-Forwarded-For` tells the address of a visitor. */
  trustedProxies: string[];
  /** Calls that visitors of one address may make to public tools in a minute. */
  publicLimits: { reads?: number; writes?: number };
  /** Where `ctx.fetch` may connect to. */
  egress: Partial<EgressSettings>;
  /** How long a browser stays signed in; null: as the console sets it, at first 12. */
  signInHours: number | null;
  trashDays: number;
  /** When backups are made, how many are kept, and where: 7 in `backups` by default. `dir` is relative to the data directory. */
  backups: ConfiguredSchedule | null;
  /** The mail server and the addresses of notices; null: no mail. */
  mail: MailSettings | null;
  /** Further ways by which notices reach people. */
  notify: NotifyEntry[];
  /** Agents that are kept at a time. */
  maxAgents: number;
  /** The MCP servers whose tools automations may call, by name. */
  mcpServers: Record<string, ToolServerEntry>;
  /** The agents that chat and `ctx.agent` may use, by name; without any, codex and claude-code where they are on PATH. */
  runners: Record<string, RunnerEntry>;
  /** The runner of turns that name none; null: the first one. */
  runner: string | null;
  /** A second token for `GET /svc/_metrics`, beside the administrator's. */
  metricsToken: string | null;
  log: LogLevel;
  /** Log format of `svc serve`; `auto`: text on a terminal, else JSON. */
  logFormat: 'auto' | 'json' | 'pretty';
  /** Null: standard error. `path` is relative to the data directory; `keep` older files of `maxMb` MiB stay beside it. */
  logFile: { path: string; maxMb?: number; keep?: number } | null;
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

/** What the value must be, and the place of the fault in it; null for a valid value. */
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
const listOf =
  (isItem: (item: string) => boolean, wanted: string): Check =>
  (value) =>
    Array.isArray(value) && value.every((item) => typeof item === 'string' && isItem(item)) ? null : wanted;
const origins = listOf((item) => /^https?:\/\/[^/\s]+$/.test(item), 'a list of origins such as "https://example.org"');

const HOST_NAME = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/i;
const domain: Check = (value) =>
  typeof value === 'string' && HOST_NAME.test(value) && value.includes('.')
    ? null
    : 'a domain such as "apps.example.org"';
const hostNames = listOf(
  (item) => HOST_NAME.test(item) || isIP(item) !== 0,
  'a list of host names or addresses without port, such as "gateway.lan"',
);

const webAddress: Check = (value) =>
  typeof value === 'string' && /^https?:\/\/\S+$/.test(value) && URL.canParse(value)
    ? null
    : 'an address such as "https://example.org/templates.json"';

const publicAddress: Check = (value) => {
  const wanted = 'the address of the gateway, such as "https://gateway.example.org", without query and fragment';
  if (webAddress(value) !== null) return wanted;
  const { username, password, href } = new URL(value as string);
  return username === '' && password === '' && !/[?#]/.test(href) ? null : wanted;
};

/** As git takes them: on one line, without the characters that its format uses. */
const person: Check = (value) => {
  const wanted = '{ "name", "email" } of one line each, without < and >';
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return wanted;
  const { name, email, ...more } = value as Record<string, unknown>;
  const isPart = (part: unknown) => typeof part === 'string' && part.trim() !== '' && !/[<>\p{Cc}]/u.test(part);
  return isPart(name) && isPart(email) && Object.keys(more).length === 0 ? null : wanted;
};

const proxies = listOf(isNetwork, 'a list of addresses and networks, such as "10.0.0.0/8"');

const limits: Check = (value) => {
  const wanted = '{ "reads", "writes" }, calls in a minute';
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return wanted;
  for (const [member, number] of Object.entries(value)) {
    if (member !== 'reads' && member !== 'writes') return wanted;
    const fault = integer(0, 1_000_000)(number);
    if (typeof fault === 'string') return { at: member, wanted: fault };
  }
  return null;
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

const logFile: Check = (value) => {
  const wanted = '{ "path", "maxMb"?, "keep"? }';
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return wanted;
  const { path, maxMb, keep, ...more } = value as Record<string, unknown>;
  if (Object.keys(more).length > 0) return wanted;
  const checks: [member: string, fault: ReturnType<Check>][] = [
    ['path', text(path)],
    ['maxMb', maxMb === undefined ? null : integer(1, 10_000)(maxMb)],
    ['keep', keep === undefined ? null : integer(1, 1000)(keep)],
  ];
  const [at, fault] = checks.find(([, found]) => typeof found === 'string') ?? [];
  return at !== undefined && typeof fault === 'string' ? { at, wanted: fault } : null;
};

const token: Check = (value) =>
  typeof value === 'string' && /^[!-~]{16,256}$/.test(value)
    ? null
    : 'a token of 16 to 256 printable characters without spaces';

const DAY = LIMITS.dayMs;
const HOUR = DAY / 24;
const MiB = 1024 * 1024;

/** A Node that is too old cannot say it; `buildGateway` refuses that one with words. */
function freeBytes(): number {
  return process.availableMemory?.() ?? freemem();
}

/** A quarter of what is free. */
function livePlaces(freeBytes: number): number {
  const fitting = Math.floor(freeBytes / 4 / LIMITS.liveAppBytes);
  return Math.min(LIMITS.maxLivePlaces, Math.max(LIMITS.minLivePlaces, fitting));
}

/** Default and check of each key; other keys are errors. */
const SETTINGS: { [Key in keyof Omit<Config, 'dataDir'>]: [byDefault: Config[Key], check: Check] } = {
  appsDir: [null, text],
  appsStoreRoot: [null, text],
  commitAuthor: [DEFAULTS.commitAuthor, person],
  templatesUrl: [null, webAddress],
  host: [DEFAULTS.host, text],
  port: [DEFAULTS.port, integer(0, 65_535)],
  edge: ['auto', oneOf('auto', 'uws', 'node')],
  versionRetention: [DEFAULTS.versionRetention, integer(LIMITS.minVersionRetention, 1000)],
  handlerHosts: [Math.max(1, availableParallelism() - 1), integer(1, 64)],
  maxLiveActors: [livePlaces(freeBytes()), integer(1, 10_000)],
  actorMemoryMb: [DEFAULTS.actorMemoryMb, integer(16, 16_384)],
  actorIdleMs: [DEFAULTS.actorIdleMs, integer(1000, DAY)],
  queryTimeoutMs: [DEFAULTS.queryTimeoutMs, integer(10, LIMITS.toolTimeoutMs)],
  actionTimeoutMs: [DEFAULTS.actionTimeoutMs, integer(10, LIMITS.toolTimeoutMs)],
  automationTimeoutMs: [DEFAULTS.automationTimeoutMs, integer(1000, LIMITS.automationTimeoutMaxMs)],
  mailboxLimit: [DEFAULTS.mailboxLimit, integer(1, 1_000_000)],
  maxResultBytes: [DEFAULTS.maxResultBytes, integer(1024, 64 * MiB)],
  durability: ['full', oneOf('full', 'normal')],
  corsOrigins: [[], origins],
  pageOrigins: ['auto', oneOf('auto', 'isolated', 'shared')],
  appDomain: [null, domain],
  allowedHosts: [[], hostNames],
  publicUrl: [null, publicAddress],
  trustedProxies: [[], proxies],
  publicLimits: [{ ...DEFAULTS.publicLimits }, limits],
  egress: [{ allow: [], deny: [] }, egress],
  signInHours: [null, integer(LIMITS.sessionMs / HOUR, LIMITS.sessionMaxMs / HOUR)],
  trashDays: [DEFAULTS.trashDays, integer(0, 3650)],
  backups: [null, (value) => scheduleFault(value)],
  mail: [null, mailFault],
  notify: [[], notifyFault],
  maxAgents: [DEFAULTS.maxAgents, integer(1, 64)],
  mcpServers: [{}, toolServersFault],
  runners: [{}, runnersFault],
  runner: [null, text],
  metricsToken: [null, token],
  log: ['info', oneOf('debug', 'info', 'warn', 'error', 'silent')],
  logFormat: ['auto', oneOf('auto', 'json', 'pretty')],
  logFile: [null, logFile],
};
const CHECKS = new Map<string, Check>([['dataDir', text]]);
for (const [key, [, check]] of Object.entries(SETTINGS)) CHECKS.set(key, check);

/** Every key of the configuration file, for documents and messages. */
export const CONFIG_KEYS = [...CHECKS.keys()] as (keyof Config)[];

export function defaultConfig(dataDir: string): Config {
  const settings = Object.entries(SETTINGS).map(([key, [byDefault]]) => [key, structuredClone(byDefault)]);
  return { dataDir, ...(Object.fromEntries(settings) as Omit<Config, 'dataDir'>) };
}

/** Checks a part of a configuration. Throws `ConfigError` for the first key that is unknown or wrong. */
export function checkConfig(value: unknown, source: string): Partial<Config> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new ConfigError(`${source} must be a JSON object.`);
  for (const [key, setting] of Object.entries(value)) {
    const check = CHECKS.get(key);
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
  config.publicLimits = { ...DEFAULTS.publicLimits, ...config.publicLimits };
  config.publicUrl = config.publicUrl?.replace(/\/+$/, '') ?? null;
  config.dataDir = resolve(config.dataDir);
  for (const key of ['appsDir', 'appsStoreRoot'] as const) {
    if (config[key] !== null) config[key] = resolve(config.dataDir, config[key]);
  }
  return config;
}
