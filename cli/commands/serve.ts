/** `svc serve`: runs the gateway until it is stopped. */
import { resolve } from 'node:path';
import type { Logger } from 'pino';
import type { AppRecord, UploadAnswer } from '../../protocol/answers.ts';
import type { MintedWebhook } from '../../protocol/automation.ts';
import { PRIVATE_UMASK } from '../../storage/private-tree.ts';
import { type Config, ConfigError, loadConfig } from '../../supervisor/config.ts';
import type { RunningGateway } from '../../supervisor/serve.ts';
import { type BannerFacts, LISTED, readyLine, welcome } from '../banner.ts';
import { openBrowser } from '../browser.ts';
import type { CommandContext } from '../command.ts';
import { packFiles, readAppId, scanAppFolder } from '../dev/app-folder.ts';
import { CommandError, UsageError } from '../failure.ts';
import { drawMinted } from '../gateway/activation.ts';
import { Client } from '../gateway/client.ts';
import { shortPath } from '../gateway/data-directory.ts';
import { allApps } from '../gateway/lists.ts';
import { makeLink } from '../gateway/pages.ts';
import { appPath } from '../gateway/paths.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { packageVersion } from '../version.ts';

const MAX_PORT = 65_535;

export async function run(context: CommandContext): Promise<number> {
  const { args, terminal, cwd } = context;
  process.umask(PRIVATE_UMASK);
  const { config, dataDir } = configure(context);
  const folders = args.list('with').map((folder) => resolve(cwd, folder));
  const gateway = await start(config, dataDir, terminal);
  terminal.whenLost(({ message }) => gateway.gateway.log.warn(`Standard output can no longer be written: ${message}.`));
  const { url, token, pid } = gateway;
  const client = new Client({ url, urlFrom: 'this gateway', token: token ?? undefined, tokenFrom: 'this gateway' });
  const minted: MintedWebhook[] = [];
  try {
    for (const folder of folders) minted.push(...(await install(client, folder)));
  } catch (error) {
    await gateway.stop();
    throw error;
  }
  if (terminal.json) {
    terminal.line(JSON.stringify({ event: 'ready', url, token, pid, dataDir: gateway.dataDir }));
    if (minted.length > 0) terminal.line(JSON.stringify({ event: 'webhooks', webhooks: minted }));
  } else await greet(context, gateway, client);
  if (terminal.interactive) drawMinted(terminal, minted);
  if (args.has('open')) {
    const [first] = folders;
    const { url } = await makeLink(client, first === undefined ? undefined : { app: readAppId(first) });
    openBrowser(url, context.platform);
  }
  return gateway.exited;
}

async function start(config: Partial<Config>, dataDir: string, terminal: Terminal): Promise<RunningGateway> {
  // Loaded here, so that a wrong option is told before everything that a gateway needs.
  const { serve } = await import('../../supervisor/serve.ts');
  try {
    const { appsDir, ...settings } = config;
    return await serve({
      ...settings,
      ...(appsDir == null ? {} : { appsDir }),
      ...(await terminalLog(config, terminal)),
      dataDir,
    });
  } catch (error) {
    throw explainStart(error as NodeJS.ErrnoException, config);
  }
}

/** Uploads an app's folder, unless an app of its id is there; answers the webhooks that it has now. */
async function install(client: Client, folder: string): Promise<MintedWebhook[]> {
  const id = readAppId(folder);
  const apps = await allApps(client);
  if (apps.some((app) => app.id === id)) return [];
  const archive = await packFiles(folder, scanAppFolder(folder).files);
  const answer = await client.upload<UploadAnswer>(appPath(id, '/upload'), archive, () => {});
  return answer.webhooks;
}

/** The configuration file with the options over it. */
function configure({ args, cwd, dataDirectory }: CommandContext): { config: Partial<Config>; dataDir: string } {
  const file = args.text('config');
  const config: Partial<Config> = file === undefined ? {} : readConfig(resolve(cwd, file));
  const host = args.text('host');
  const port = args.number('port', 0, MAX_PORT);
  const edge = args.text('edge');
  if (host !== undefined) config.host = host;
  if (port !== undefined) config.port = port;
  if (edge !== undefined) config.edge = checkEdge(edge);
  chooseStore(args.text('store'), config);
  const dataDir = args.has('data-dir') || config.dataDir === undefined ? dataDirectory : resolve(cwd, config.dataDir);
  return { config: { ...config, dataDir }, dataDir };
}

/** `--store` and the configuration have to agree: a gateway that is started with the other store would show no apps. */
function chooseStore(store: string | undefined, config: Partial<Config>): void {
  const root = config.appsStoreRoot ?? null;
  if (store === undefined) return;
  if (store === 'git') config.appsStoreRoot = root ?? 'code-store';
  else if (store !== 'tarball')
    throw new UsageError(`There is no store "${store}".`, { command: 'serve', hint: 'There are: git, tarball' });
  else if (root !== null)
    throw new UsageError(`The configuration keeps code in the git store ${root} (appsStoreRoot).`, {
      command: 'serve',
      hint: 'Leave out --store, or remove appsStoreRoot from the configuration file.',
    });
}

function readConfig(file: string): Partial<Config> {
  try {
    return { ...loadConfig(file) };
  } catch (error) {
    if (error instanceof ConfigError) throw new CommandError(error.message);
    throw error;
  }
}

function checkEdge(edge: string): Config['edge'] {
  if (edge === 'auto' || edge === 'uws' || edge === 'node') return edge;
  throw new UsageError(`There is no edge "${edge}".`, { command: 'serve', hint: 'There are: auto, uws, node' });
}

/** What keeps a gateway from starting, with the way out. */
function explainStart(error: NodeJS.ErrnoException, { host, port }: Partial<Config>): Error {
  // Of the data directory, not of the address.
  if (error.path !== undefined) return error;
  const address = `port ${port ?? 'that is configured'}${host === undefined ? '' : ` of ${host}`}`;
  switch (error.code) {
    case 'EADDRINUSE':
      return new CommandError(
        `Another program is listening on ${address}.`,
        'Stop it (a gateway? svc status), or use any free port: svc serve --port 0',
      );
    case 'EACCES':
      return new CommandError(
        `Listening on ${address} is not permitted.`,
        'Ports below 1024 need privileges: svc serve --port 8787',
      );
    case 'EADDRNOTAVAIL':
      return new CommandError(
        `This machine has no address ${host}.`,
        'Leave --host out to listen on this machine only.',
      );
    default:
      return error;
  }
}

/** Log lines are JSON, but for somebody who looks at them. */
async function terminalLog({ log = 'info' }: Partial<Config>, terminal: Terminal): Promise<{ logger?: Logger }> {
  if (!terminal.notesAreSeen || terminal.json) return {};
  const { createTerminalLog } = await import('../terminal-log.ts');
  return { logger: createTerminalLog(log, terminal.noteStyle) };
}

async function greet(context: CommandContext, gateway: RunningGateway, client: Client): Promise<void> {
  const { terminal } = context;
  const { url, pid, edge } = gateway;
  const version = packageVersion();
  terminal.line(readyLine({ version, url, pid }, terminal.style));
  if (!terminal.interactive) return;
  const apps = await allApps(client);
  const linked = async ({ id }: AppRecord) => ({ id, open: (await makeLink(client, { app: id })).url });
  const facts: BannerFacts = {
    version,
    url,
    pid,
    open: (await makeLink(client)).url,
    dataDir: shortPath(gateway.dataDir, context),
    edge,
    apps: await Promise.all(apps.slice(0, LISTED).map(linked)),
    more: Math.max(0, apps.length - LISTED),
  };
  terminal.lines(welcome(facts, terminal.style));
}
