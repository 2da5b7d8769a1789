/** The calls that this browser session made from the console, newest first, without their results. */
import type { Kind, ToolCall } from './tool-call.ts';

export type Past = ToolCall & { at: number; status: number; ms: number };

const KEY = 'svc-console:calls';
const KEPT = 50;
const INPUT_CHARS = 16 * 1024;

export function readHistory(app: string): Past[] {
  return readAll().filter((past) => past.app === app);
}

/** An input that is larger than what is worth keeping is left out of the history, with its call. */
export function remember(past: Past): void {
  if (JSON.stringify(past.input ?? null).length > INPUT_CHARS) return;
  try {
    sessionStorage.setItem(KEY, JSON.stringify([past, ...readAll()].slice(0, KEPT)));
  } catch {
    // A browser that stores nothing has no history.
  }
}

function readAll(): Past[] {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? '[]') as Past[];
  } catch {
    return [];
  }
}

export const toolAddress = (kind: Kind, tool: string): Record<string, string> => ({ [kind]: tool });
