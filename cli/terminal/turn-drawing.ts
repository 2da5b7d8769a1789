/** Draws one turn of an agent as its events come: its text to stdout, everything else to stderr. */
import type { TurnEvent } from '../../protocol/agents/agents.ts';
import { chosenLabel, type QuestionBlock, type ToolBlock, Turn, toolInputText } from '../../protocol/agents/turn.ts';
import { formatCount } from '../../protocol/text/units.ts';
import type { Terminal } from './terminal.ts';
import { TextFlow } from './text-flow.ts';
import { formatDuration } from './units.ts';

type Answer = Extract<TurnEvent, { type: 'permission.result' }>;

/** An agent's lines begin further in than ours, so that none of its text can pass for one of them. */
const INDENT = '  ';
const ARGUMENT_CHARS = 200;

export class TurnDrawing {
  /** What it has shown. */
  readonly turn = new Turn();
  readonly #terminal: Terminal;
  readonly #startedAt = Date.now();
  #flow: { kind: 'text' | 'reasoning'; flow: TextFlow } | null = null;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** Everything but the question of a `permission`, and `webhooks`. */
  show(event: TurnEvent): void {
    const terminal = this.#terminal;
    const style = terminal.noteStyle;
    const block = this.turn.take(event);
    switch (event.type) {
      case 'assistant.start':
        terminal.passing(style('dim', `${event.runner} …`));
        return;
      case 'assistant.delta':
        this.#say('text', event.delta);
        return;
      case 'reasoning.delta':
        // Only for people: a program that reads a pipe wants the answer.
        if (terminal.interactive) this.#say('reasoning', event.delta);
        return;
      case 'phase':
        this.pause();
        terminal.hint(`· ${event.phase}${event.detail ? `: ${event.detail}` : ''}`);
        return;
      case 'final':
        if (block !== null) this.#say('text', event.text);
        this.pause();
        return;
      case 'aborted':
        this.pause();
        terminal.note(`${style('yellow', '■')} stopped`);
        return;
      case 'error':
        this.pause();
        return;
      case 'end':
        this.pause();
        // `codex · gpt-5 · 1,204 tokens in, 88 out · $0.01 · 3 s`.
        terminal.hint([...this.turn.facts(formatCount), formatDuration(Date.now() - this.#startedAt)].join(' · '));
        return;
    }
    if (block?.kind === 'tool') this.#showTool(block);
    else if (event.type === 'permission.result') {
      this.pause();
      terminal.note(this.#answer(event, block?.kind === 'question' ? block : null));
    }
  }

  /** Ends the current line, so that something else can be printed. */
  pause(): void {
    this.#flow?.flow.finish();
    this.#flow = null;
    this.#terminal.clearPassing();
  }

  #say(kind: 'text' | 'reasoning', text: string): void {
    if (this.#flow?.kind !== kind) {
      this.pause();
      const { columns, style } = this.#terminal;
      const write = (piece: string): void =>
        this.#terminal.piece(kind === 'text' || piece === '\n' ? piece : style('dim', piece));
      this.#flow = { kind, flow: new TextFlow(write, columns, INDENT) };
    }
    this.#flow.flow.push(text);
  }

  /** `⚙ add {"text":"milk"} ✓`, or a statement in place of the arguments. */
  #showTool(tool: ToolBlock): void {
    this.pause();
    const style = this.#terminal.noteStyle;
    const given = toolInputText(tool);
    const room = Math.max(16, Math.min(ARGUMENT_CHARS, this.#terminal.columns) - tool.toolName.length - 7);
    const shown = given.length > room ? `${given.slice(0, room - 1)}…` : given;
    const call = `${style('cyan', '⚙')} ${`${tool.toolName} ${style('dim', shown)}`.trimEnd()}`;
    if (tool.ok === null) this.#terminal.passing(`${call} ${style('dim', '…')}`);
    else
      this.#terminal.note(`${call} ${tool.ok ? style('green', '✓') : `${style('red', '✗')} ${tool.errorText ?? ''}`}`);
  }

  /** `✓ shell rm -rf build: Allow, by policy`. */
  #answer({ optionId, ok }: Answer, question: QuestionBlock | null): string {
    const { toolName = 'a question', detail = '', byPolicy = false } = question ?? {};
    const style = this.#terminal.noteStyle;
    const label = (question && chosenLabel(question)) ?? 'refused';
    const unanswered = optionId === null && !byPolicy ? 'no answer, ' : '';
    const what = detail === '' || detail === toolName ? toolName : `${toolName} ${detail}`;
    return `${ok ? style('green', '✓') : style('red', '✗')} ${what}: ${unanswered}${label}${byPolicy ? ', by policy' : ''}`;
  }
}
