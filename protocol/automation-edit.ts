/** Changes the text of an `automation.json` as we may, leaving everything else as its author wrote it. Pure. */

import { LIMITS } from './limits.ts';
import { isObject, type JsonObject } from './rules/automation-fields.ts';

/** `webhook` is the address that its pending webhook gets; with `renew`, also one that has an address, in its place. */
export type AutomationChange = { enabled?: boolean; webhook?: { id: string; secretHash: string }; renew?: boolean };

/**
 * The text after the change. Members that we do not know stay, in their order; the legacy `trigger` becomes `triggers`.
 * Indentation stays unless that would make the text too large. `text` must have been found valid.
 */
export function editAutomation(text: string, { enabled, webhook, renew = false }: AutomationChange): string {
  const file = JSON.parse(text) as JsonObject;
  const entries = Object.entries(file).map(([name, value]): [string, unknown] =>
    name === 'trigger' ? ['triggers', [value]] : [name, value],
  );
  // Entries, and not assignments: a member may be called `__proto__`.
  const edited = Object.fromEntries(entries);
  if (enabled !== undefined) edited.enabled = enabled;
  if (webhook !== undefined && Array.isArray(edited.triggers)) {
    const asked: unknown[] = renew ? edited.triggers.map(pendingAgain) : edited.triggers;
    edited.triggers = asked.map((trigger) => provisioned(trigger, webhook));
  }
  const end = text.endsWith('\n') ? '\n' : '';
  const indented = JSON.stringify(edited, null, indentOf(text)) + end;
  return Buffer.byteLength(indented) <= LIMITS.automationBytes ? indented : JSON.stringify(edited) + end;
}

/** A pending webhook with its address in the place where it was asked for; other triggers as they are. */
function provisioned(trigger: unknown, { id, secretHash }: { id: string; secretHash: string }): unknown {
  if (!isObject(trigger) || trigger.kind !== 'webhook' || trigger.pending !== true) return trigger;
  return Object.fromEntries(
    Object.entries(trigger).flatMap(([name, value]): [string, unknown][] =>
      name === 'pending'
        ? [
            ['id', id],
            ['secretHash', secretHash],
          ]
        : [[name, value]],
    ),
  );
}

/** A webhook as it was before it got its address; other triggers as they are. */
function pendingAgain(trigger: unknown): unknown {
  if (!isObject(trigger) || trigger.kind !== 'webhook' || !('id' in trigger)) return trigger;
  return Object.fromEntries(
    Object.entries(trigger).flatMap(([name, value]): [string, unknown][] => {
      if (name === 'secretHash') return [];
      return name === 'id' ? [['pending', true]] : [[name, value]];
    }),
  );
}

function indentOf(text: string): string {
  return /^\s*\{\r?\n([ \t]{1,8})\S/.exec(text)?.[1] ?? '';
}
