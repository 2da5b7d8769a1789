/** What the command lines of the bench, the fault campaigns, the fuzzer and the seeded faults share. */
import { parseArgs } from 'node:util';

/** Its message is for the person who typed the command. */
export class UsageError extends Error {}

type Words<T extends string> = { [name in T]?: 'string' | 'boolean' };

/** The options of these names and types, and the words beside them. Throws `UsageError`. */
export function parseWords<T extends string>(args: string[], types: Words<T>) {
  const own = Object.entries(types).map(([name, type]) => [name, { type }] as [string, { type: 'string' | 'boolean' }]);
  try {
    const { values, positionals } = parseArgs({ args, allowPositionals: true, options: Object.fromEntries(own) });
    return { values: values as { [name in T]?: string }, flags: values as { [name in T]?: boolean }, positionals };
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** Those that are named, in the order of the list; all where none is. */
export function chosen<T extends { name: string }>(what: string, all: T[], names: string[]): T[] {
  const unknown = names.find((name) => !all.some((one) => one.name === name));
  if (unknown !== undefined)
    throw new UsageError(`There is no ${what} "${unknown}"; there are: ${all.map(({ name }) => name).join(', ')}.`);
  return names.length === 0 ? all : all.filter(({ name }) => names.includes(name));
}

export function wholeNumber(option: string, text: string | undefined, least: number, most = 2 ** 32 - 1) {
  if (text === undefined) return null;
  const value = Number(text);
  if (!Number.isInteger(value) || value < least || value > most)
    throw new UsageError(`${option} must be a whole number from ${least} to ${most}.`);
  return value;
}

/** Its exit code: 2, with the help, for a command that cannot be understood. With `--help` it is only that. */
export async function runCommand(help: string, run: (args: string[]) => Promise<number>): Promise<number> {
  const args = process.argv.slice(2);
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(help);
    return 0;
  }
  try {
    return await run(args);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`${error.message}\n\n${help}`);
    return 2;
  }
}
