/** The script of a stub model: parses the steps in a user's text, and finds the position of a conversation in them. */

export type Step =
  | { do: 'say'; words: string[]; msBetween: number }
  | { do: 'think'; words: string[] }
  | { do: 'call'; tool: string; args: unknown }
  | { do: 'report' }
  | { do: 'then' }
  | { do: 'wait'; name: string }
  | { do: 'status'; status: number; times: number }
  | { do: 'usage'; input: number; output: number; cached: number }
  | { do: 'hang' }
  | { do: 'cut'; times: number }
  | { do: 'garbage' };

/** The steps of `text`; a text without steps is repeated. */
export function readScript(text: string): Step[] {
  const steps = text.split('\n').flatMap((line) => readStep(line.trim()) ?? []);
  return steps.length > 0 ? steps : [{ do: 'say', words: wordsOf(`You said: ${text}`), msBetween: 0 }];
}

/**
 * The remaining steps when `results` tools have answered since the user's message: those after that many calls, up to
 * and including the next group of calls. If nothing follows the last calls, their results are reported.
 */
export function stepsAfter(steps: Step[], results: number): { steps: Step[]; reported: number } {
  let calls = 0;
  const start = results === 0 ? 0 : steps.findIndex((step) => step.do === 'call' && ++calls === results) + 1;
  const rest = steps.slice(start);
  const firstCall = rest.findIndex((step) => step.do === 'call');
  const afterCalls = rest.findIndex((step, i) => firstCall >= 0 && i > firstCall && step.do !== 'call');
  const now = afterCalls < 0 ? rest : rest.slice(0, afterCalls);
  return {
    steps: now.length === 0 && results > 0 ? [{ do: 'report' }] : now,
    reported: callsBefore(steps, start),
  };
}

/** The number of consecutive calls right before `position`. */
function callsBefore(steps: Step[], position: number): number {
  const before = steps.slice(0, position).reverse();
  const end = before.findIndex((step) => step.do !== 'call');
  return end < 0 ? before.length : end;
}

function readStep(line: string): Step | null {
  const [, name = '', rest = ''] = /^([a-z]+)(?::\s*(.*))?$/.exec(line) ?? [];
  const numbers = rest.split(/\s+/).map(Number);
  const [first = 0, second = 0, third = 0] = numbers;
  switch (name) {
    case 'say':
      return { do: 'say', words: wordsOf(rest), msBetween: 0 };
    case 'slow':
      return { do: 'say', words: wordsOf(rest.replace(/^\S+\s*/, '')), msBetween: first };
    case 'repeat':
      return { do: 'say', words: Array<string>(first).fill(rest.replace(/^\S+\s*/, '')), msBetween: 0 };
    case 'think':
      return { do: 'think', words: wordsOf(rest) };
    case 'call': {
      const [, tool = '', args = ''] = /^(\S+)\s*(.*)$/.exec(rest) ?? [];
      return { do: 'call', tool, args: args === '' ? {} : JSON.parse(args) };
    }
    case 'status':
      return { do: 'status', status: first, times: second || Number.POSITIVE_INFINITY };
    case 'usage':
      return { do: 'usage', input: first, output: second, cached: third };
    case 'cut':
      return { do: 'cut', times: first || Number.POSITIVE_INFINITY };
    case 'wait':
      return { do: 'wait', name: rest };
    case 'report':
    case 'then':
    case 'hang':
    case 'garbage':
      return { do: name };
    default:
      return null;
  }
}

/** Words with the space before them, so that joined they are the text; `\n` is a new line. */
function wordsOf(text: string): string[] {
  return text.replaceAll('\\n', '\n').match(/\s*\S+/g) ?? [];
}
