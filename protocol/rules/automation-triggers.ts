/** Checks the triggers of an automation (specification, "Trigger forms"; decisions, section 6). Pure but for the time zones. */
import { type AutomationIssue, type Trigger, WEBHOOK_ID } from '../automation.ts';
import { LIMITS } from '../limits.ts';
import { Fields, isObject } from './automation-fields.ts';
import { canonicalZone, checkExpression } from './cron-expression.ts';

const SECRET_HASH = /^[0-9a-f]{64}$/;

/**
 * The triggers of a file, which the legacy form has one of. `firesAfter` is the time, in milliseconds since the epoch, after which
 * every cron expression must fire once more; null leaves that out, which may take 100 ms for one of them.
 */
export function checkTriggers(file: Fields, issues: AutomationIssue[], firesAfter: number | null): Trigger[] {
  const list = file.value('triggers');
  const single = file.value('trigger');
  if (list === undefined && single === undefined) return [];
  if (list !== undefined && single !== undefined) {
    file.report(
      'invalid_trigger',
      'trigger',
      'is the old form of "triggers" and cannot stand beside it; move it there',
    );
  }
  const name = list === undefined ? 'trigger' : 'triggers';
  const values = list === undefined ? [single] : list;
  if (!Array.isArray(values)) {
    file.report('invalid_field', name, 'must be an array');
    return [];
  }
  if (values.length > LIMITS.automationTriggers) {
    file.report('invalid_field', name, `may have ${LIMITS.automationTriggers} members`);
    return [];
  }
  const pathOf = (i: number) => (list === undefined ? 'trigger' : `triggers[${i}]`);
  const triggers: Trigger[] = [];
  for (const [i, value] of values.entries()) {
    if (!isObject(value)) {
      file.report('invalid_trigger', pathOf(i), 'must be an object');
      continue;
    }
    const trigger = checkTrigger(new Fields(value, pathOf(i), issues), firesAfter);
    if (trigger?.kind === 'webhook' && triggers.some(({ kind }) => kind === 'webhook')) {
      file.report('invalid_trigger', pathOf(i), 'is a second webhook; an automation has at most one');
    } else if (trigger !== null) triggers.push(trigger);
  }
  return triggers;
}

function checkTrigger(fields: Fields, firesAfter: number | null): Trigger | null {
  const kind = fields.value('kind');
  if (kind === 'cron') return checkCron(fields, firesAfter);
  if (kind === 'webhook') return checkWebhook(fields);
  fields.report('invalid_trigger', 'kind', 'must be "cron" or "webhook"');
  return null;
}

function checkCron(fields: Fields, firesAfter: number | null): Trigger | null {
  const expr = fields.value('expr');
  const tz = fields.text('tz');
  const catchUp = fields.boolean('catchUp');
  if (typeof expr !== 'string') {
    fields.report('invalid_trigger', 'expr', 'must be a cron expression');
    return null;
  }
  try {
    checkExpression(expr, firesAfter);
  } catch (error) {
    fields.report('invalid_trigger', 'expr', (error as Error).message);
    return null;
  }
  try {
    if (tz !== undefined) canonicalZone(tz);
  } catch (error) {
    fields.report('invalid_trigger', 'tz', (error as Error).message);
    return null;
  }
  return { kind: 'cron', expr, ...(tz === undefined ? {} : { tz }), ...(catchUp === undefined ? {} : { catchUp }) };
}

function checkWebhook(fields: Fields): Trigger | null {
  const pending = fields.boolean('pending');
  const signing = fields.boolean('signing');
  const id = fields.value('id');
  const secretHash = fields.value('secretHash');
  const more = signing === undefined ? {} : { signing };
  if (pending === true) {
    if (id === undefined && secretHash === undefined) return { kind: 'webhook', pending, ...more };
    fields.report('invalid_trigger', 'pending', 'asks for a new address beside one that is there; remove one of them');
    return null;
  }
  if (id === undefined && secretHash === undefined) {
    fields.report('invalid_trigger', 'pending', 'must be true as long as the webhook has no address');
    return null;
  }
  const isId = typeof id === 'string' && WEBHOOK_ID.test(id);
  const isHash = typeof secretHash === 'string' && SECRET_HASH.test(secretHash);
  if (!isId) fields.report('invalid_trigger', 'id', 'must be 24 hexadecimal digits, in lower case');
  if (!isHash) fields.report('invalid_trigger', 'secretHash', 'must be a SHA-256 in hexadecimal digits, in lower case');
  return isId && isHash ? { kind: 'webhook', id, secretHash, ...more } : null;
}
