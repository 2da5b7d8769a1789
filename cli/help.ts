/** Help texts, drawn from the table of commands. */
import type { Command } from './command.ts';
import { COMMANDS } from './commands.ts';
import { type Style, withoutColours } from './terminal/style.ts';
import { joined, wrap } from './terminal/wrap.ts';

/** Names that are longer have their explanation on the next line. */
const NAME_WIDTH = 32;
/** Where there are fewer columns, every explanation is on the next line. */
const WIDE = 72;
const NEXT_LINE = ' '.repeat(6);

/** `svc help`: all commands. */
export function overview(version: string, columns: number, style: Style): string[] {
  const groups = [...new Set(COMMANDS.map(({ group }) => group))];
  return [
    `${style('bold', 'svc')} ${style('dim', version)}`,
    ...wrap('One daemon that hosts many small apps, for people and agents.', columns),
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
    ...joined(
      [
        `${style('dim', 'Start')}  ${style('cyan', 'svc serve')}, and in another terminal`,
        style('cyan', 'svc new notes && svc push notes'),
      ],
      ' ',
      columns,
    ),
    ...joined(
      [
        `${style('dim', 'Apps')}   An app is its id or its folder:`,
        `${style('cyan', 'notes')} or ${style('cyan', './notes')}.`,
        'In its folder you may leave it out.',
      ],
      ' ',
      columns,
    ),
    ...joined(
      [
        `${style('dim', 'More')}   ${style('cyan', 'svc help <command>')}`,
        `Every command takes ${style('cyan', '--json')}.`,
      ],
      '   ',
      columns,
    ),
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
    ...usageLines(command, columns, style),
    ...details.flatMap((text) => ['', ...wrap(text, columns)]),
    '',
    style('bold', 'Options'),
    ...Object.values(options).flatMap((option, i) =>
      entry(style('cyan', names[i] as string), (names[i] as string).length, option.summary, columns),
    ),
    ...(examples.length === 0 ? [] : ['', style('bold', 'Examples'), ...examples.map((line) => `  ${line}`)]),
  ];
}

/** The output of `svc help <command> --json`; `value` names the value of an option, a switch has none. */
export function helpDocument(command: Command): Record<string, unknown> {
  const { name, group, summary, details = [], examples = [] } = command;
  const options = Object.entries(command.options).map(([option, spec]) => ({ name: option, ...spec }));
  return { name, group, summary, usage: usage(command), details, options, examples };
}

/** `svc read <app> <query> [input] [options]`. */
function usage(command: Command): string {
  return `svc ${head(command)} [options]`;
}

/** `[options]` is on a line of its own where the others leave no room. */
function usageLines(command: Command, columns: number, style: Style): string[] {
  const width = columns - 'Usage  '.length;
  const whole = `svc ${head(command)}`;
  const parts = whole.length <= width ? [whole] : whole.split(' ').flatMap((word) => brokenAtBars(word, width));
  const lines = joined([...parts, '[options]'], ' ', width);
  return lines.map((line, i) => (i === 0 ? `${style('dim', 'Usage')}  ${line}` : `${' '.repeat(7)}${line}`));
}

function head({ name, positionals }: Command): string {
  return `${name} ${positionals}`.trim();
}

/** A name, which takes `width` columns, with its explanation beside it or below. */
function entry(name: string, width: number, text: string, columns: number): string[] {
  if (columns < WIDE) {
    const words = name.trim().split(' ');
    const parts = words.flatMap((word) => brokenAtBars(word, columns - 2));
    const names = joined(parts, ' ', columns - 2).map((line) => `  ${line}`);
    return [...names, ...wrap(text, columns - NEXT_LINE.length).map((line) => NEXT_LINE + line)];
  }
  const indent = ' '.repeat(NAME_WIDTH + 4);
  const lines = wrap(text, columns - indent.length).map((line) => indent + line);
  if (width > NAME_WIDTH) return [`  ${name}`, ...lines];
  const [first = '', ...rest] = lines;
  return [`  ${name.trimEnd()}${first.slice(width + 2)}`, ...rest];
}

/** A list of verbs that is longer than a line, `[enable|disable|…]`, continues on the next one. */
function brokenAtBars(word: string, most: number): string[] {
  const end = withoutColours(word).length <= most ? 0 : word.lastIndexOf('|', most - 1) + 1;
  return end === 0 ? [word] : [word.slice(0, end), ...brokenAtBars(word.slice(end), most)];
}
