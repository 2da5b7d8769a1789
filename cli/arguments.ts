/** Reads a command line against a command's declared positionals and options. Throws `UsageError`. */
import { parseArgs } from 'node:util';
import { UsageError } from './failure.ts';
import { nearest } from './terminal/nearest.ts';

/** An option; `value` names what it takes, and without it the option is a switch. */
export type OptionSpec = { summary: string; value?: string; short?: string };
export type OptionTable = Record<string, OptionSpec>;

/** Positionals are read from their usage text: `<app> <query> [json]`. */
export type ArgumentSpec = { name: string; positionals: string; options: OptionTable };

export class Arguments {
  readonly #positionals: string[];
  readonly #options: Map<string, string[]>;

  constructor(positionals: string[], options: Map<string, string[]>) {
    this.#positionals = positionals;
    this.#options = options;
  }

  /** A required positional; the parser has made sure that it is there. */
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
    return this.#options.get(option)?.at(-1);
  }

  list(option: string): string[] {
    return this.#options.get(option) ?? [];
  }

  /** A whole number of at least `min` and at most `max`. */
  number(option: string, min: number, max: number): number | undefined {
    const text = this.text(option);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max) {
      throw new UsageError(`--${option} takes a whole number from ${min} to ${max}, not "${text}".`);
    }
    return value;
  }
}

export function parseArguments(argv: string[], spec: ArgumentSpec): Arguments {
  const options = Object.fromEntries(
    Object.entries(spec.options).map(([name, { value, short }]) => [
      name,
      {
        type: value === undefined ? ('boolean' as const) : ('string' as const),
        ...(short === undefined ? {} : { short }),
      },
    ]),
  );
  const { tokens } = parseArgs({ args: argv, options, strict: false, allowPositionals: true, tokens: true });
  const positionals: string[] = [];
  const given = new Map<string, string[]>();
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value);
    if (token.kind !== 'option') continue;
    const option = Object.hasOwn(spec.options, token.name) ? spec.options[token.name] : undefined;
    if (option === undefined) throw unknownOption(token.rawName, spec);
    if (option.value === undefined && token.value !== undefined) {
      throw new UsageError(`${token.rawName} is a switch and takes no value.`, { command: spec.name });
    }
    if (option.value !== undefined && token.value === undefined) {
      throw new UsageError(`${token.rawName} needs a value: ${token.rawName} <${option.value}>.`, {
        command: spec.name,
      });
    }
    given.set(token.name, [...(given.get(token.name) ?? []), token.value ?? '']);
  }
  if (!given.has('help')) checkPositionals(positionals, spec);
  return new Arguments(positionals, given);
}

function checkPositionals(positionals: string[], spec: ArgumentSpec): void {
  const required = [...spec.positionals.matchAll(/<([\w/|-]+)>/g)].map((match) => match[1] as string);
  const optional = [...spec.positionals.matchAll(/\[([\w-]+)/g)].length;
  const missing = required[positionals.length];
  if (missing !== undefined) throw new UsageError(`<${missing}> is missing.`, { command: spec.name });
  const extra = positionals[required.length + optional];
  if (extra !== undefined) throw new UsageError(`"${extra}" is one argument too many.`, { command: spec.name });
}

function unknownOption(rawName: string, spec: ArgumentSpec): UsageError {
  const meant = nearest(rawName.replace(/^-+/, ''), Object.keys(spec.options));
  return new UsageError(`There is no option ${rawName}.`, {
    command: spec.name,
    ...(meant === undefined ? {} : { hint: `Did you mean --${meant}?` }),
  });
}
