/** One turn of an agent as the console shows it: the message, what is known of the turn, and a line of what it is doing. */
import { INSTALL_CLAUDE_CODE, type TurnEvent } from '../../../protocol/agents/agents.ts';
import { type ToolBlock, Turn, type TurnState, toolInputText } from '../../../protocol/agents/turn.ts';
import type { NamedPerson } from '../../../protocol/wire/handler-caller.ts';
import type { AttachedFile, HistoryRow } from './conversations.ts';

/** Of a tool's arguments in its head, and of a value below it. */
const HEAD_CHARS = 120;
const VALUE_CHARS = 20_000;

const WORDS: Record<string, string> = {
  'assistant.start': 'Working …',
  'assistant.delta': 'Writing …',
  'tool.start': 'Working …',
  'tool.result': 'Working …',
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

let count = 0;

export class ShownTurn {
  /** Its own among those of this page. */
  readonly number = ++count;
  readonly message: string;
  readonly attached: readonly AttachedFile[];
  /** Who wrote the message, where that is a person and known. */
  readonly by: NamedPerson | undefined;
  readonly turn = new Turn();
  /** Null until the gateway has taken the message. */
  turnId: string | null;
  /** A line below the turn, of what it is doing or how it ended. */
  status = 'Sending …';
  /** Called when it has changed. */
  onChange: () => void = () => {};

  constructor(
    message: string,
    {
      turnId = null,
      state = 'running',
      attached = [],
      by,
    }: {
      turnId?: string | null;
      state?: TurnState;
      attached?: readonly AttachedFile[];
      by?: NamedPerson | undefined;
    } = {},
  ) {
    this.message = message;
    this.turnId = turnId;
    this.turn.state = state;
    this.attached = attached;
    this.by = by;
  }

  say(text: string): void {
    this.status = text;
    this.onChange();
  }

  /** An event of its stream. */
  show(event: TurnEvent): void {
    this.turn.take(event);
    if (event.type === 'end') {
      this.end();
      return;
    }
    if (event.type === 'phase') this.status = event.detail ? `${event.phase}: ${event.detail}` : `${event.phase} …`;
    else if (event.type === 'permission' && event.optionId === undefined) this.status = 'Waiting for your answer';
    else this.status = WORDS[event.type] ?? this.status;
    this.onChange();
  }

  /** A row of the history. */
  showRow(row: HistoryRow): void {
    const { turn } = this;
    if (row.kind === 'assistant') {
      if (row.reasoning) turn.take({ type: 'reasoning.delta', delta: row.reasoning });
      if (row.text) turn.take({ type: 'assistant.delta', delta: row.text });
    } else if (row.kind === 'tool') {
      const call = { ...row, toolCallId: row.toolCallId ?? `row-${row.seq}` };
      const tool = turn.take({ ...call, type: 'tool.start' }) as ToolBlock;
      tool.asked = row.permission?.detail;
      if (row.ok !== undefined || row.permission) turn.take({ ...call, type: 'tool.result', ok: row.ok === true });
    }
  }

  fail({ code, message }: { code: string; message: string }): void {
    this.turn.take({ type: 'error', code, message });
    this.onChange();
  }

  end(state: TurnState = this.turn.state): void {
    this.turn.end(state);
    const facts = this.turn.facts((tokens) => tokens.toLocaleString());
    this.say([ENDED[this.turn.state], ...facts].filter(Boolean).join(' · '));
  }
}

/** What a tool was given, in a line. */
export const headOf = (tool: ToolBlock): string => short(toolInputText(tool), HEAD_CHARS);

/** What is below it: what it was given, what it was permitted, and what came of it. */
export function detailsOf({ sql, args, ok, asked, result, errorText }: ToolBlock): [title: string, text: string][] {
  const all: [string, unknown][] = [
    [sql ? 'Statement' : 'Arguments', sql ?? args],
    [ok ? 'Allowed' : 'Refused', asked],
    ['Result', result],
    ['Error', errorText],
  ];
  return all
    .filter(([, value]) => value !== undefined && value !== null && value !== '')
    .map(([title, value]) => [
      title,
      short(typeof value === 'string' ? spread(value) : JSON.stringify(value, null, 2), VALUE_CHARS),
    ]);
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
