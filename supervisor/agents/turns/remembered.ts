/**
 * What an agent without a session of its own remembers of a conversation: the messages and answers, and the tools that it called
 * for them, which are read from the stored events.
 */
import type { TurnOrder } from '../../../protocol/agents/agents.ts';
import type { OpenConversation, StoredTurn } from '../../../protocol/agents/stored-turns.ts';
import { LIMITS } from '../../../protocol/limits.ts';

type Remembered = TurnOrder['history'];
type Called = NonNullable<Remembered[number]['tools']>;

const CUT = '… [cut]';

/** Oldest first. Of the latest turns with their tools, as far as these fit into `LIMITS.chatHistoryToolChars`. */
export async function remembered(conversation: OpenConversation): Promise<Remembered> {
  const { texts } = conversation;
  const turnIds = [...new Set(texts.map(({ turnId }) => turnId))];
  const tools = new Map<string, Called>();
  let left: number = LIMITS.chatHistoryToolChars;
  for (const turnId of turnIds.slice(-LIMITS.chatHistoryToolTurns).reverse()) {
    const turn = conversation.turns.find((one) => one.turnId === turnId);
    const called = turn === undefined ? [] : await toolsOf(conversation, turn);
    left -= JSON.stringify(called).length;
    if (left < 0) break;
    tools.set(turnId, called);
  }
  return turnIds.flatMap((turnId) => {
    const own = texts.filter((one) => one.turnId === turnId).map(({ role, text }) => ({ role, text }));
    const called = tools.get(turnId) ?? [];
    if (called.length === 0) return own;
    const answer = own.find(({ role }) => role === 'assistant') ?? { role: 'assistant', text: '' };
    return [...own.filter(({ role }) => role === 'user'), { ...answer, tools: called }];
  });
}

async function toolsOf(conversation: OpenConversation, turn: StoredTurn): Promise<Called> {
  const called = new Map<string, Called[number]>();
  for await (const { event } of conversation.events(turn, 0)) {
    if (event.type === 'tool.start') {
      const { toolCallId, toolName, args } = event;
      called.set(toolCallId, { toolName, args: shortArgs(args), ok: false, result: '' });
    } else if (event.type === 'tool.result') {
      const tool = called.get(event.toolCallId);
      if (tool) Object.assign(tool, { ok: event.ok, result: short(event.ok ? event.result : event.errorText) });
    }
  }
  return [...called.values()];
}

/** As text: models take results so. */
function short(value: unknown): string {
  const text = value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value);
  const most = LIMITS.chatHistoryToolResultChars;
  return text.length <= most ? text : text.slice(0, most) + CUT;
}

/** An object, as the arguments of a tool are; of long ones the beginning as text. */
function shortArgs(args: unknown): Record<string, unknown> {
  if (typeof args !== 'object' || args === null || Array.isArray(args)) return {};
  const text = JSON.stringify(args);
  return text.length <= LIMITS.chatHistoryToolResultChars ? (args as Record<string, unknown>) : { cut: short(text) };
}
