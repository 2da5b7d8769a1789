/** Asks a person before an action runs whose manifest says `confirmation: "required"`, where its caller can ask one. */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { membersOf } from '../../protocol/rules/json-text.ts';
import type { Confirmation, Request, Target } from './request.ts';

/** Room for the words about what was cut. */
const CUT_CHARS = 60;

/** What to ask before this call runs; null where nothing is. */
export function confirmationOf({ app, kind, tool }: Target, { body, confirm }: Request): Confirmation | null {
  if (confirm === undefined || kind !== 'action' || tool.confirmation !== 'required') return null;
  const input = shownInput(Buffer.from(membersOf(body, ['input'])?.get('input') ?? '{}').toString());
  const detail = [tool.description, input === '{}' ? '' : input].filter(Boolean).join('\n');
  return { app: app.id, action: tool.name, detail: shortened(detail) };
}

/** The input as the action gets it: without the spaces and repeated members behind which a text can hide the rest. */
function shownInput(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json));
  } catch {
    // It is refused before it runs.
    return json;
  }
}

/** With what was left out, from the middle. */
function shortened(text: string): string {
  const kept = Math.floor((LIMITS.errorMessageChars - CUT_CHARS) / 2);
  if (text.length <= LIMITS.errorMessageChars) return text;
  return `${text.slice(0, kept)} … ${text.length - 2 * kept} more characters … ${text.slice(-kept)}`;
}

export function notConfirmed({ app, action }: Confirmation, why: 'refused' | 'unanswered'): SvcError {
  const what = why === 'refused' ? 'a person refused it' : 'nobody answered';
  return new SvcError('NOT_CONFIRMED', `"${action}" of "${app}" did not run: it needs a confirmation, and ${what}.`);
}
