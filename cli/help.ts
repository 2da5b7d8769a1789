/** Help texts, drawn from the table of commands. */
import type { Command } from './command.ts';
import { COMMANDS } from './commands.ts';
import type { Style } from './terminal/style.ts';

const MAX_WIDTH = 100;
/** Names that are longer have their explanation on the next line. */
const NAME_WIDTH = 32;

/** `svc help`: all commands. */
export function overview(version: string, columns: number, style: Style): string[] {
  const groups = [...new Set(COMMANDS.map(({ group }) => group))];
  return [
    `${style('bold', 'svc')} ${style('dim', version)}  One daemon that hosts many small apps, for people and agents.`,
    '',
    `${style('dim', 'Usage')}  svc <command> [options]`,
    ...groups.flatMap((group) => [
      '',
      style('bold', group),
      ...COMMANDS.filter((command) => command.group === group).flatMap((command) => {
        const { name, positionals, summary } = command;
        return entry(`${style('cyan', name)} ${positionals}`, head(command).length, summary, columns);
      }),
    ]),
    '',
    `${style('dim', 'Start')}  ${style('cyan', 'svc serve')}, and in another terminal ${style('cyan', 'svc new notes && svc push notes')}`,
    `${style('dim', 'More')}  ${style('cyan', 'svc help <command>')}   Every command takes ${style('cyan', '--json')}.`,
  ];
}

/** `svc help <command>`. */
export function commandHelp(command: Command, columns: number, style: Style): string[] {
  const { summary, details = [], examples = [], options } = command;
  const names = Object.entries(options).map(([name, { short, value }]) => {
    const takes = value === undefined ? '' : ` <${value}>`;
    return `${short === undefined ? '   ' : `-${short},`} --${name}${takes}`;
  });
  return [
    ...wrap(`${summary}.`, columns),
    '',
    `${style('dim', 'Usage')}  ${usage(command)}`,
    ...details.flatMap((text) => ['', ...wrap(text, columns)]),
    '',
    style('bold', 'Options'),
    ...Object.values(options).flatMap((option, i) =>
      entry(style('cyan', names[i] as string), (names[i] as string).length, option.summary, columns),
    ),
    ...(examples.length === 0 ? [] : ['', style('bold', 'Examples'), ...examples.map((line) => `  ${line}`)]),
  ];
}

/** What `svc help <command> --json` prints; `value` names what an option takes, and a switch has none. */
export function helpDocument(command: Command): Record<string, unknown> {
  const { name, group, summary, details = [], examples = [] } = command;
  const options = Object.entries(command.options).map(([option, spec]) => ({ name: option, ...spec }));
  return { name, group, summary, usage: usage(command), details, options, examples };
}

/** `svc read <app> <query> [input] [options]`. */
function usage(command: Command): string {
  return `svc ${head(command)} [options]`;
}

function head({ name, positionals }: Command): string {
  return `${name} ${positionals}`.trim();
}

/** A name, which takes `width` columns, with its explanation beside it or below. */
function entry(name: string, width: number, text: string, columns: number): string[] {
  const indent = ' '.repeat(NAME_WIDTH + 4);
  const lines = wrap(text, columns - indent.length).map((line) => indent + line);
  if (width > NAME_WIDTH) return [`  ${name}`, ...lines];
  const [first = '', ...rest] = lines;
  return [`  ${name.trimEnd()}${first.slice(width + 2)}`, ...rest];
}

function wrap(text: string, columns: number): string[] {
  const width = Math.max(24, Math.min(MAX_WIDTH, columns));
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = '';
    }
    line += line === '' ? word : ` ${word}`;
  }
  return [...lines, line];
}
