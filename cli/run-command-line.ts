/** Runs one command line from its words to its exit code. */
import { resolve } from 'node:path';
import {
  type Command,
  type CommandContext,
  packageVersion,
  parseArguments,
  type Subject,
  subjectOf,
} from './command.ts';
import { COMMANDS } from './commands.ts';
import { EXIT, errorBodyOf, exitCodeOf, UnreachableError, UsageError } from './failure.ts';
import { Client } from './gateway/client.ts';
import { defaultDataDirectory, resolveConnection, type Surroundings } from './gateway/connection.ts';
import { commandHelp, helpDocument, overview } from './help.ts';
import { nearest } from './terminal/nearest.ts';
import { Terminal, type TerminalStreams } from './terminal/terminal.ts';

/** Never throws: it prints an error to stderr, or as JSON to stdout with `--json`, and sets the exit code. */
export async function runCommandLine(argv: string[], machine: Surroundings & TerminalStreams): Promise<number> {
  const [first, ...rest] = argv;
  if (machine.env.SVC_COMPLETE) return completeWords(argv, machine);
  const terminal = new Terminal(machine, machine.env, argv.includes('--json'));
  try {
    if (first === undefined || first === 'help' || first === '--help' || first === '-h') {
      const named = rest.find((word) => !word.startsWith('-'));
      return await help(named === undefined ? undefined : findCommand(named), terminal);
    }
    if (first === '--version' || first === '-v' || first === 'version') {
      terminal.answer({ version: packageVersion() }, () => terminal.line(packageVersion()));
      return EXIT.ok;
    }
    return await runCommand(findCommand(first), rest, machine, terminal);
  } catch (error) {
    return report(error, terminal);
  }
}

/** For the script of a shell (`svc completion`). */
async function completeWords(argv: string[], machine: Surroundings & TerminalStreams): Promise<number> {
  const { complete } = await import('./complete.ts');
  new Terminal(machine, machine.env, false).lines(await complete(argv, machine));
  return EXIT.ok;
}

async function runCommand(
  command: Command,
  words: string[],
  { env, cwd, platform }: Surroundings,
  terminal: Terminal,
): Promise<number> {
  let client: Client | undefined;
  let subject: Subject = {};
  let dataDirectory: string | undefined;
  try {
    const args = parseArguments(words, command, cwd);
    if (args.has('help')) return await help(command, terminal);
    subject = { command: command.name, ...subjectOf(command.positionals, args) };
    const dataDir = args.text('data-dir');
    const flags = { url: args.text('url'), token: args.text('token'), dataDir };
    dataDirectory = dataDir === undefined ? defaultDataDirectory({ env, cwd, platform }) : resolve(cwd, dataDir);
    const context: CommandContext = {
      env,
      cwd,
      platform,
      args,
      terminal,
      subject,
      dataDirectory,
      connect: (again = false) => {
        if (client === undefined || again) client = new Client(resolveConnection(flags, { env, cwd, platform }));
        return client;
      },
    };
    const run = await command.load();
    return (await run(context)) ?? EXIT.ok;
  } catch (error) {
    const others =
      error instanceof UnreachableError && !error.sent
        ? await othersOf({ url: client?.url, dataDir: dataDirectory }, { env, cwd, platform })
        : [];
    return report(error, terminal, command.name, client, subject, others);
  }
}

/** Other gateways of this machine, for a command that found none. */
async function othersOf(tried: { url?: string | undefined; dataDir?: string | undefined }, machine: Surroundings) {
  const { gatewaysElsewhere } = await import('./gateway/elsewhere.ts');
  return gatewaysElsewhere(tried, machine);
}

async function help(command: Command | undefined, terminal: Terminal): Promise<number> {
  const { columns, style, json } = terminal;
  const version = packageVersion();
  if (command !== undefined)
    terminal.answer(helpDocument(command), () => terminal.lines(commandHelp(command, columns, style)));
  else if (json) {
    const { routeDocuments } = await import('./route-help.ts');
    terminal.document({ version, commands: COMMANDS.map(helpDocument), routes: routeDocuments() });
  } else terminal.lines(overview(version, columns, style));
  return EXIT.ok;
}

function findCommand(name: string): Command {
  const command = COMMANDS.find((candidate) => candidate.name === name);
  if (command !== undefined) return command;
  if (name.startsWith('-'))
    throw new UsageError('Name a command first: svc <command> [options].', 'All commands: svc help');
  const meant = nearest(
    name,
    COMMANDS.map((candidate) => candidate.name),
  );
  throw new UsageError(
    `There is no command "${name}".`,
    meant === undefined ? 'All commands: svc help' : `Did you mean "svc ${meant}"?  All commands: svc help`,
  );
}

/** Resolves with the exit code of the error. */
async function report(
  error: unknown,
  terminal: Terminal,
  command?: string,
  client?: Client,
  subject: Subject = {},
  others: string[] = [],
): Promise<number> {
  const { explain } = await import('./explain.ts');
  const { title, lines } = await explain(error, client, subject);
  lines.unshift(...others);
  if (error instanceof UsageError && command !== undefined) lines.push(`See: svc help ${command}`);
  if (terminal.json) {
    const hint = lines.length === 0 ? {} : { hint: lines.join('\n') };
    terminal.document({ isError: true, error: { ...errorBodyOf(error), ...hint } });
  } else {
    terminal.failure(title, lines);
  }
  return exitCodeOf(error);
}
