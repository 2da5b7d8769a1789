/** Help texts, drawn from the table of commands. */
import type { OptionTable } from './arguments.ts';
import type { Command } from './command.ts';
import { COMMANDS, COMMON_OPTIONS } from './commands.ts';
import type { Style } from './terminal/style.ts';
import { pad } from './terminal/width.ts';

const MAX_WIDTH = 100;

/** `svc help`: what there is. */
export function overview(version: string, columns: number, style: Style): string[] {
  const widest = Math.max(...COMMANDS.map((command) => head(command).length));
  const groups = [...new Set(COMMANDS.map(({ group }) => group))];
  return [
    `${style('bold', 'svc')} ${style('dim', version)}  One daemon that hosts many small apps, for people and agents.`,
    '',
    `${style('dim', 'Usage')}  svc <command> [options]`,
    ...groups.flatMap((group) => [
      '',
      style('bold', group),
      ...COMMANDS.filter((command) => command.group === group).flatMap((command) =>
        entry(headStyled(command, widest, style), widest, command.summary, columns),
      ),
    ]),
    '',
    `${style('dim', 'First steps')}  ${style('cyan', 'svc serve')} in one terminal, ${style('cyan', 'svc new notes && svc push notes')} in another.`,
    `${style('dim', 'More')}  ${style('cyan', 'svc help <command>')}   Every command takes ${style('cyan', '--json')}.`,
  ];
}

/** `svc help <command>`. */
export function commandHelp(command: Command, columns: number, style: Style): string[] {
  const options: OptionTable = { ...command.options, ...COMMON_OPTIONS };
  const names = Object.entries(options).map(([name, { short, value }]) => {
    const takes = value === undefined ? '' : ` <${value}>`;
    return `${short === undefined ? '   ' : `-${short},`} --${name}${takes}`;
  });
  const widest = Math.max(...names.map((name) => name.length));
  return [
    ...wrap(`${command.summary}.`, columns),
    '',
    `${style('dim', 'Usage')}  ${usage(command)}`,
    ...(command.details ?? []).flatMap((text) => ['', ...wrap(text, columns)]),
    '',
    style('bold', 'Options'),
    ...Object.values(options).flatMap(({ summary }, i) =>
      entry(style('cyan', pad(names[i] as string, widest)), widest, summary, columns),
    ),
    ...(command.examples === undefined
      ? []
      : ['', style('bold', 'Examples'), ...command.examples.map((line) => `  ${line}`)]),
  ];
}

/** The same as `svc help <command> --json` prints it; `value` names what an option takes, and a switch has none. */
export function helpDocument(command: Command): Record<string, unknown> {
  const { name, group, summary, details = [], examples = [] } = command;
  const options = Object.entries({ ...command.options, ...COMMON_OPTIONS }).map(([option, spec]) => ({
    name: option,
    ...spec,
  }));
  return { name, group, summary, usage: usage(command), details, options, examples };
}

/** `svc read <app> <query> [input] [options]`. */
export function usage(command: Command): string {
  return `svc ${head(command)} [options]`;
}

function head({ name, positionals }: Command): string {
  return positionals === '' ? name : `${name} ${positionals}`;
}

function headStyled(command: Command, width: number, style: Style): string {
  return style('cyan', command.name) + pad(head(command), width).slice(command.name.length);
}

/** A name with its explanation beside it, wrapped under itself. */
function entry(name: string, nameWidth: number, text: string, columns: number): string[] {
  const indent = nameWidth + 4;
  const [first = '', ...rest] = wrap(text, columns - indent);
  return [`  ${name}  ${first}`, ...rest.map((line) => ' '.repeat(indent) + line)];
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
