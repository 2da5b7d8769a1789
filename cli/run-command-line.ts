/** Runs one command line from its words to its exit code. */
import { resolve } from 'node:path';
import { type OptionTable, parseArguments } from './arguments.ts';
import type { Command, CommandContext } from './command.ts';
import { COMMANDS, COMMON_OPTIONS } from './commands.ts';
import { type Subject, subjectOf } from './explain.ts';
import { EXIT, errorBodyOf, exitCodeOf, UsageError } from './failure.ts';
import { Client } from './gateway/client.ts';
import { resolveConnection } from './gateway/connection.ts';
import { defaultDataDirectory, type Surroundings } from './gateway/data-directory.ts';
import { commandHelp, overview } from './help.ts';
import { nearest } from './terminal/nearest.ts';
import { Terminal, type TerminalStreams } from './terminal/terminal.ts';
import { packageVersion } from './version.ts';

export type Machine = Surroundings & TerminalStreams;

/** Never throws: what goes wrong is told on stderr, or as JSON on stdout with `--json`, and in the exit code. */
export async function runCommandLine(argv: string[], machine: Machine): Promise<number> {
  const [first, ...rest] = argv;
  const terminal = new Terminal(machine, machine.env, argv.includes('--json'));
  try {
    if (first === undefined || first === 'help' || first === '--help' || first === '-h') {
      return help(
        rest.find((word) => !word.startsWith('-')),
        terminal,
      );
    }
    if (first === '--version' || first === '-v' || first === 'version') {
      terminal.line(packageVersion());
      return EXIT.ok;
    }
    return await runCommand(findCommand(first), rest, machine, terminal);
  } catch (error) {
    await report(error, terminal);
    return exitCodeOf(error);
  }
}

async function runCommand(command: Command, words: string[], machine: Machine, terminal: Terminal): Promise<number> {
  const options: OptionTable = { ...command.options, ...COMMON_OPTIONS };
  const args = parseArguments(words, { ...command, options });
  if (args.has('help')) return help(command.name, terminal);
  const dataDir = args.text('data-dir');
  let client: Client | undefined;
  const context: CommandContext = {
    env: machine.env,
    cwd: machine.cwd,
    platform: machine.platform,
    args,
    terminal,
    dataDirectory: dataDir === undefined ? defaultDataDirectory(machine) : resolve(machine.cwd, dataDir),
    connect: (again = false) => {
      if (client === undefined || again)
        client = new Client(resolveConnection({ url: args.text('url'), token: args.text('token'), dataDir }, machine));
      return client;
    },
  };
  try {
    const { run } = await command.load();
    return (await run(context)) ?? EXIT.ok;
  } catch (error) {
    await report(error, terminal, client, subjectOf(command.positionals, args));
    return exitCodeOf(error);
  }
}

function help(name: string | undefined, terminal: Terminal): number {
  const { columns, style } = terminal;
  if (name === undefined) terminal.lines(overview(packageVersion(), columns, style));
  else terminal.lines(commandHelp(findCommand(name), columns, style));
  return EXIT.ok;
}

function findCommand(name: string): Command {
  const command = COMMANDS.find((candidate) => candidate.name === name);
  if (command !== undefined) return command;
  if (name.startsWith('-'))
    throw new UsageError('Name a command first: svc <command> [options].', { hint: 'All commands: svc help' });
  const meant = nearest(
    name,
    COMMANDS.map((candidate) => candidate.name),
  );
  throw new UsageError(`There is no command "${name}".`, {
    hint: meant === undefined ? 'All commands: svc help' : `Did you mean "svc ${meant}"?  All commands: svc help`,
  });
}

async function report(error: unknown, terminal: Terminal, client?: Client, subject: Subject = {}): Promise<void> {
  const { explain } = await import('./explain.ts');
  const { title, lines } = await explain(error, client, subject);
  if (terminal.json) {
    const hint = lines.length === 0 ? {} : { hint: lines.join('\n') };
    terminal.document({ isError: true, error: { ...errorBodyOf(error), ...hint } });
    return;
  }
  const style = terminal.noteStyle;
  terminal.note(`${style('red', '✗')} ${title}`);
  for (const line of lines) terminal.note(`  ${style('dim', line)}`);
}
