/** `svc service`: runs the gateway as a service of the user, by systemd or launchd. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { writeFileAtomic } from '../../../storage/files/atomic-file.ts';
import { Layout } from '../../../storage/layout.ts';
import { lockHolder } from '../../../storage/processes/data-lock.ts';
import { packageRoot } from '../../../supervisor/tree/entry-points.ts';
import { type CommandContext, runVerb } from '../../command.ts';
import { CommandError, EXIT } from '../../failure.ts';
import { daemonOf } from '../../gateway/connection.ts';
import {
  dataDirectoryIn,
  launchdPlist,
  SERVICE_NAME,
  type ServiceSpec,
  serviceFile,
  systemdUnit,
} from '../../service/unit-files.ts';
import { shellPath, shortPath } from '../../terminal/paths.ts';
import { readConfig } from './serve-command.ts';

const MAX_PORT = 65_535;
/** Milliseconds that systemd waits for a gateway to be ready (`TimeoutStartSec`), and a little more. */
const START_MS = 11 * 60_000;

export function service(context: CommandContext): Promise<number> | Promise<void> {
  return runVerb(context, { install, uninstall, status });
}

/** A service manager of the user. */
type Manager = {
  /** Of the unit or the agent. */
  readonly file: string;
  /** What shows the log. */
  readonly log: string;
  text(spec: ServiceSpec): string;
  /** Throws `CommandError` where the manager does not run. */
  check(): void;
  /** Starts it, now and at each sign-in, after its file was written. */
  start(): void;
  /** Stops it; it does not start again. */
  stop(): void;
  /** Its process, or why there is none. */
  state(): { pid: number | null; is: string };
  /** What is left to do after it was installed, if anything. */
  advice(): string | undefined;
};

async function install(context: CommandContext): Promise<void> {
  const { args, cwd, terminal } = context;
  const manager = managerOf(context);
  if (packageRoot.includes('/_npx/'))
    throw new CommandError(
      'npx keeps its packages in a cache that npm may empty, so a service would lose its program.',
      'Install it first: npm install -g svc-gateway && svc service install',
    );
  const config = args.text('config') === undefined ? undefined : resolve(cwd, args.text('config') as string);
  const named = config === undefined ? undefined : readConfig(config).dataDir;
  const dataDir = args.has('data-dir') || named === undefined ? context.dataDirectory : resolve(cwd, named);
  const port = args.number('port', 1, MAX_PORT);
  manager.check();
  const shown = shortPath(dataDir, context);
  const holder = lockHolder(new Layout(dataDir).lock);
  if (holder !== null && manager.state().pid !== holder)
    throw new CommandError(
      `A gateway runs on ${shown} already (pid ${holder}), which the service would need.`,
      `Stop it first (kill ${holder}), then run the command again.`,
    );
  const words = ['serve', '--data-dir', dataDir];
  if (config !== undefined) words.push('--config', config);
  if (port !== undefined) words.push('--port', String(port));
  mkdirSync(dirname(manager.file), { recursive: true });
  await writeFileAtomic(
    manager.file,
    manager.text({
      command: [...programOf(context), ...words],
      path: context.env.PATH ?? '/usr/local/bin:/usr/bin:/bin',
      document: join(packageRoot, 'docs/install.md'),
    }),
  );
  manager.start();
  const { url = null } = daemonOf(dataDir, context) ?? {};
  const { pid } = manager.state();
  terminal.answer({ file: manager.file, dataDir, url, pid }, () => {
    terminal.done('The gateway runs as a service, and starts when you sign in.');
    terminal.facts({
      ...(url === null ? {} : { address: url }),
      data: shown,
      file: shortPath(manager.file, context),
      log: manager.log,
      open: 'svc open',
    });
    const advice = manager.advice();
    if (advice !== undefined) terminal.hint(advice);
  });
}

async function uninstall(context: CommandContext): Promise<void> {
  const { terminal } = context;
  const manager = managerOf(context);
  const dataDir = dataDirectoryIn(manager.file);
  if (dataDir !== null) {
    manager.stop();
    rmSync(manager.file, { force: true });
  }
  const kept = dataDir ?? context.dataDirectory;
  terminal.answer({ removed: dataDir !== null, dataDir: kept }, () => {
    terminal.done(dataDir === null ? 'There is no service of yours.' : 'The service is stopped and removed.');
    if (!existsSync(kept)) return;
    const shown = shortPath(kept, context);
    terminal.line(`Your apps and their data stay in ${shown}. To delete them too: rm -rf ${shellPath(shown)}`);
  });
}

/** The exit code is 1 unless it runs. */
async function status(context: CommandContext): Promise<number> {
  const { terminal } = context;
  const manager = managerOf(context);
  const dataDir = dataDirectoryIn(manager.file);
  if (dataDir === null) {
    terminal.answer({ installed: false }, () => {
      terminal.line('The gateway is not a service of yours.');
      terminal.hint('Make it one: svc service install');
    });
    return EXIT.failed;
  }
  const { pid, is } = manager.state();
  const { url = null } = (pid === null ? null : daemonOf(dataDir, context)) ?? {};
  terminal.answer({ installed: true, state: is, pid, url, dataDir, file: manager.file }, () => {
    terminal.facts({
      service: pid === null ? is : `${is} (pid ${pid})`,
      ...(url === null ? {} : { address: url }),
      data: shortPath(dataDir, context),
      file: shortPath(manager.file, context),
      log: manager.log,
    });
    if (pid === null) terminal.hint(`See why in its log. Start it again: svc service install`);
  });
  return pid === null ? EXIT.failed : EXIT.ok;
}

/** The words that start this program: the single file knows by which name it was started. */
function programOf({ env }: CommandContext): string[] {
  return env.SVC_SINGLE_FILE ? [env.SVC_SINGLE_FILE] : [process.execPath, join(packageRoot, 'bin/svc.js')];
}

function managerOf(context: CommandContext): Manager {
  if (context.platform === 'linux') return systemd(context);
  if (context.platform === 'darwin') return launchd(context);
  throw new CommandError(`svc knows no services of ${context.platform}.`, 'Run it in a terminal: svc serve');
}

type Ran = { ok: boolean; output: string };

/** Runs a program of the system; never throws. */
function runner({ env }: CommandContext): (program: string, ...args: string[]) => Ran {
  return (program, ...args) => {
    const { status, stdout, stderr, error } = spawnSync(program, args, { env, encoding: 'utf8', timeout: START_MS });
    const output = error === undefined ? `${stdout}${stderr}`.trim() : `${program}: ${error.message}`;
    return { ok: status === 0, output };
  };
}

/** Runs it; what it says is the reason if it fails. */
function must(ran: Ran, what: string, next: string): void {
  if (ran.ok) return;
  throw new CommandError(`${what}: ${ran.output.split('\n')[0] || 'no reason was given'}`, next);
}

function systemd(context: CommandContext): Manager {
  const run = runner(context);
  const unit = `${SERVICE_NAME}.service`;
  const log = `journalctl --user -u ${SERVICE_NAME}`;
  return {
    file: serviceFile(context),
    log: `${log} -f`,
    text: systemdUnit,
    check: () => {
      const { ok, output } = run('systemctl', '--user', 'show-environment');
      if (ok) return;
      throw new CommandError(`No systemd runs for your user here: ${output.split('\n')[0]}`, [
        'Run the gateway in a terminal: svc serve',
        'Or as a service of the machine, or in a container: docs/operations.md',
      ]);
    },
    start: () => {
      must(
        run('systemctl', '--user', 'daemon-reload'),
        'systemd does not read its units',
        'See: systemctl --user status',
      );
      must(run('systemctl', '--user', 'enable', unit), 'The service is not enabled', 'See: systemctl --user status');
      must(run('systemctl', '--user', 'restart', unit), 'The service does not start', `See why: ${log} -n 20`);
    },
    stop: () => {
      run('systemctl', '--user', 'disable', '--now', unit);
      run('systemctl', '--user', 'reset-failed', unit);
    },
    state: () => {
      const { output } = run('systemctl', '--user', 'show', unit, '--property=ActiveState,SubState,MainPID');
      const of = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(output)?.[1] ?? '';
      const pid = Number(of('MainPID')) || null;
      return { pid, is: of('ActiveState') === '' ? 'unknown' : `${of('ActiveState')} (${of('SubState')})` };
    },
    advice: () =>
      /^Linger=yes$/m.test(run('loginctl', 'show-user', '--property=Linger').output)
        ? undefined
        : 'It stops when you sign out. To let it run: loginctl enable-linger',
  };
}

function launchd(context: CommandContext): Manager {
  const run = runner(context);
  const home = context.env.HOME ?? homedir();
  const log = join(home, 'Library/Logs', `${SERVICE_NAME}.log`);
  const domain = `gui/${process.getuid?.() ?? 0}`;
  const agent = `${domain}/${SERVICE_NAME}`;
  const file = serviceFile(context);
  const unload = () => run('launchctl', 'bootout', agent);
  return {
    file,
    log: `tail -f ${shellPath(shortPath(log, context))}`,
    text: (spec) => launchdPlist(spec, log),
    check: () => must(run('launchctl', 'print', domain), 'launchd does not answer', 'Run it in a terminal: svc serve'),
    start: () => {
      unload();
      must(run('launchctl', 'bootstrap', domain, file), 'The service does not start', `See why: tail ${log}`);
    },
    stop: unload,
    state: () => {
      const { output } = run('launchctl', 'print', agent);
      const [, is = 'not loaded'] = /^\s*state = (.*)$/m.exec(output) ?? [];
      const [, pid] = /^\s*pid = (\d+)$/m.exec(output) ?? [];
      return { pid: pid === undefined ? null : Number(pid), is };
    },
    advice: () => undefined,
  };
}
