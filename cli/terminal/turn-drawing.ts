/** Draws one turn of an agent as its events come: its text to stdout, everything else to stderr. */
import type { TurnEvent } from '../../protocol/agents/agents.ts';
import { TurnCost } from '../../protocol/agents/turn-cost.ts';
import type { Terminal } from './terminal.ts';
import { TextFlow } from './text-flow.ts';
import { formatCount, formatDuration } from './units.ts';

/** The `file` event of a turn. */
type ChangedFile = { path: string; status: string };
type ToolStart = Extract<TurnEvent, { type: 'tool.start' }>;
type Question = Extract<TurnEvent, { type: 'permission' }>;
type Answer = Extract<TurnEvent, { type: 'permission.result' }>;

/** An agent's lines begin further in than ours, so that none of its text can pass for one of them. */
const INDENT = '  ';
const ARGUMENT_CHARS = 200;

export class TurnDrawing {
  /** Files that the turn changed in the draft, each once, by path. */
  readonly files = new Map<string, ChangedFile>();
  /** The turn ended with an error, or was stopped. */
  failed = false;
  readonly #terminal: Terminal;
  readonly #startedAt = Date.now();
  readonly #tools = new Map<string, ToolStart>();
  readonly #questions = new Map<string, Question>();
  readonly #cost = new TurnCost();
  #flow: { kind: 'text' | 'reasoning'; flow: TextFlow } | null = null;
  /** Text came after the last tool. */
  #hasText = false;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** Everything but the question of a `permission`, and `webhooks`. */
  show(event: TurnEvent): void {
    const terminal = this.#terminal;
    const style = terminal.noteStyle;
    this.#cost.take(event);
    switch (event.type) {
      case 'assistant.start':
        terminal.passing(style('dim', `${event.runner} …`));
        return;
      case 'assistant.delta':
        if (event.delta !== '') this.#hasText = true;
        this.#say('text', event.delta);
        return;
      case 'reasoning.delta':
        // Only for people: a program that reads a pipe wants the answer.
        if (terminal.interactive) this.#say('reasoning', event.delta);
        return;
      case 'tool.start':
        this.pause();
        this.#hasText = false;
        this.#tools.set(event.toolCallId, event);
        terminal.passing(`${style('cyan', '⚙')} ${this.#tool(event)} ${style('dim', '…')}`);
        return;
      case 'tool.result': {
        this.pause();
        const start = this.#tools.get(event.toolCallId) ?? event;
        const sign = event.ok ? style('green', '✓') : `${style('red', '✗')} ${event.errorText ?? ''}`;
        terminal.note(`${style('cyan', '⚙')} ${this.#tool(start)} ${sign}`);
        return;
      }
      case 'permission':
        this.#questions.set(event.requestId, event);
        return;
      case 'permission.result':
        this.pause();
        terminal.note(this.#answer(event));
        return;
      case 'phase':
        this.pause();
        terminal.hint(`· ${event.phase}${event.detail ? `: ${event.detail}` : ''}`);
        return;
      case 'final':
        if (!this.#hasText) this.#say('text', event.text);
        this.pause();
        return;
      case 'file':
        this.files.set(event.path, event);
        return;
      case 'aborted':
        this.pause();
        this.failed = true;
        terminal.note(`${style('yellow', '■')} stopped`);
        return;
      case 'error':
        this.pause();
        this.failed = true;
        return;
      case 'end':
        this.pause();
        // `codex · gpt-5 · 1,204 tokens in, 88 out · $0.01 · 3 s`.
        terminal.hint([...this.#cost.facts(formatCount), formatDuration(Date.now() - this.#startedAt)].join(' · '));
        return;
      default:
        return;
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

  /** `add {"text":"milk"}`, or a statement in place of the arguments. */
  #tool({ toolName, args, sql }: { toolName: string; args?: unknown; sql?: string }): string {
    const given = sql ?? (args === undefined ? '' : JSON.stringify(args));
    const room = Math.max(16, Math.min(ARGUMENT_CHARS, this.#terminal.columns) - toolName.length - 7);
    const shown = given.length > room ? `${given.slice(0, room - 1)}…` : given;
    return `${toolName} ${this.#terminal.noteStyle('dim', shown)}`.trimEnd();
  }

  /** `✓ shell rm -rf build: Allow, by policy`. */
  #answer({ requestId, optionId, ok }: Answer): string {
    const question = this.#questions.get(requestId);
    const { toolName = 'a question', detail = '', options = [] } = question ?? {};
    const style = this.#terminal.noteStyle;
    const label = options.find((option) => option.optionId === optionId)?.label ?? 'refused';
    const policy = question?.optionId === undefined ? '' : ', by policy';
    const unanswered = optionId === null && policy === '' ? 'no answer, ' : '';
    const what = detail === '' || detail === toolName ? toolName : `${toolName} ${detail}`;
    return `${ok ? style('green', '✓') : style('red', '✗')} ${what}: ${unanswered}${label}${policy}`;
  }
}
