/** What is known of one turn of an agent: the message, and what the agent said, thought, did and asked, in order. */
import { INSTALL_CLAUDE_CODE, type PermissionOption, type TurnEvent } from '../../../protocol/agents/agents.ts';
import { TurnCost } from '../../../protocol/agents/turn-cost.ts';
import type { AttachedFile, HistoryRow, ToolCall, TurnState } from './conversations.ts';

/** Of a tool's arguments in its head, and of a value below it. */
const HEAD_CHARS = 120;
const VALUE_CHARS = 20_000;

const WORDS: Record<string, string> = {
  'assistant.start': 'Working …',
  'tool.start': 'Working …',
  'reasoning.delta': 'Thinking …',
  aborted: 'Stopped',
};

const ENDED: Partial<Record<TurnState, string>> = {
  aborted: 'Stopped',
  interrupted: 'The gateway stopped in the middle of this turn',
  error: 'Failed',
};

/** What to do about an error, beside what it says. */
export const ADVICE: Record<string, string> = {
  NO_RUNNER: `On the gateway’s machine, install Codex (npm install -g @openai/codex, then codex login) or Claude Code (${INSTALL_CLAUDE_CODE}, then claude and /login), or name another agent or a model server as “runners” in the configuration.`,
  AGENT_FAILED: 'Send the message again. If it fails again, run “svc agents” to see what is wrong with the agent.',
  MODE_UNAVAILABLE:
    'A conversation keeps its mode: begin a new one for another mode. Editing code needs the git store.',
  OVERLOADED: 'Wait until one of the turns has ended, or stop one.',
  MERGE_CONFLICT: 'Somebody else published changes to these lines. Merge them in the Code view, or ask the agent to.',
};

export type ToolBlock = {
  kind: 'tool';
  name: string;
  /** Its arguments in a line. */
  given: string;
  ok: boolean | null;
  details: [title: string, text: string][];
};
export type QuestionBlock = {
  kind: 'question';
  requestId: string;
  told: string;
  options: PermissionOption[];
  /** The label of what was chosen; null while nothing was. */
  chosen: string | null;
};
type Block =
  | { kind: 'text'; text: string }
  | { kind: 'thought'; text: string }
  | ToolBlock
  | QuestionBlock
  | { kind: 'error'; text: string; advice: string | undefined };

let count = 0;

export class Turn {
  /** Its own among those of this page. */
  readonly number = ++count;
  readonly message: string;
  readonly files: readonly AttachedFile[];
  readonly blocks: Block[] = [];
  /** Null until the gateway has taken the message. */
  turnId: string | null;
  state: TurnState;
  /** A line below the turn, of what it is doing or how it ended. */
  status = 'Sending …';
  /** Called when it has changed. */
  onChange: () => void = () => {};
  readonly #tools = new Map<string, ToolBlock>();
  readonly #cost = new TurnCost();
  /** Its answer is tried again. */
  #isVoid = false;

  constructor(
    message: string,
    {
      turnId = null,
      state = 'running',
      files = [],
    }: { turnId?: string | null; state?: TurnState; files?: readonly AttachedFile[] } = {},
  ) {
    this.message = message;
    this.turnId = turnId;
    this.state = state;
    this.files = files;
  }

  say(text: string): void {
    this.status = text;
    this.onChange();
  }

  /** An event of its stream. */
  show(event: TurnEvent): void {
    const words = WORDS[event.type];
    if (words !== undefined) this.status = words;
    this.#cost.take(event);
    this.#take(event);
    this.onChange();
  }

  #take(event: TurnEvent): void {
    switch (event.type) {
      case 'assistant.delta':
        this.status = 'Writing …';
        this.#append('text', event.delta);
        break;
      case 'reasoning.delta':
        this.#append('thought', event.delta);
        break;
      case 'final':
        if (this.#isVoid || this.blocks.at(-1)?.kind !== 'text') this.#append('text', event.text);
        break;
      case 'tool.start':
        this.#tool(event);
        break;
      case 'tool.result':
        this.#endTool(this.#tool(event), event);
        this.status = 'Working …';
        break;
      case 'permission':
        this.#ask(event);
        break;
      case 'permission.result':
        this.#answered(event.requestId, event.optionId);
        break;
      case 'phase':
        this.#isVoid ||= event.phase === 'retrying';
        this.status = event.detail ? `${event.phase}: ${event.detail}` : `${event.phase} …`;
        break;
      case 'error':
        this.fail(event);
        break;
      case 'aborted':
        this.state = 'aborted';
        break;
      case 'end':
        this.end();
        break;
    }
  }

  /** A row of the history. */
  showRow(row: HistoryRow): void {
    if (row.kind === 'assistant') {
      if (row.reasoning) this.#append('thought', row.reasoning);
      if (row.text) this.#append('text', row.text);
    } else if (row.kind === 'tool') {
      const tool = this.#tool({ toolName: '', ...row, toolCallId: row.toolCallId ?? `row-${row.seq}` });
      if (row.ok !== undefined || row.permission) this.#endTool(tool, { ...row, ok: row.ok === true }, row.permission);
    }
  }

  fail({ code, message }: { code: string; message: string }): void {
    this.state = 'error';
    this.blocks.push({ kind: 'error', text: `${code}: ${message}`, advice: ADVICE[code] });
    this.onChange();
  }

  end(state: TurnState = this.state): void {
    this.state = state === 'running' ? 'ok' : state;
    for (const block of this.blocks) if (block.kind === 'question') this.#answered(block.requestId, null);
    const facts = this.#cost.facts((tokens) => tokens.toLocaleString());
    this.say([ENDED[this.state], ...facts].filter(Boolean).join(' · '));
  }

  #append(kind: 'text' | 'thought', text: string): void {
    this.#dropVoid();
    const last = this.blocks.at(-1);
    if (last?.kind === kind) last.text += text;
    else this.blocks.push({ kind, text });
  }

  /** The answer begins anew: what was said of it is not shown beside. */
  #dropVoid(): void {
    if (!this.#isVoid) return;
    this.#isVoid = false;
    const isSaid = (kind: string | undefined) => kind === 'text' || kind === 'thought';
    while (isSaid(this.blocks.at(-1)?.kind)) this.blocks.pop();
  }

  /** Some agents use an id again: it is another call once the first has its result. */
  #tool({ toolCallId, toolName, args, sql }: Pick<ToolCall, 'toolCallId' | 'toolName'> & Partial<ToolCall>): ToolBlock {
    const known = this.#tools.get(toolCallId);
    if (known) return known;
    this.#dropVoid();
    const given = sql ?? (args === undefined ? '' : JSON.stringify(args));
    const tool: ToolBlock = { kind: 'tool', name: toolName, given: short(given, HEAD_CHARS), ok: null, details: [] };
    addDetail(tool, sql ? 'Statement' : 'Arguments', sql ?? args);
    this.blocks.push(tool);
    this.#tools.set(toolCallId, tool);
    return tool;
  }

  #endTool(tool: ToolBlock, { ok, result, errorText }: Partial<ToolCall>, permission?: { detail: string }): void {
    for (const [id, other] of this.#tools) if (other === tool) this.#tools.delete(id);
    tool.ok = ok === true;
    if (permission) addDetail(tool, ok ? 'Allowed' : 'Refused', permission.detail);
    addDetail(tool, 'Result', result);
    addDetail(tool, 'Error', errorText);
  }

  /** With `optionId` the policy of the runner has answered already. */
  #ask({ requestId, toolName, detail, options, optionId }: Extract<TurnEvent, { type: 'permission' }>): void {
    const told = detail === toolName ? toolName : `${toolName}\n${detail}`;
    this.blocks.push({ kind: 'question', requestId, told, options, chosen: null });
    if (optionId === undefined) this.status = 'Waiting for your answer';
    else this.#answered(requestId, optionId);
  }

  #answered(requestId: string, optionId: string | null): void {
    for (const block of this.blocks) {
      if (block.kind !== 'question' || block.requestId !== requestId || block.chosen !== null) continue;
      block.chosen = block.options.find((option) => option.optionId === optionId)?.label ?? 'No answer: refused';
    }
  }
}

function addDetail(tool: ToolBlock, title: string, value: unknown): void {
  if (value === undefined || value === null || value === '') return;
  const text = typeof value === 'string' ? spread(value) : JSON.stringify(value, null, 2);
  tool.details.push([title, short(text, VALUE_CHARS)]);
}

/** JSON over several lines; any other text as it is. */
function spread(text: string): string {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function short(text: string, chars: number): string {
  return text.length > chars ? `${text.slice(0, chars - 1)}…` : text;
}
