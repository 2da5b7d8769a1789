/** What the keys of the configuration may hold (specification, "Configuration"). */
import { MODEL_APIS, PERMISSION_POLICIES, RUNNER_KINDS } from '../protocol/agents/agents.ts';
import { LIMITS } from '../protocol/limits.ts';
import { CHANNEL_KINDS } from '../protocol/notice.ts';
import { BACKUP_SCHEDULE } from '../protocol/routes/operations/backups-rows.ts';
import { EMAIL, ROLE } from '../protocol/routes/people/pieces.ts';
import { SIGN_IN_HOURS } from '../protocol/routes/people/sign-in-rows.ts';
import { PATTERN_FORM } from '../protocol/rules/egress.ts';
import { closed, flag, formatted, integer, listOf, matching, oneOf, type Schema } from '../protocol/shapes/schema.ts';
import { shape } from '../protocol/shapes/shape.ts';

const MiB = 1024 * 1024;
const MAX_CHANNELS = 20;
/** `a@b.example` or `Name <a@b.example>`, on one line. */
const MAIL_ADDRESS = /^(?:[^\p{Cc}<>]*<[^\s\p{Cc}<>@,;]+@[^\s\p{Cc}<>@,;]+>|[^\s\p{Cc}<>@,;]+@[^\s\p{Cc}<>@,;]+)$/u;
/** As git takes them: on one line, without the characters that its format uses. */
const GIT_WORD = { type: 'string', pattern: '^[^<>\\p{Cc}]*[^<>\\p{Cc}\\s][^<>\\p{Cc}]*$' } as const;

const text = { type: 'string', minLength: 1, wanted: 'a non-empty string' } as const;
const argument = matching(/^[^\0]*$/, 'a string without NUL');
const line = matching(/^[^\0]+$/, 'a non-empty string without NUL');
const quoted = <const W extends readonly string[]>(...allowed: W) => ({
  enum: allowed,
  wanted: `one of ${allowed.map((word) => `"${word}"`).join(', ')}`,
});
const describedAs = <const S extends object>(schema: S, wanted: string) => ({ ...schema, wanted });

/** Texts by names. */
const texts = (name: RegExp, value: RegExp, wanted: string) =>
  ({
    type: 'object',
    propertyNames: { pattern: name.source, wanted },
    additionalProperties: matching(value, wanted),
    wanted: 'an object of strings',
  }) as const;

/** Entries by names. */
const entries = <const S extends Schema>(entry: S, wanted: string) =>
  ({
    type: 'object',
    propertyNames: matching(
      /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/,
      'named with 1 to 64 letters, digits, "_" and "-", the first a letter or digit',
    ),
    additionalProperties: entry,
    wanted,
  }) as const;

const environment = texts(/^[^=\0]+$/, /^[^\0]*$/, 'a variable name with a string without NUL');
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const ONE_LINE = 'a header name with a string of one line';
const webAddress = (instead: string) =>
  formatted('web address', `an http or https address without user and password; ${instead}`);

const MCP_SERVERS = entries(
  {
    anyOf: [
      closed({ command: line }, { args: listOf(argument, 'a list of strings'), env: environment, cwd: line }),
      closed(
        { url: webAddress('give those in "headers"') },
        { headers: texts(HEADER_NAME, /^[\t\x20-\x7e\x80-\xff]*$/, ONE_LINE) },
      ),
    ],
    wanted: 'an object with either "command" (stdio) or "url" (streamable HTTP)',
  },
  'an object of MCP servers by name',
);

const variable = matching(/^[A-Za-z_][A-Za-z0-9_]*$/, 'the name of an environment variable');
const ofRunner = {
  model: line,
  apiKeyEnv: variable,
  permission: oneOf(...PERMISSION_POLICIES),
};
const command = {
  type: 'array',
  minItems: 1,
  prefixItems: [line],
  items: argument,
  wanted: 'a list of strings, a program and its arguments',
} as const;
const ofProgram = { ...ofRunner, env: environment, cwd: line };
const baseUrl = webAddress('name the variable of the key in "apiKeyEnv"');
const RUNNERS = entries(
  {
    anyOf: [
      closed({ kind: { const: 'codex' } }, { ...ofProgram, command, baseUrl }),
      closed({ kind: { const: 'claude-code' } }, { ...ofProgram, command, baseUrl }),
      closed({ kind: { const: 'acp' }, command }, ofProgram),
      closed({ kind: { const: 'model' }, baseUrl }, { ...ofRunner, api: oneOf(...MODEL_APIS) }),
    ],
    wanted: `an object with a "kind", one of ${RUNNER_KINDS.join(', ')}`,
  },
  'an object of runners by name',
);

const sender = { type: 'string', pattern: MAIL_ADDRESS.source } as const;
const recipients = {
  anyOf: [sender, { type: 'array', items: sender, minItems: 1, maxItems: MAX_CHANNELS }],
  wanted: `a mail address, or a list of 1 to ${MAX_CHANNELS} of them`,
} as const;
const MAIL = describedAs(
  closed(
    {
      url: formatted('mail server', 'the address of a mail server, such as "smtps://user:password@mail.example.org"'),
      from: { ...sender, wanted: 'a mail address, such as "svc <svc@example.org>"' },
    },
    { to: recipients },
  ),
  '{ "url", "from", "to"? }',
);

const url = webAddress('give those in "headers"');
const headers = texts(HEADER_NAME, /^[\t\x20-\x7e]*$/, ONE_LINE);
const topic = formatted(
  'ntfy topic',
  'the address of a topic, such as "https://ntfy.sh/my-topic"; give a token in "headers"',
);
const contact = matching(/^(?:mailto:[^\s@]+@[^\s@]+|https:\/\/\S+)$/, 'a mailto: or https: address');
const CHANNELS = {
  type: 'array',
  maxItems: MAX_CHANNELS,
  items: {
    anyOf: [
      closed({ kind: { const: 'mail' } }, { to: recipients }),
      closed({ kind: { const: 'ntfy' }, url: topic }, { headers }),
      closed({ kind: { enum: ['slack', 'json'] }, url }, { headers }),
      closed({ kind: { const: 'push' } }, { contact }),
    ],
    wanted: `an object whose "kind" is ${CHANNEL_KINDS.join(', ')}`,
  },
  wanted: `a list of at most ${MAX_CHANNELS} channels`,
} as const;

const secureAddress = formatted(
  'secure address',
  'an https address without user, query and fragment; http is for this machine only',
);
const PROVIDERS = entries(
  describedAs(
    closed(
      { issuer: secureAddress, clientId: line, clientSecretEnv: variable },
      {
        scopes: listOf(matching(/^[\x21\x23-\x5b\x5d-\x7e]+$/, 'a scope'), 'a list of scopes'),
        allow: describedAs(
          closed(
            {},
            {
              emails: listOf(EMAIL, 'a list of e-mail addresses'),
              domains: listOf(formatted('domain', 'a domain such as "example.org"'), 'a list of domains'),
            },
          ),
          '{ "emails", "domains" }, lists of whom it lets in',
        ),
        role: ROLE,
      },
    ),
    '{ "issuer", "clientId", "clientSecretEnv", "scopes"?, "allow"?, "role"? }',
  ),
  'an object of OpenID providers by name',
);
const networks = {
  ...listOf({ type: 'string', format: 'network' }, 'a list of at least one address or network'),
  minItems: 1,
};
const headerName = matching(HEADER_NAME, 'the name of a header');
const SIGN_IN = describedAs(
  closed(
    {},
    {
      passkeys: flag,
      passwords: flag,
      providers: PROVIDERS,
      proxy: {
        anyOf: [
          closed({ header: headerName, from: networks }),
          closed({ jwtHeader: headerName, jwksUrl: secureAddress, issuer: line, audience: line }),
        ],
        wanted: '{ "header", "from" }, or { "jwtHeader", "jwksUrl", "issuer", "audience" }',
      },
    },
  ),
  '{ "passkeys"?, "passwords"?, "providers"?, "proxy"? }',
);

const MAX_DATABASE_URLS = 10;
const databaseUrl = formatted(
  'cluster database',
  'the address of a PostgreSQL database, such as "postgres://svc@db.example.org/svc"',
);
const ofNode = {
  node: matching(
    /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/,
    'a name of 1 to 64 letters, digits, "_", "." and "-", the first a letter or digit',
  ),
  address: formatted('public address', 'an http or https address without user, query and fragment'),
  secretEnv: variable,
};
const CLUSTER = {
  anyOf: [
    closed({ url: databaseUrl }, ofNode),
    closed(
      {
        urls: {
          type: 'array',
          items: databaseUrl,
          minItems: 1,
          maxItems: MAX_DATABASE_URLS,
          wanted: `a list of 1 to ${MAX_DATABASE_URLS} addresses`,
        },
      },
      ofNode,
    ),
  ],
  wanted: 'an object with either "url" or "urls"',
} as const;

const BLOBS = describedAs(
  closed({
    s3: describedAs(
      closed(
        {
          endpoint: formatted('public address', 'an http or https address without user, query and fragment'),
          bucket: matching(
            /^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/,
            'the name of a bucket, of 3 to 63 characters',
          ),
          region: matching(/^[A-Za-z0-9_-]{1,64}$/, 'a region such as "eu-central-1"'),
        },
        {
          prefix: matching(
            /^(?=.{1,200}$)(?:[A-Za-z0-9_-][A-Za-z0-9._-]*\/)+$/,
            'a path such as "svc/", of at most 200 letters, digits, "_", "-" and ".", with "/" at its end',
          ),
          accessKeyEnv: variable,
          secretKeyEnv: variable,
        },
      ),
      '{ "endpoint", "bucket", "region", "prefix"?, "accessKeyEnv"?, "secretKeyEnv"? }',
    ),
  }),
  '{ "s3" }',
);

const calls = integer(0, 1_000_000);
const hosts = listOf(formatted('host pattern', PATTERN_FORM), 'a list of hosts');

/** Times in milliseconds, sizes in bytes unless the name says otherwise. */
export const KEYS = {
  dataDir: text,
  /** Null: `apps` in the data directory. */
  appsDir: text,
  /** Where the git store is; null: the tarball backend. */
  appsStoreRoot: text,
  /** The author of commits in the git store. */
  commitAuthor: describedAs(
    closed({ name: GIT_WORD, email: GIT_WORD }),
    '{ "name", "email" } of one line each, without < and >',
  ),
  /** A catalog of templates, fetched at start; null: only those that come with the gateway. */
  templatesUrl: formatted('catalog address', 'an address such as "https://example.org/templates.json"'),
  host: text,
  port: integer(0, 65_535),
  edge: quoted('auto', 'uws', 'node'),
  versionRetention: integer(LIMITS.minVersionRetention, 1000),
  handlerHosts: integer(1, 64),
  /** Memory for apps that are live, from which follows how many may be (`tree/places.ts`), in MiB. */
  appMemoryMb: integer(LIMITS.minAppMemoryMb, 4_194_304),
  /** Threads of apps at a time; null: as many as fit. */
  maxLiveActors: integer(1, 10_000),
  actorMemoryMb: integer(16, 16_384),
  actorIdleMs: integer(1000, LIMITS.dayMs),
  queryTimeoutMs: integer(10, LIMITS.toolTimeoutMs),
  actionTimeoutMs: integer(10, LIMITS.toolTimeoutMs),
  automationTimeoutMs: integer(1000, LIMITS.automationTimeoutMaxMs),
  mailboxLimit: integer(1, 1_000_000),
  maxResultBytes: integer(1024, 64 * MiB),
  durability: quoted('full', 'normal'),
  corsOrigins: listOf(
    { type: 'string', pattern: '^https?:\\/\\/[^\\/\\s]+$' },
    'a list of origins such as "https://example.org"',
  ),
  /** Whether each app's pages have a separate origin; `auto`: if the name in the browser's address allows it. */
  pageOrigins: quoted('auto', 'isolated', 'shared'),
  /** The domain below which apps have their names, behind a proxy with HTTPS. */
  appDomain: formatted('domain', 'a domain such as "apps.example.org"'),
  /** Further host names that requests may use, beside those of this machine, `host` and `appDomain`. */
  allowedHosts: listOf(
    { type: 'string', format: 'host name' },
    'a list of host names or addresses without port, such as "gateway.lan"',
  ),
  /** Where others reach the gateway, for the addresses of webhooks, without a slash at the end; null: the address it listens on. */
  publicUrl: formatted(
    'public address',
    'the address of the gateway, such as "https://gateway.example.org", without query and fragment',
  ),
  /** Addresses and networks of proxies, whose `X-Forwarded-For` tells the address of a visitor. */
  trustedProxies: listOf(
    { type: 'string', format: 'network' },
    'a list of addresses and networks, such as "10.0.0.0/8"',
  ),
  /** Calls that visitors of one address may make to public tools in a minute. */
  publicLimits: describedAs(closed({}, { reads: calls, writes: calls }), '{ "reads", "writes" }, calls in a minute'),
  /** Where `ctx.fetch` may connect to. */
  egress: describedAs(closed({}, { allow: hosts, deny: hosts }), '{ "allow": [...], "deny": [...] }, lists of hosts'),
  /** How long a browser stays signed in; null: as the console sets it, at first 12. */
  signInHours: SIGN_IN_HOURS,
  /** How people sign in: passkeys and passwords, providers by name, and a proxy that knows who asks. */
  signIn: SIGN_IN,
  trashDays: integer(0, 3650),
  /** When backups are made, how many are kept, and where: 7 in `backups` by default. `dir` is relative to the data directory. */
  backups: describedAs(BACKUP_SCHEDULE, '{ "cron", "keep"?, "dir"? }'),
  /** The mail server, which also mails invitations, and the addresses of notices; null: no mail. */
  mail: MAIL,
  /** Further ways by which notices reach people. */
  notify: CHANNELS,
  /** Agents that are kept at a time. */
  maxAgents: integer(1, 64),
  /** The MCP servers whose tools automations may call, by name. */
  mcpServers: MCP_SERVERS,
  /** The agents that chat and `ctx.agent` may use, by name; without any, codex and claude-code where they are on PATH. */
  runners: RUNNERS,
  /** The runner of turns that name none; null: the first one. */
  runner: text,
  /** The database that this gateway shares with the other nodes of a cluster; null: it is a gateway of its own. */
  cluster: CLUSTER,
  /** Where the nodes of a cluster keep the contents of large files; null: in its database. */
  blobs: BLOBS,
  /** A second token for `GET /svc/_metrics`, beside the administrator's. */
  metricsToken: matching(/^[!-~]{16,256}$/, 'a token of 16 to 256 printable characters without spaces'),
  log: quoted('debug', 'info', 'warn', 'error', 'silent'),
  /** Log format of `svc serve`; `auto`: text on a terminal, else JSON. */
  logFormat: quoted('auto', 'json', 'pretty'),
  /** Null: standard error. `path` is relative to the data directory; `keep` older files of `maxMb` MiB stay beside it. */
  logFile: describedAs(
    closed({ path: text }, { maxMb: integer(1, 10_000), keep: integer(1, 1000) }),
    '{ "path", "maxMb"?, "keep"? }',
  ),
};

/** Any part of a configuration. */
export const CONFIG = shape(closed({}, KEYS));
