/** `svc serve`: runs the gateway until it is stopped. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Logger } from 'pino';
import type { NewWebhook } from '../../../protocol/automations/automation.ts';
import { isAppId } from '../../../protocol/ids.ts';
import { DEFAULTS } from '../../../protocol/limits.ts';
import { PRIVATE_UMASK } from '../../../storage/files/private-tree.ts';
import { Layout } from '../../../storage/layout.ts';
import { BindingError, loadSqlite } from '../../../storage/sqlite.ts';
import { type Config, ConfigError, loadConfig } from '../../../supervisor/config.ts';
import { NoUws } from '../../../supervisor/edge/uws-binding.ts';
import type { RunningGateway } from '../../../supervisor/serve.ts';
import { templateFolder, templateIds } from '../../../supervisor/tree/entry-points.ts';
import { type Arguments, type CommandContext, packageVersion } from '../../command.ts';
import { readAppId, uploadApp } from '../../dev/app-folder.ts';
import { CommandError, UsageError } from '../../failure.ts';
import { Client } from '../../gateway/client.ts';
import type { Surroundings } from '../../gateway/connection.ts';
import { whoListens } from '../../gateway/listener.ts';
import { makeLink, openBrowser } from '../../gateway/page-links.ts';
import { networkAddresses } from '../../gateway/phone.ts';
import { readAll } from '../../resource.ts';
import { APPS } from '../../resources.ts';
import { drawPinoLine } from '../../terminal/log-entry.ts';
import { didYouMean } from '../../terminal/nearest.ts';
import { shortPath } from '../../terminal/paths.ts';
import { createStyle, type Style, visible } from '../../terminal/style.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { drawMinted, placeOf } from '../apps/versions-command.ts';

const MAX_PORT = 65_535;
const KEYS = 'All keys and their values: docs/configuration.md';
/** Apps whose links the welcome shows. */
const LISTED = 6;
const EDGES = { uws: 'uWebSockets.js', node: 'node:http' };

export async function serve(context: CommandContext): Promise<number> {
  const { args, terminal, cwd } = context;
  process.umask(PRIVATE_UMASK);
  const config = await configure(context);
  const folders = args.list('with').map((word) => folderWith(word, cwd));
  const gateway = await start(config, context);
  terminal.whenLost(({ message }) => gateway.gateway.log.warn(`Standard output can no longer be written: ${message}.`));
  const { url, token, pid, dataDir } = gateway;
  const client = new Client({
    url,
    urlFrom: 'this gateway',
    token: token ?? undefined,
    tokenFrom: 'this gateway',
    pid,
  });
  const minted: NewWebhook[] = [];
  try {
    for (const folder of folders) minted.push(...(await install(client, folder, gateway.gateway.log)));
  } catch (error) {
    await gateway.stop();
    throw error;
  }
  if (terminal.json) {
    terminal.event({ event: 'ready', url, token, pid, dataDir });
    if (minted.length > 0) terminal.event({ event: 'webhooks', webhooks: minted });
  } else await greet(context, gateway, client);
  if (terminal.interactive) drawMinted(terminal, minted);
  if (args.has('open')) {
    const [first] = folders;
    const link = await makeLink(client, first === undefined ? undefined : { app: readAppId(first) });
    openBrowser(link.url, client, context.platform);
  }
  return gateway.exited;
}

async function start(config: Partial<Config> & { dataDir: string }, context: CommandContext): Promise<RunningGateway> {
  // Loaded here, so that a wrong option is reported before the gateway's code is read.
  const { serve: serveGateway } = await import('../../../supervisor/serve.ts');
  const { appsDir, ...settings } = config;
  const logger = await terminalLog(config, context.terminal);
  try {
    return await serveGateway({ ...settings, ...(appsDir && { appsDir }), ...(logger && { logger }) });
  } catch (error) {
    throw await explainStart(error as NodeJS.ErrnoException, config, context);
  }
}

/** A log for people, by default on a terminal; undefined for a log of JSON lines. */
async function terminalLog(
  { log = 'info', logFormat = 'auto', logFile = null, dataDir }: Partial<Config> & { dataDir: string },
  terminal: Terminal,
): Promise<Logger | undefined> {
  const isSeen = logFile === null && terminal.notesAreSeen && !terminal.json;
  if (logFormat === 'json' || (logFormat === 'auto' && !isSeen)) return undefined;
  const { createLog } = await import('../../../supervisor/operations/log-stream.ts');
  const style = logFile === null ? terminal.noteStyle : createStyle(false);
  return createLog({ log, logFile, dataDir }, (line) => `${drawPinoLine(line, style).map(visible).join('\n')}\n`);
}

/** The folder of an app, or of a template where no folder has that name. Throws if it is no app. */
function folderWith(word: string, cwd: string): string {
  const named = resolve(cwd, word);
  const isTemplate = isAppId(word) && !existsSync(named);
  const templates = templateIds();
  if (isTemplate && !templates.includes(word)) {
    const hint = didYouMean(word, templates, `Templates: ${templates.join(', ')}`);
    throw new UsageError(`There is no folder and no template "${word}".`, hint);
  }
  const folder = isTemplate ? templateFolder(word) : named;
  readAppId(folder);
  return folder;
}

/** Uploads an app's folder unless its id is registered; answers the webhooks that were created. */
async function install(client: Client, folder: string, log: Pick<Logger, 'warn'>): Promise<NewWebhook[]> {
  const id = readAppId(folder);
  if ((await readAll(client, APPS)).some((app) => app.id === id)) return [];
  const { warnings = [], webhooks } = await uploadApp(client, folder);
  for (const warning of warnings)
    log.warn({ app: id, rule: warning.keyword }, `${placeOf(warning)} ${warning.message}`);
  return webhooks;
}

/** The configuration file, overridden by the options. */
async function configure(context: CommandContext): Promise<Partial<Config> & { dataDir: string }> {
  const { args, cwd, dataDirectory } = context;
  const file = args.text('config');
  const config: Partial<Config> = file === undefined ? {} : readConfig(resolve(cwd, file));
  const host = args.text('host');
  const port = args.number('port', 0, MAX_PORT);
  const edge = args.text('edge');
  if (host !== undefined) config.host = host;
  if (port !== undefined) config.port = port;
  if (edge !== undefined) config.edge = checkEdge(edge);
  const logFile = args.text('log-file');
  if (logFile !== undefined) config.logFile = { ...config.logFile, path: logFile };
  const cluster = clusterOf(args, config.cluster ?? null);
  const isGiven = args.has('data-dir') || config.dataDir === undefined;
  const dataDir = isGiven ? dataDirectory : resolve(cwd, config.dataDir as string);
  const appsStoreRoot = await chooseStore(args.text('store'), { ...config, dataDir });
  return { ...config, dataDir, appsStoreRoot, cluster };
}

/** The cluster of the configuration file, which is the same for all nodes, overridden by the options, which differ. */
function clusterOf(args: Arguments, given: Config['cluster']): Config['cluster'] {
  const [url, ...standbys] = args.list('cluster');
  const named = standbys.length === 0 ? { url } : { urls: [url, ...standbys] };
  const database = url === undefined ? given : (named as NonNullable<Config['cluster']>);
  const ofNode = {
    node: args.text('node') ?? given?.node,
    address: args.text('node-address') ?? given?.address,
    secretEnv: given?.secretEnv,
  };
  const set = Object.fromEntries(Object.entries(ofNode).filter(([, value]) => value !== undefined));
  if (database !== null) return { ...database, ...set };
  if (Object.keys(set).length === 0) return null;
  throw new UsageError(
    '--node and --node-address are for a node of a cluster.',
    'Name its database too: --cluster postgres://svc@db.example.org/svc',
  );
}

/** Throws `CommandError` for a file that cannot be used. */
export function readConfig(file: string): Partial<Config> {
  try {
    return { ...loadConfig(file) };
  } catch (error) {
    throw error instanceof ConfigError ? new CommandError(error.message, KEYS) : error;
  }
}

function checkEdge(edge: string): Config['edge'] {
  if (edge === 'auto' || edge === 'uws' || edge === 'node') return edge;
  throw new UsageError(`There is no edge "${edge}".`, 'Available: auto, uws, node');
}

/**
 * The folder of the git store, or null for the tarball store: from the option or the configuration, else from the
 * directory.
 */
async function chooseStore(
  store: string | undefined,
  { dataDir, appsDir, appsStoreRoot = null }: Partial<Config> & { dataDir: string },
): Promise<string | null> {
  if (store !== undefined && store !== 'git' && store !== 'tarball')
    throw new UsageError(`There is no store "${store}".`, 'Available: git, tarball');
  if (store === 'tarball' && appsStoreRoot !== null)
    throw new UsageError(
      `The configuration keeps code in the git store ${appsStoreRoot} (appsStoreRoot).`,
      'Omit --store, or remove appsStoreRoot from the configuration file.',
    );
  if (store === 'tarball' || appsStoreRoot !== null) return appsStoreRoot;
  const { GIT_STORE, storeIn } = await import('../../../supervisor/deployments/store/open-store.ts');
  if (store === 'git') return GIT_STORE;
  const found = await storeIn(new Layout(dataDir, appsDir ?? undefined));
  return found === undefined ? GIT_STORE : found;
}

/** Why a gateway cannot start, and what to do about it. */
async function explainStart(
  error: NodeJS.ErrnoException,
  { host = DEFAULTS.host, port = DEFAULTS.port }: Partial<Config>,
  surroundings: Surroundings,
): Promise<Error> {
  if (error instanceof ConfigError) return new CommandError(error.message, KEYS);
  if (error instanceof NoUws)
    return new CommandError(error.message, ['Omit --edge: node:http serves then.', error.nextStep]);
  // An error with a path is about the data directory, not about the address.
  if (error.path !== undefined) return error;
  const address = `port ${port}${host === DEFAULTS.host ? '' : ` of ${host}`}`;
  switch (error.code) {
    case 'EADDRINUSE': {
      const { what, steps } = await whoListens(host, port, surroundings);
      return new CommandError(`${what} is listening on ${address}.`, steps);
    }
    case 'EACCES':
      return new CommandError(
        `Listening on ${address} is not permitted.`,
        'Ports below 1024 need privileges: svc serve --port 8787',
      );
    case 'EADDRNOTAVAIL':
      return new CommandError(`This machine has no address ${host}.`, 'Omit --host to listen on this machine only.');
    default:
      return withoutSqlite() ?? error;
  }
}

/** The writer ends without SQLite; this process has not tried to load it. */
function withoutSqlite(): CommandError | null {
  try {
    loadSqlite();
    return null;
  } catch (error) {
    if (!(error instanceof BindingError)) throw error;
    return new CommandError(error.finding, error.nextStep);
  }
}

/** An address that stands for all of this machine's. */
function isUnspecified(host: string): boolean {
  return host === '0.0.0.0' || host === '::';
}

async function greet(context: CommandContext, gateway: RunningGateway, client: Client): Promise<void> {
  const { terminal } = context;
  const { url, pid } = gateway;
  terminal.line(readyLine({ version: packageVersion(), url, pid }, terminal.style));
  const { config } = gateway.gateway;
  // Behind a proxy that terminates HTTPS, other machines do not connect here.
  const isBehindProxy = config.appDomain !== null || config.trustedProxies.length > 0;
  if (!isLoopback(config.host) && !isBehindProxy) warnOfPlainHttp(terminal, config.host, new URL(url).port);
  if (!terminal.interactive) return;
  const apps = await readAll(client, APPS);
  const shown = apps.slice(0, LISTED).map(async ({ id }) => ({ id, open: (await makeLink(client, { app: id })).url }));
  const facts: Welcome = {
    open: (await makeLink(client)).url,
    dataDir: shortPath(gateway.dataDir, context),
    edge: gateway.edge,
    apps: await Promise.all(shown),
    more: Math.max(0, apps.length - LISTED),
    isByNpx: context.env.npm_command === 'exec',
  };
  terminal.lines(welcome(facts, terminal.style));
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.');
}

/** Warns if other machines can reach it: others on the network can read everything that they send. */
function warnOfPlainHttp(terminal: Terminal, host: string, port: string): void {
  for (const address of isUnspecified(host) ? networkAddresses() : [])
    terminal.note(`Other machines: http://${address}:${port}`);
  terminal.warn('Plain HTTP: others on the network can read tokens and data.');
  terminal.hint('  Put a proxy with HTTPS in front (docs/operations.md), or omit --host.');
}

/** One line with what a log needs to keep. */
export function readyLine({ version, url, pid }: { version: string; url: string; pid: number }, style: Style): string {
  return `${style('green', '●')} ${style('bold', 'svc-gateway')} ${version} is ready on ${style('cyan', url)} (pid ${pid})`;
}

export type Welcome = {
  /** Signs a browser in at the console, once. */
  open: string;
  /** As it is shown. */
  dataDir: string;
  edge: 'uws' | 'node';
  /** The first registered apps, each with a link that opens its page, and how many more there are. */
  apps: { id: string; open: string }[];
  more: number;
  /** Started by npx, which puts no command on the path. */
  isByNpx: boolean;
};

/** The rest, for a person: each link signs a browser in once. */
export function welcome({ dataDir, apps, more, edge, open, isByNpx }: Welcome, style: Style): string[] {
  const svc = isByNpx ? 'npx svc-gateway' : 'svc';
  const widest = Math.max(...apps.map(({ id }) => id.length));
  const linked = apps.map((app) => `${style('bold', app.id.padEnd(widest))}  ${style('cyan', app.open)}`);
  if (apps.length === 0) linked.push(`none yet: ${style('cyan', `${svc} new notes && ${svc} push notes`)}`);
  if (more > 0) linked.push(style('dim', `and ${more} more: ${svc} apps`));
  linked.push(style('dim', `Each link signs one browser in, within ten minutes. Another one: ${svc} open`));
  const lines: [name: string, value: string][] = [
    ['open', style('cyan', open)],
    ...linked.map((text, i): [string, string] => [i === 0 ? 'apps' : '', text]),
    ['data', `${dataDir}  ${style('dim', `token in ${dataDir}/token.bin`)}`],
    ['edge', EDGES[edge]],
    ['stop', 'Ctrl-C'],
    ...(isByNpx ? [['svc', 'npm install -g svc-gateway installs the command svc'] as [string, string]] : []),
  ];
  return ['', ...lines.map(([name, value]) => `  ${style('dim', name.padEnd(5))} ${value}`), ''];
}
