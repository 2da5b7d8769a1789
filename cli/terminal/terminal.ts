/** Where a command writes: answers to stdout, everything else to stderr, each with colours of its own. */
import type { Readable } from 'node:stream';
import { drawJson } from './json.ts';
import { createStyle, type Style, wantsColour } from './style.ts';
import { type Cell, type Column, drawTable } from './table.ts';

export type TerminalStreams = {
  stdin: Readable & { isTTY?: boolean };
  stdout: NodeJS.WriteStream;
  stderr: NodeJS.WriteStream;
};

export class Terminal {
  readonly stdin: TerminalStreams['stdin'];
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  /** `--json`: stdout carries JSON and nothing else. */
  readonly json: boolean;
  /** Colours for stdout. */
  readonly style: Style;
  /** Colours for stderr. */
  readonly noteStyle: Style;

  constructor(streams: TerminalStreams, env: NodeJS.ProcessEnv, json: boolean) {
    this.stdin = streams.stdin;
    this.stdout = streams.stdout;
    this.stderr = streams.stderr;
    this.json = json;
    this.style = createStyle(wantsColour(streams.stdout, env));
    this.noteStyle = createStyle(wantsColour(streams.stderr, env));
  }

  /** Someone is looking at stdout. */
  get interactive(): boolean {
    return this.stdout.isTTY === true && !this.json;
  }

  /** Columns of stdout; unbounded when it is a file or a pipe. */
  get columns(): number {
    return this.stdout.isTTY ? (this.stdout.columns ?? 80) : Number.POSITIVE_INFINITY;
  }

  line(text = ''): void {
    this.stdout.write(`${text}\n`);
  }

  lines(lines: string[]): void {
    if (lines.length > 0) this.line(lines.join('\n'));
  }

  /** To stderr: what a program that reads stdout must not see. */
  note(text: string): void {
    this.stderr.write(`${text}\n`);
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
    if (this.interactive) this.line(drawJson(value, this.style));
    else this.document(value);
  }

  /** One JSON document: on one line for a program, indented on a terminal. */
  document(value: unknown): void {
    this.line(JSON.stringify(value ?? null, null, this.stdout.isTTY ? 2 : undefined));
  }
}
