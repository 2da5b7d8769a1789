/** `svc desktop`: the console or an app as a window of an installed browser, with a gateway that outlives it. */
import { spawn } from 'node:child_process';
import { join, resolve } from 'node:path';
import { Layout } from '../../storage/layout.ts';
import { compareIdentity } from '../../storage/processes/process-identity.ts';
import { packageRoot } from '../../supervisor/tree/entry-points.ts';
import type { CommandContext } from '../command.ts';
import { type Browser, findBrowser } from '../desktop/browsers.ts';
import { closeWindows, showWindow } from '../desktop/window-requests.ts';
import { CommandError, UsageError } from '../failure.ts';
import { findOrStart, GATEWAY_LOG, type Launcher, lastStarted, running, stopAndWait } from '../gateway/background.ts';
import { findPages, makeLink } from '../gateway/page-links.ts';
import { shortPath } from '../terminal/paths.ts';
import { readConfig } from './operations/serve-command.ts';

const MAX_PORT = 65_535;

export async function desktop(context: CommandContext): Promise<void> {
  const { args, terminal, dataDirectory, env } = context;
  if (args.has('quit')) return quit(context);
  const app = args.optionalAt(0);
  const browser = requireBrowser(context);
  requireScreen(context);
  const { client, pid, started } = await findOrStart(dataDirectory, launcher(context), context).catch(sayDesktop);
  // An error here names the app; the window would only show an error page.
  if (app !== undefined) await client.call('GET /svc/_apps/:id', { params: { id: app } });
  const link = await makeLink(client, app === undefined ? undefined : { app });
  const page = app === undefined ? new URL('/svc/', link.url).href : (await findPages(client))({ app });
  const shown = await showWindow(new Layout(dataDirectory), browser, { page, link: link.url }, env).catch(
    ({ message }: Error) => {
      throw new CommandError(`${browser.name} cannot show a window: ${message}`, [
        'Try another one: svc desktop --browser <chrome, chromium, edge, brave or a program>',
        `Or open the page in any browser: svc open${app === undefined ? '' : ` ${app}`}`,
      ]);
    },
  );
  terminal.answer({ app: app ?? null, page, shown, browser: browser.program, url: client.url, pid, started }, () => {
    const what = app ?? 'The console';
    terminal.done(
      shown === 'opened' ? `${what} is open in ${browser.name}` : `${what} was open; its window is in front`,
    );
    const how = started ? 'started now' : 'was running';
    terminal.facts({ gateway: `${client.url} (pid ${pid}), ${how}`, data: shortPath(dataDirectory, context) });
    if (started) terminal.hint('  It keeps running when the window is closed. Stop it: svc desktop --quit');
  });
}

/** What `svc serve` says to do is done with this command. */
function sayDesktop(error: unknown): never {
  if (!(error instanceof CommandError)) throw error;
  const { message, hint = [] } = error;
  throw new CommandError(
    message,
    [hint].flat().map((line) => line.replaceAll('svc serve', 'svc desktop')),
  );
}

async function quit(context: CommandContext): Promise<void> {
  const { args, terminal, dataDirectory } = context;
  if (args.optionalAt(0) !== undefined)
    throw new UsageError('--quit closes every window; it takes no app.', 'Close one window as any other.');
  const closed = await closeWindows(new Layout(dataDirectory));
  const pid = await stopStarted(context);
  terminal.answer({ closed, stopped: pid }, () =>
    terminal.done(
      pid === null
        ? `No gateway is running on ${shortPath(dataDirectory, context)}`
        : `The gateway (pid ${pid}) has stopped`,
    ),
  );
}

function requireBrowser(context: CommandContext): Browser {
  const wanted = context.args.text('browser');
  const browser = findBrowser(wanted, context, context.dataDirectory);
  if (browser !== undefined) return browser;
  throw new CommandError(
    wanted === undefined
      ? 'There is no Chrome, Chromium, Edge or Brave here.'
      : `There is no browser "${wanted}" here.`,
    ['Install one, or name its program: svc desktop --browser <program>', 'Or use any browser: svc serve --open'],
  );
}

function requireScreen({ platform, env }: CommandContext): void {
  if (platform === 'darwin' || env.DISPLAY || env.WAYLAND_DISPLAY) return;
  throw new CommandError(
    'There is no screen here: neither DISPLAY nor WAYLAND_DISPLAY is set.',
    'Run the command in a desktop session, or print a link for a browser: svc open',
  );
}

/** Stops the gateway that this command started; null where none runs. */
async function stopStarted({ dataDirectory, ...surroundings }: CommandContext): Promise<number | null> {
  const found = await running(dataDirectory, surroundings);
  if (found === null) return null;
  const { pid } = found;
  const started = lastStarted(dataDirectory);
  if (started?.pid !== pid || compareIdentity(started) === 'gone')
    throw new CommandError(
      `The gateway (pid ${pid}) was not started by svc desktop, and keeps running.`,
      'Stop it where it was started: Ctrl-C in its terminal, or with the service manager.',
    );
  await stopAndWait(started);
  return pid;
}

/** Starts `svc serve` in the background, as the command line says. */
function launcher({ args, cwd, env, dataDirectory }: CommandContext): Launcher {
  const port = args.number('port', 0, MAX_PORT);
  const config = args.text('config');
  const file = config === undefined ? undefined : resolve(cwd, config);
  const hasLog = file !== undefined && readConfig(file).logFile != null;
  const words = [
    ...['serve', '--json', '--data-dir', dataDirectory],
    ...(port === undefined ? [] : ['--port', String(port)]),
    ...(file === undefined ? [] : ['--config', file]),
    ...(hasLog ? [] : ['--log-file', GATEWAY_LOG]),
  ];
  return {
    kind: 'daemon',
    another: 'Name another directory: svc desktop --data-dir <dir>',
    launch: (log) =>
      spawn(process.execPath, [join(packageRoot, 'bin', 'svc.js'), ...words], {
        // Not where the command was given: that folder may be removed.
        cwd: '/',
        env,
        detached: true,
        stdio: ['ignore', 'pipe', log],
      }),
  };
}
