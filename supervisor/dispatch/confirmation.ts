/** Asks a person before an action runs whose manifest says `confirmation: "required"`, where its caller can ask one. */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { membersOf } from '../../protocol/rules/json-text.ts';
import type { Confirmation, Request, Target } from './request.ts';

/** What to ask before this call runs; null where nothing is. */
export function confirmationOf({ app, kind, tool }: Target, { body, confirm }: Request): Confirmation | null {
  if (confirm === undefined || kind !== 'action' || tool.confirmation !== 'required') return null;
  const input = Buffer.from(membersOf(body, ['input'])?.get('input') ?? '{}').toString();
  const detail = [tool.description, input === '{}' ? '' : input].filter(Boolean).join('\n');
  return { app: app.id, action: tool.name, detail: detail.slice(0, LIMITS.errorMessageChars) };
}

export function notConfirmed({ app, action }: Confirmation, why: 'refused' | 'unanswered'): SvcError {
  const what = why === 'refused' ? 'a person refused it' : 'nobody answered';
  return new SvcError('NOT_CONFIRMED', `"${action}" of "${app}" did not run: it needs a confirmation, and ${what}.`);
}
