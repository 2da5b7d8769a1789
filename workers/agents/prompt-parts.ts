/** Prepares what goes with a message to an agent: earlier messages and attached files. */
import { readFile, stat } from 'node:fs/promises';
import type { TurnAttachment, TurnOrder } from '../../protocol/agents/agents.ts';
import { LIMITS } from '../../protocol/limits.ts';

/** The latest earlier messages that fit; oldest first. */
export function recentHistory(history: TurnOrder['history']): TurnOrder['history'] {
  let bytes = 0;
  const first = history.findLastIndex(({ text, tools }) => {
    bytes += Buffer.byteLength(text) + (tools === undefined ? 0 : Buffer.byteLength(JSON.stringify(tools)));
    return bytes > LIMITS.agentHistoryBytes;
  });
  return history.slice(first + 1);
}

/** The same as one text, for agents that take it as part of a prompt; empty when there are none. */
export function historyText(history: TurnOrder['history']): string {
  if (history.length === 0) return '';
  const said = recentHistory(history).map(({ role, text, tools = [] }) => {
    const calls = tools.map(
      ({ toolName, args, result }) =>
        `<call of=${JSON.stringify(toolName)}>\n${JSON.stringify(args)}\n${result}\n</call>\n`,
    );
    return `<${role}>\n${calls.join('')}${text}\n</${role}>`;
  });
  return `This conversation began before you joined it. What was said so far:\n\n${said.join('\n')}`;
}

export type PromptFile =
  | { kind: 'text'; name: string; type: string; text: string }
  | { kind: 'binary'; name: string; type: string; bytes: Buffer }
  /** Why it is not handed over, for people. */
  | { kind: 'left'; name: string; why: string };

/** Types that are text although their names do not say so. */
const TEXT_TYPES = /^(?:text\/|application\/(?:json|xml|javascript|sql|x-ndjson|yaml)\b)|[+](?:json|xml)$/;

/** Reads a file attached to a message. Never rejects: leaves out an unreadable one. */
export async function promptFile({ name, type, path }: TurnAttachment): Promise<PromptFile> {
  try {
    const { size } = await stat(path);
    if (size > LIMITS.agentAttachmentBytes)
      return { kind: 'left', name, why: `it has more than ${LIMITS.agentAttachmentBytes} bytes` };
    const bytes = await readFile(path);
    if (!TEXT_TYPES.test(type)) return { kind: 'binary', name, type, bytes };
    return { kind: 'text', name, type, text: bytes.toString() };
  } catch (error) {
    return { kind: 'left', name, why: `it cannot be read (${(error as NodeJS.ErrnoException).code ?? 'no reason'})` };
  }
}

/** A file as text in a prompt. */
export function fileText(name: string, text: string): string {
  return `<file name=${JSON.stringify(name)}>\n${text}\n</file>`;
}
