/** A command: its declaration, the parsing of its arguments, and the context that it runs in. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import { appOption, withApp } from './app-argument.ts';
import { CommandError, UsageError } from './failure.ts';
import type { Client } from './gateway/client.ts';
import type { Surroundings } from './gateway/connection.ts';
import { nearest } from './terminal/nearest.ts';
import type { Terminal } from './terminal/terminal.ts';

/** An option; `value` names its value. Without `value` the option is a switch. */
export type OptionTable = Record<string, { summary: string; value?: string; short?: string }>;

/** Positionals are read from their usage text: `<app> <query> [input]`. */
export type ArgumentSpec = { positionals: string; options: OptionTable };

export type Command = ArgumentSpec & {
  name: string;
  group: string;
  summary: string;
  /** Paragraphs for `svc help <command>`. */
  details?: string[];
  examples?: string[];
  /** Loads a command when it runs, so that it does not pay for the others. */
  load(): Promise<RunCommand>;
};

/** Does the work. The number is the exit code; without one it is 0. */
export type RunCommand = (context: CommandContext) => Promise<number> | Promise<void>;

export type CommandContext = Surroundings & {
  args: Arguments;
  terminal: Terminal;
  /**
   * The client for the gateway that the options and surroundings name. With `again` it reads them again, because a
   * gateway may come back at another address. Throws `UnreachableError` when no gateway is known.
   */
  connect(again?: boolean): Client;
  /** The data directory that the options and surroundings name, whether or not it exists. */
  dataDirectory: string;
  /** What an error of the command will be about. */
  subject: Subject;
};

/** What the command line named, for advice after an error; `worksIn` is the workspace that the command found or was given. */
export type Subject = {
  command?: string;
  app?: string | undefined;
  tool?: string | undefined;
  workspace?: string | undefined;
  template?: string | undefined;
  automation?: string | undefined;
  /** A folder, as it can be pasted. */
  dir?: string;
  worksIn?: string;
};

/** Asks, unless `--yes` was given. Throws if the user says no, and `UsageError` without a terminal to ask on. */
export async function askFirst({ args, terminal }: CommandContext, question: string): Promise<void> {
  if (args.has('yes') || (await terminal.confirm(question))) return;
  throw new CommandError('Nothing was changed.', 'Answer y to continue, or add --yes.');
}

export class Arguments {
  readonly #positionals: string[];
  readonly #options: Map<string, string[]>;

  constructor(positionals: string[], options: Map<string, string[]>) {
    this.#positionals = positionals;
    this.#options = options;
  }

  /** A required positional: the parser has checked that it is there. */
  at(index: number): string {
    return this.#positionals[index] as string;
  }

  optionalAt(index: number): string | undefined {
    return this.#positionals[index];
  }

  has(option: string): boolean {
    return this.#options.has(option);
  }

  /** The value of an option; the last one given wins. */
  text(option: string): string | undefined {
    return this.list(option).at(-1);
  }

  list(option: string): string[] {
    return this.#options.get(option) ?? [];
  }

  /** The word at `index`, which `what` describes, with those after it: `<version> <path>`. Throws `UsageError` without one. */
  wordAt(index: number, command: string, what: string, hint: string): string {
    const word = this.optionalAt(index);
    if (word !== undefined) return word;
    const [missing] = /^<[^>]+>/.exec(what) ?? [what];
    const before = this.#positionals.slice(0, index).join(' ');
    throw new UsageError(`${missing} is missing: ${command} ${before} ${what}.`, hint);
  }

  /** Throws `UsageError` for words from `index` on. */
  endsAt(index: number, hint?: (extra: string) => string): void {
    const extra = this.optionalAt(index);
    if (extra !== undefined) throw new UsageError(`"${extra}" is one argument too many.`, hint?.(extra));
  }

  /** A whole number of at least `min` and at most `max`. */
  number(option: string, min: number, max: number): number | undefined {
    const text = this.text(option);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new UsageError(`--${option} takes a whole number from ${min} to ${max}, not "${text}".`);
  }

  /** Days such as `90d`, of at most `max`; `without` says what is so without the option. */
  days(option: string, max: number, without: string): number | undefined {
    const text = this.text(option);
    if (text === undefined) return undefined;
    const days = Number(/^([1-9]\d{0,8})d$/.exec(text)?.[1] ?? 0);
    if (days >= 1 && days <= max) return days;
    throw new UsageError(`--${option} takes days, from 1d to ${max}d, not "${text}".`, without);
  }
}

/** With `cwd`, apps may be named by their folders, or left out in one (cli/app-argument.ts). Throws `CommandError`. */
export function parseArguments(
  argv: string[],
  spec: ArgumentSpec & Partial<Pick<Command, 'name' | 'group'>>,
  cwd?: string,
): Arguments {
  const options = Object.fromEntries(
    Object.entries(spec.options).map(([name, { value, short }]) => [
      name,
      { type: value === undefined ? ('boolean' as const) : ('string' as const), ...(short && { short }) },
    ]),
  );
  const { tokens } = parseArgs({ args: argv, options, strict: false, allowPositionals: true, tokens: true });
  const positionals: string[] = [];
  const given = new Map<string, string[]>();
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, value } = token;
    checkOption(token, spec.options);
    given.set(name, [...(given.get(name) ?? []), value ?? '']);
  }
  if (given.has('help')) return new Arguments(positionals, given);
  const words = cwd === undefined ? positionals : withApp(positionals, spec, cwd);
  checkPositionals(words, spec.positionals);
  const apps = given.get('app');
  if (apps !== undefined && cwd !== undefined)
    given.set(
      'app',
      apps.map((app) => appOption(app, cwd)),
    );
  return new Arguments(words, given);
}

function checkOption(
  { name, rawName, value }: { name: string; rawName: string; value?: string | undefined },
  options: OptionTable,
): void {
  const option = Object.hasOwn(options, name) ? options[name] : undefined;
  if (option === undefined) {
    const meant = nearest(rawName.replace(/^-+/, ''), Object.keys(options));
    throw new UsageError(`There is no option ${rawName}.`, meant && `Did you mean --${meant}?`);
  }
  if (option.value === undefined && value !== undefined)
    throw new UsageError(`${rawName} is a switch and takes no value.`);
  if (option.value !== undefined && value === undefined)
    throw new UsageError(`${rawName} needs a value: ${rawName} <${option.value}>.`);
}

function checkPositionals(given: string[], usage: string): void {
  const required = [...usage.matchAll(/<([\w/|-]+)>/g)].map((match) => match[1] as string);
  const optional = [...usage.matchAll(/\[([\w-]+)/g)].length;
  const missing = required[given.length];
  if (missing !== undefined) throw new UsageError(`<${missing}> is missing.`);
  const extra = given[required.length + optional];
  if (extra !== undefined) throw new UsageError(`"${extra}" is one argument too many.`);
}

/** Runs the verb that the first word names; `''` is the verb for none. */
export function runVerb(context: CommandContext, verbs: Record<string, RunCommand>): ReturnType<RunCommand> {
  const name = context.args.optionalAt(0) ?? '';
  const verb = Object.hasOwn(verbs, name) ? verbs[name] : undefined;
  if (verb !== undefined) return verb(context);
  throw new UsageError(`"${name}" is not a verb.`, `Verbs: ${Object.keys(verbs).filter(Boolean).join(', ')}`);
}

/**
 * As `runVerb` for `<verb|app> [app]`, with the verb `''` for an app alone: a word is a verb only if an app follows it, because an
 * app may have the same name. `example` is a verb.
 */
export function runVerbOfApp(
  context: CommandContext,
  verbs: Record<string, RunCommand>,
  command: string,
  example: string,
): ReturnType<RunCommand> {
  const { args, subject } = context;
  const [first, app] = [args.at(0), args.optionalAt(1)];
  subject.app = app ?? first;
  const verb = app === undefined ? verbs[''] : Object.hasOwn(verbs, first) ? verbs[first] : undefined;
  if (verb !== undefined) return verb(context);
  const names = Object.keys(verbs).filter(Boolean).join(', ');
  throw new UsageError(`"${first}" is not a verb.`, `Verbs: ${names}. Such as: ${command} ${example} ${first} ${app}`);
}

/** `positionals` is the command's usage text: it says which of them is an app. */
export function subjectOf(positionals: string, args: Arguments): Subject {
  return {
    app: args.text('app') ?? appOf(positionals, args) ?? args.text('id'),
    tool: args.optionalAt(1),
    workspace: args.text('workspace') ?? args.optionalAt(1),
    template: args.text('clone'),
    automation: positionals.includes('app/automation')
      ? args.optionalAt(indexOfApp(positionals))?.split('/')[1]
      : undefined,
  };
}

/** `<app>`, or the app of `[app/automation]`; a folder does not name an app. */
function appOf(positionals: string, args: Arguments): string | undefined {
  const named = args.optionalAt(indexOfApp(positionals));
  if (named === undefined || !positionals.includes('app/automation')) return named;
  return named.includes('/') ? named.slice(0, named.indexOf('/')) : undefined;
}

function indexOfApp(positionals: string): number {
  return positionals.split(' ').findIndex((word) => /^[<[]app\b/.test(word));
}

/** JSON on the command line: literal, from a file (`@file`) or from standard input (`-`); `absent` if it is missing. */
export async function jsonArgument(
  { args, terminal, cwd }: CommandContext,
  index: number,
  absent?: unknown,
): Promise<unknown> {
  const argument = args.optionalAt(index);
  if (argument === undefined) return absent;
  const text = await inputText(argument, terminal.stdin, cwd);
  try {
    return JSON.parse(text);
  } catch (error) {
    const from = argument === '-' ? 'Standard input' : argument.startsWith('@') ? argument.slice(1) : 'The input';
    if (text.trim() === '') throw new UsageError(`${from} is empty.`, `Give it JSON, such as {"text": "Milk"}.`);
    throw new UsageError(
      `${from} is not valid JSON: ${(error as Error).message}.`,
      `Quote it for the shell: '{"text": "Milk"}', or use @file or - for standard input.`,
    );
  }
}

async function inputText(argument: string, stdin: Readable, cwd: string): Promise<string> {
  if (argument === '-') return textOf(stdin);
  if (!argument.startsWith('@')) return argument;
  try {
    return readFileSync(resolve(cwd, argument.slice(1)), 'utf8');
  } catch {
    throw new CommandError(
      `The file ${argument.slice(1)} cannot be read.`,
      'Check its path: @<file>, from the current folder.',
    );
  }
}

/** Signals that ask a command to end. */
const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** For work that has something to clean up: the first Ctrl-C aborts `signal`, the second ends the process. */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const interrupt = () =>
    controller.abort(
      new CommandError('Interrupted; nothing was left behind.', 'Run the command again when you want to go on.'),
    );
  for (const name of STOP_SIGNALS) process.once(name, interrupt);
  try {
    return await work(controller.signal);
  } finally {
    for (const name of STOP_SIGNALS) process.off(name, interrupt);
  }
}

/** The version of this package. */
export function packageVersion(): string {
  // The same address from the source folder and from the bundle in `dist/`.
  const file = new URL('../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
