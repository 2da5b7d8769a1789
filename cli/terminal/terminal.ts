/**
 * Where a command writes: answers to stdout, everything else to stderr, each with colours of its own. Whatever is written passes
 * `visible`, and the streams are nobody else's: text of an app, an archive or a log cannot drive the terminal.
 */
import { createInterface } from 'node:readline/promises';
import type { Readable } from 'node:stream';
import { UsageError } from '../failure.ts';
import { type Progress, startProgress } from './progress.ts';
import { createStyle, type Style, visible, wantsColour } from './style.ts';
import { type Cell, type Column, drawTable } from './table.ts';

// A string followed by a colon is a member's name.
const TOKENS = /("(?:\\.|[^"\\])*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

export type TerminalStreams = {
  stdin: Readable & { isTTY?: boolean };
  stdout: NodeJS.WriteStream;
  stderr: NodeJS.WriteStream;
};

const HOME = '\u001b[H';
const CLEAR_BELOW = '\u001b[J';
const CLEAR_REST_OF_LINE = '\u001b[K';

export class Terminal {
  readonly stdin: TerminalStreams['stdin'];
  /** `--json`: stdout carries JSON and nothing else. */
  readonly json: boolean;
  /** Colours for stdout. */
  readonly style: Style;
  /** Colours for stderr. */
  readonly noteStyle: Style;
  readonly #stdout: NodeJS.WriteStream;
  readonly #stderr: NodeJS.WriteStream;

  constructor(streams: TerminalStreams, env: NodeJS.ProcessEnv, json: boolean) {
    this.stdin = streams.stdin;
    this.#stdout = streams.stdout;
    this.#stderr = streams.stderr;
    this.json = json;
    this.style = createStyle(wantsColour(streams.stdout, env));
    this.noteStyle = createStyle(wantsColour(streams.stderr, env));
  }

  /** Someone is looking at stdout. */
  get interactive(): boolean {
    return this.#stdout.isTTY === true && !this.json;
  }

  /** Someone is looking at stderr. */
  get notesAreSeen(): boolean {
    return this.#stderr.isTTY === true;
  }

  /** Columns of stdout; unbounded when it is a file or a pipe. */
  get columns(): number {
    return this.#stdout.isTTY ? (this.#stdout.columns ?? 80) : Number.POSITIVE_INFINITY;
  }

  /** One line, whatever the text has in it. */
  line(text = ''): void {
    this.lines([text]);
  }

  lines(lines: string[]): void {
    if (lines.length > 0) this.#stdout.write(`${lines.map(visible).join('\n')}\n`);
  }

  /** One line to stderr: what a program that reads stdout must not see. */
  note(text = ''): void {
    this.#stderr.write(`${visible(text)}\n`);
  }

  table(columns: Column[], rows: Cell[][]): void {
    this.lines(drawTable(columns, rows, this.columns, this.style));
  }

  /** The answer of a command: one JSON document with `--json`, else what `draw` prints. */
  answer(value: unknown, draw: () => void): void {
    if (this.json) this.document(value);
    else draw();
  }

  /** What an app answered, where no drawing fits it: JSON either way, with colours for a reader. */
  value(value: unknown): void {
    if (this.interactive) this.lines(drawJson(value, this.style));
    else this.document(value);
  }

  /** One JSON document: on one line for a program, indented on a terminal. */
  document(value: unknown): void {
    this.lines(JSON.stringify(value ?? null, null, this.#stdout.isTTY ? 2 : undefined).split('\n'));
  }

  /** The lines in place of all that is on the screen, as many as it has room for; below each other where stdout is no terminal. */
  screen(lines: string[]): void {
    if (!this.interactive) {
      this.lines([...lines, '']);
      return;
    }
    const shown = lines.slice(0, (this.#stdout.rows ?? Number.POSITIVE_INFINITY) - 1);
    // Overwritten line by line in one write, so that the screen does not flicker.
    const text = shown.map((line) => `${visible(line)}${CLEAR_REST_OF_LINE}\n`).join('');
    this.#stdout.write(HOME + text + CLEAR_BELOW);
  }

  /** A progress bar on stderr, where somebody looks at it. */
  progress(label: string): Progress {
    return startProgress(this.#stderr, this.noteStyle, label);
  }

  /** What the user types after `question`, without white space around it. */
  async ask(question: string): Promise<string> {
    const prompt = createInterface({ input: this.stdin, output: this.#stderr });
    try {
      return (await prompt.question(visible(question))).trim();
    } finally {
      prompt.close();
    }
  }

  /** `listener` is told once when stdout takes no more. */
  whenLost(listener: (error: Error) => void): void {
    this.#stdout.once('error', listener);
  }
}

/** Whether the user said yes to "`question` [y/N]". Throws `UsageError` where nobody can be asked; `command` is for its help. */
export async function confirm(terminal: Terminal, question: string, command: string): Promise<boolean> {
  if (!terminal.stdin.isTTY || terminal.json) {
    throw new UsageError(`"svc ${command}" needs a confirmation.`, {
      command,
      hint: 'Add --yes to skip the question.',
    });
  }
  return /^y(es)?$/i.test(await terminal.ask(`${question} [y/N] `));
}

/** JSON for a reader, line by line: indented, with colours. */
export function drawJson(value: unknown, style: Style): string[] {
  const text = JSON.stringify(value ?? null, null, 2);
  const drawn = text.replace(TOKENS, (token, string?: string, colon?: string) => {
    if (string === undefined) return style(/^[tfn]/.test(token) ? 'magenta' : 'yellow', token);
    return colon === undefined ? style('green', string) : style('cyan', string) + colon;
  });
  return drawn.split('\n');
}
