/**
 * Where a command writes: answers to stdout, everything else to stderr. Every text for a terminal passes `visible`, and
 * no other code writes to the streams: text of an app, an archive or a log cannot control the terminal.
 */
import { createInterface } from 'node:readline/promises';
import { type Readable, Writable } from 'node:stream';
import { formatBytes } from '../../protocol/text/units.ts';
import { UsageError } from '../failure.ts';
import { createStyle, type Style, visible, wantsColour, withoutColours } from './style.ts';
import { type Cell, type Column, drawTable, truncate } from './table.ts';
import { wrap } from './wrap.ts';

// A string followed by a colon is a member's name.
const TOKENS = /("(?:\\.|[^"\\])*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

export type TerminalStreams = {
  stdin: Readable & { isTTY?: boolean };
  stdout: NodeJS.WriteStream;
  stderr: NodeJS.WriteStream;
};

export type Progress = { update(done: number, total: number): void; end(): void };

/** Width of a terminal that does not report it. */
const COLUMNS = 80;
const HOME = '\u001b[H';
const CLEAR_BELOW = '\u001b[J';
const CLEAR_REST_OF_LINE = '\u001b[K';
const CLEAR_LINE = '\r\u001b[2K';
const BAR_WIDTH = 28;
const BAR_PARTS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

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
  /** Lines that were entered and not asked for yet. */
  readonly #entered: string[] = [];
  #isPassing = false;
  #isAsking = false;

  constructor(streams: TerminalStreams, env: NodeJS.ProcessEnv, json: boolean) {
    this.stdin = streams.stdin;
    this.#stdout = streams.stdout;
    this.#stderr = streams.stderr;
    this.json = json;
    this.style = createStyle(wantsColour(streams.stdout, env));
    this.noteStyle = createStyle(wantsColour(streams.stderr, env));
  }

  /** Stdout is a terminal, and shows text for a person. */
  get interactive(): boolean {
    return this.#stdout.isTTY === true && !this.json;
  }

  /** Stderr is a terminal. */
  get notesAreSeen(): boolean {
    return this.#stderr.isTTY === true;
  }

  /** Columns of stdout; unbounded when it is a file or a pipe. */
  get columns(): number {
    return this.#stdout.isTTY ? this.#stdout.columns || COLUMNS : Number.POSITIVE_INFINITY;
  }

  /** One line, whatever characters the text contains. */
  line(text = ''): void {
    this.lines([text]);
  }

  lines(lines: string[]): void {
    if (lines.length > 0) this.#stdout.write(`${lines.map(visible).join('\n')}\n`);
  }

  /** Part of a line, or `\n`: for text that comes in pieces. */
  piece(text: string): void {
    this.#stdout.write(text === '\n' ? text : visible(text));
  }

  /** The raw bytes of a file, for a program. A terminal never gets them, because they could control it. */
  bytes(content: Buffer): void {
    if (this.#stdout.isTTY) throw new Error('A terminal gets text by line().');
    this.#stdout.write(content);
  }

  /** `✓ text`. */
  done(text: string): void {
    this.line(`${this.style('green', '✓')} ${text}`);
  }

  /** Named values below a line, one a line; those that are empty are left out. */
  facts(facts: Record<string, string | null | undefined>): void {
    for (const [name, value] of Object.entries(facts))
      if (value) this.line(`  ${this.style('dim', name.padEnd(9))} ${value}`);
  }

  /** One line to stderr, which a program that reads stdout must not see. */
  note(text = ''): void {
    this.clearPassing();
    this.#stderr.write(`${visible(text)}\n`);
  }

  /** A dim line to stderr. */
  hint(text: string): void {
    this.note(this.noteStyle('dim', text));
  }

  /** `! text` to stderr. */
  warn(text: string): void {
    this.note(`${this.noteStyle('yellow', '!')} ${text}`);
  }

  /** `✗ title` to stderr, and what to do about it. */
  failure(title: string, advice: readonly string[] = []): void {
    const [first = '', ...rest] = this.notesAreSeen ? wrap(title, (this.#stderr.columns || COLUMNS) - 2) : [title];
    this.note(`${this.noteStyle('red', '✗')} ${first}`);
    for (const line of rest) this.note(`  ${line}`);
    for (const line of advice) this.hint(`  ${line}`);
  }

  /** A table to stderr, for its reader. */
  noteTable(columns: Column[], rows: Cell[][]): void {
    for (const line of drawTable(columns, rows, this.#stderr.columns || COLUMNS, this.noteStyle)) this.note(line);
  }

  /** A line of stderr that the next note replaces, drawn only on a terminal; without colours where it has to be cut. */
  passing(text: string): void {
    if (!this.notesAreSeen || this.#isAsking) return;
    const plain = withoutColours(text);
    const cut = truncate(plain, (this.#stderr.columns || COLUMNS) - 1);
    this.#stderr.write(CLEAR_LINE + (cut === plain ? visible(text) : cut));
    this.#isPassing = true;
  }

  /** Removes what `passing` wrote last. */
  clearPassing(): void {
    if (this.#isPassing) this.#stderr.write(CLEAR_LINE);
    this.#isPassing = false;
  }

  table(columns: Column[], rows: Cell[][]): void {
    this.lines(drawTable(columns, rows, this.columns, this.style));
  }

  /** The answer of a command: one JSON document with `--json`, else the output of `draw`. */
  answer(value: unknown, draw: () => void): void {
    if (this.json) this.document(value);
    else draw();
  }

  /** A value that has no table: JSON either way, with colours for a reader. */
  value(value: unknown): void {
    if (this.interactive) this.lines(drawJson(value, this.style));
    else this.document(value);
  }

  /** One JSON document: on one line for a program, indented on a terminal. */
  document(value: unknown): void {
    this.lines(JSON.stringify(value ?? null, null, this.#stdout.isTTY ? 2 : undefined).split('\n'));
  }

  /** One event of a stream for a program: JSON on one line. */
  event(value: object): void {
    this.line(JSON.stringify(value));
  }

  /** Replaces what is on the screen by as many lines as fit; without a terminal, prints them below the last ones. */
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

  /** A progress bar on one line of stderr, drawn only on a terminal, after `unseenMs`, and removed at the end. */
  progress(label: string, unseenMs = 0): Progress {
    if (!this.notesAreSeen) return { update: () => {}, end: () => {} };
    const from = Date.now() + unseenMs;
    let shown = '';
    return {
      update: (done, total) => {
        if (Date.now() < from) return;
        const line = progressLine(label, done, total, this.noteStyle);
        if (line === shown) return;
        shown = line;
        this.#stderr.write(CLEAR_LINE + visible(line));
      },
      end: () => {
        if (shown !== '') this.#stderr.write(CLEAR_LINE);
      },
    };
  }

  /**
   * Whether the user answers yes to "`question` [y/N]"; Ctrl-C and the end of the input are no. Throws `UsageError` where there is
   * no terminal to ask on.
   */
  async confirm(question: string): Promise<boolean> {
    if (!this.stdin.isTTY || this.json)
      throw new UsageError('This needs a confirmation.', 'Add --yes to skip the question.');
    const answer = await this.ask(`${question} [y/N] `);
    return answer !== null && /^y(es)?$/i.test(answer.trim());
  }

  /**
   * The next line that the user enters, with `history` to go back to, newest first. Null at the end of the input, at Ctrl-C, and when
   * `signal` aborts. Lines that were pasted together come one by one.
   */
  async ask(question: string, history: string[] = [], signal?: AbortSignal): Promise<string | null> {
    if (this.#entered.length === 0 && !signal?.aborted && !this.stdin.readableEnded) {
      this.clearPassing();
      this.#isAsking = true;
      const prompt = createInterface({ input: this.stdin, output: this.#stderr, history: [...history] });
      await new Promise<void>((resolve) => {
        const end = () => resolve();
        prompt.on('line', (line) => {
          this.#entered.push(line);
          // More lines of the same paste follow at once.
          setImmediate(end);
        });
        prompt.once('close', end);
        prompt.once('SIGINT', end);
        signal?.addEventListener('abort', end, { once: true });
        prompt.setPrompt(visible(question));
        prompt.prompt();
      });
      prompt.close();
      this.#isAsking = false;
      if (this.#entered.length === 0) this.#stderr.write('\n');
    }
    return this.#entered.shift() ?? null;
  }

  /** The lines that the user enters at once, without showing them: one, or those of a paste. None at the end of the input and at Ctrl-C. */
  async askUnseen(question: string): Promise<string[]> {
    this.clearPassing();
    // Its raw mode keeps the terminal from echoing, from before the question on; what readline would draw is dropped.
    const output = new Writable({ write: (_chunk, _encoding, done) => done() });
    const prompt = createInterface({ input: this.stdin, output, terminal: true });
    this.#stderr.write(visible(question));
    const lines: string[] = [];
    await new Promise<void>((resolve) => {
      const end = () => resolve();
      prompt.on('line', (line) => {
        lines.push(line);
        setImmediate(end);
      });
      prompt.once('close', end);
      prompt.once('SIGINT', () => {
        lines.length = 0;
        resolve();
      });
    });
    prompt.close();
    this.#stderr.write('\n');
    return lines;
  }

  /** `listener` is called once when stdout can no longer be written. */
  whenLost(listener: (error: Error) => void): void {
    this.#stdout.once('error', listener);
  }
}

export function progressLine(label: string, done: number, total: number, style: Style): string {
  const share = total === 0 ? 1 : Math.min(1, done / total);
  const eighths = Math.floor(share * BAR_WIDTH * 8);
  const filled = '█'.repeat(Math.floor(eighths / 8)) + (BAR_PARTS[eighths % 8] as string);
  const percent = `${Math.floor(share * 100)} %`.padStart(5);
  const bar = style('cyan', filled) + style('dim', '░'.repeat(BAR_WIDTH - filled.length));
  return `${label} ${bar} ${percent}  ${style('dim', `${formatBytes(done)} of ${formatBytes(total)}`)}`;
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
