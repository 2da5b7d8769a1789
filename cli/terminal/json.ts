/** JSON for a reader, line by line: indented, with colours. */
import type { Style } from './style.ts';

// A string followed by a colon is a member's name.
const TOKENS = /("(?:\\.|[^"\\])*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

export function drawJson(value: unknown, style: Style): string[] {
  const text = JSON.stringify(value ?? null, null, 2);
  const drawn = text.replace(TOKENS, (token, string?: string, colon?: string) => {
    if (string === undefined) return style(/^[tfn]/.test(token) ? 'magenta' : 'yellow', token);
    return colon === undefined ? style('green', string) : style('cyan', string) + colon;
  });
  return drawn.split('\n');
}
