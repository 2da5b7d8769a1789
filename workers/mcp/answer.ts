/** What a tool's result means to the one who called it, as JSON text. Pure. */
import type { CallToolResult } from '@modelcontextprotocol/client';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';

/** A call that an MCP server did not do as asked. `message` is for the automation's author; it holds no path of ours. */
export function failure(message: string): SvcError {
  const text = message.length > LIMITS.errorMessageChars ? `${message.slice(0, LIMITS.errorMessageChars)}…` : message;
  return new SvcError('TOOL_SERVER_FAILED', text);
}

/**
 * JSON text of the structured result where there is one; else of the one text part, read as JSON where it is JSON; else of
 * all parts. Throws `TOOL_SERVER_FAILED` for a result that reports an error, with its text, and for one over `maxBytes`.
 */
export function answerOf(name: string, result: CallToolResult, maxBytes: number): Buffer {
  if (result.isError) throw failure(`${name} failed: ${textOf(result) || 'it gives no reason'}`);
  const body = Buffer.from(jsonOf(result));
  if (body.length > maxBytes)
    throw failure(`${name} answered ${body.length} bytes; at most ${maxBytes} are taken. Ask it for less.`);
  return body;
}

function jsonOf({ structuredContent, content }: CallToolResult): string {
  if (structuredContent !== undefined) return JSON.stringify(structuredContent);
  const [part] = content;
  if (content.length !== 1 || part?.type !== 'text') return JSON.stringify(content);
  return isJson(part.text) ? part.text : JSON.stringify(part.text);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function textOf({ content }: CallToolResult): string {
  return content
    .flatMap((part) => (part.type === 'text' ? [part.text] : []))
    .join('\n')
    .trim();
}
