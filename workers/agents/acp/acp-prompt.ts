/** Makes the prompt of a turn for the Agent Client Protocol, within the agent's capabilities. */
import type { ContentBlock } from '@agentclientprotocol/sdk';
import type { TurnOrder } from '../../../protocol/agents/agents.ts';
import { fileText, historyText, type PromptFile, promptFile } from '../prompt-parts.ts';
import { at } from './acp-updates.ts';

/** Whether the agent supports a way to reach the app's tools. */
export function takesTools(capabilities: unknown): boolean {
  return at(capabilities, 'mcpCapabilities', 'http') === true;
}

/**
 * The blocks of a prompt; the message comes last, because some agents judge the request by it. `isFirst`: the agent has not got
 * the grounding and history yet. `say` reports files that it does not get.
 */
export async function promptBlocks(
  { instructions, history, attachments, notice, message }: TurnOrder,
  isFirst: boolean,
  capabilities: unknown,
  say: (phase: string, detail: string) => void,
): Promise<ContentBlock[]> {
  const texts = isFirst ? [instructions, historyText(history)].filter((text) => text !== '') : [];
  const files: ContentBlock[] = [];
  for (const attachment of attachments) {
    const file = await promptFile(attachment);
    const block = fileBlock(file, capabilities);
    if (block) files.push(block);
    else {
      const why = file.kind === 'left' ? file.why : `it takes no files of type ${attachment.type}`;
      say('attachment', `The agent does not get ${attachment.name}: ${why}.`);
    }
  }
  const notices = notice === undefined ? [] : [textBlock(notice)];
  return [...texts.map(textBlock), ...files, ...notices, textBlock(message)];
}

function fileBlock(file: PromptFile, capabilities: unknown): ContentBlock | null {
  const takes = (what: string) => at(capabilities, 'promptCapabilities', what) === true;
  if (file.kind === 'text') {
    const { name, type, text } = file;
    if (!takes('embeddedContext')) return textBlock(fileText(name, text));
    return { type: 'resource', resource: { uri: `attachment:${encodeURIComponent(name)}`, mimeType: type, text } };
  }
  if (file.kind === 'binary' && file.type.startsWith('image/') && takes('image'))
    return { type: 'image', mimeType: file.type, data: file.bytes.toString('base64') };
  return null;
}

function textBlock(text: string): ContentBlock {
  return { type: 'text', text };
}
