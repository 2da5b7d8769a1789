/** Automations: whatever an `automation.json` holds, it is taken and fires, or refused; an edit keeps what it does not change. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { AutomationIssue, AutomationManifest } from '../../../protocol/automations/automation.ts';
import { type AutomationChange, editAutomation } from '../../../protocol/automations/automation-edit.ts';
import { parseCron } from '../../../protocol/automations/cron-expression.ts';
import { CronTimes } from '../../../protocol/automations/cron-times.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { parseAutomation } from '../../../protocol/rules/automation-check.ts';
import { awkwardText, jsonObject, jsonValue, mutated, usually } from '../arbitraries.ts';
import { check, type Target } from '../target.ts';
import words from '../words.json' with { type: 'json' };

/** Far more than any file needs on any machine. */
const CHECK_MS = 5000;
const NOW = Date.UTC(2026, 9, 24, 23, 59, 59);
/** Fires that are looked at of each trigger. */
const FIRES = 4;
const HMAC = { header: 'X-Mac', algorithm: 'sha1', encoding: 'base64' };
const WEBHOOK = { id: 'a'.repeat(24), secretHash: 'b'.repeat(64) };

const times = new CronTimes('UTC');
const number = fc.oneof(fc.nat(70), fc.constantFrom(0, 1, 23, 24, 29, 31, 32, 59, 60, 9999, -1));
const part = fc.oneof(
  number.map(String),
  fc.tuple(number, number).map(([from, to]) => `${from}-${to}`),
  fc.tuple(number, number).map(([from, step]) => `${from}/${step}`),
  fc.nat(70).map((step) => `*/${step}`),
  fc.constantFrom(...words.cronParts),
);
const field = fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => parts.join(','));
const expression = usually(
  fc.array(field, { minLength: 5, maxLength: 6 }).map((fields) => fields.join(' ')),
  fc.oneof(
    fc.constantFrom('@daily', '@reboot', '0 0 30 2 *', '0 0 29 2 *', '0 0 29 2 1#5', '* * * * * * 2026'),
    awkwardText,
  ),
  3,
);
const zone = fc.constantFrom(
  'UTC',
  'Europe/Berlin',
  'america/new_york',
  'Australia/Lord_Howe',
  'Pacific/Apia',
  'Nowhere',
  '+01:00',
);

const flag = fc.constantFrom<unknown>(true, false, 'true', null);
const cron = fc.record(
  { kind: fc.constant('cron'), expr: expression, tz: zone, catchUp: flag },
  { requiredKeys: ['kind', 'expr'] },
);
const webhook = fc.record(
  {
    kind: fc.constant('webhook'),
    pending: flag,
    signing: flag,
    verify: fc.constantFrom<unknown>('github', 'slack', 'x', HMAC, { ...HMAC, prefix: 'v=' }, { header: 'a b' }, null),
    secret: fc.constantFrom<unknown>('KEY', '1', null),
    id: fc.constantFrom(WEBHOOK.id, 'A'.repeat(24), ''),
    secretHash: fc.constantFrom(WEBHOOK.secretHash, 'x'),
    more: jsonValue,
  },
  { requiredKeys: ['kind'] },
);
const pending = fc.constantFrom(
  { kind: 'webhook', pending: true },
  { kind: 'webhook', pending: true, verify: HMAC, secret: 'KEY' },
);
const trigger = fc.oneof(cron, pending, webhook, jsonValue);
const MEMBERS: Record<string, fc.Arbitrary<unknown>> = {
  enabled: flag,
  version: awkwardText,
  description: awkwardText,
  triggers: fc.oneof(fc.array(trigger, { maxLength: 4 }), jsonValue),
  trigger,
  requires: fc.oneof(fc.constantFrom({ tools: ['svc_read'] }, { model: 'svc-mock/x' }, { model: 'a/b' }), jsonValue),
  apps: fc.oneof(fc.array(awkwardText, { maxLength: 3 }), jsonValue),
  costEstimate: jsonValue,
  outputSchema: fc.oneof(fc.constantFrom({ type: 'object' }, { type: 'object', required: ['__proto__'] }), jsonValue),
  onFailure: fc.constantFrom('alarm', 'a/b', '..', 'a/b/c', null),
  history: fc.constantFrom({ keep: 'all' }, { keep: { count: 3 } }, { keep: { days: 0 } }, { keep: [] }, []),
};
const nearly = fc.tuple(fc.record(MEMBERS, { requiredKeys: [] }), jsonObject(jsonValue)).map(([members, more]) => ({
  name: 'N',
  prompt: 'P',
  generated: { by: 'hand', at: '2026-01-31T08:00:00Z' },
  ...more,
  ...members,
}));
const indent = fc.constantFrom(undefined, 1, 2, 8, '\t', 10);
const written = fc
  .tuple(usually(nearly, jsonValue, 3), indent)
  .map(([value, space]) => JSON.stringify(value, null, space));

const SOUND = {
  name: 'Daily',
  prompt: 'Does it.',
  trigger: { kind: 'cron', expr: '0 9 * * MON-FRI', tz: 'Europe/Berlin', catchUp: true, note: 1 },
  enabled: true,
  requires: { tools: ['svc_write'], model: 'a/b' },
  outputSchema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
  onFailure: 'alarm',
  history: { keep: { count: 5 } },
  generated: { by: 'hand', at: '2026-01-31T08:00:00Z' },
  __more: { kept: [1, 2] },
};

const changed = mutated(fc.constant(Buffer.from(JSON.stringify(SOUND, null, 2)))).map((bytes) => bytes.toString());

/** As large as a file may be, or a byte more, in many lines or one. */
const large = fc
  .record({ over: fc.nat(1), space: indent, items: fc.nat(5000), pending: fc.boolean() })
  .map(({ over, space, items, pending }) => {
    const triggers = pending ? [{ kind: 'webhook', pending: true }] : [];
    const value = { ...SOUND, trigger: undefined, triggers, list: new Array(items).fill(1), pad: '' };
    const room = LIMITS.automationBytes - Buffer.byteLength(JSON.stringify(value, null, space));
    return JSON.stringify({ ...value, pad: 'x'.repeat(Math.max(0, room + over)) }, null, space);
  });

/** The manifest that the text holds, which fires; null if the text is refused, with typed issues. */
function taken(text: string): AutomationManifest | null {
  const parsed = parseAutomation(text, { firesAfter: NOW });
  if ('issues' in parsed) {
    assertIssues(parsed.issues);
    return null;
  }
  for (const one of parsed.manifest.triggers) if (one.kind === 'cron') assertFires(one);
  return parsed.manifest;
}

function judge(text: string): void {
  const manifest = taken(text);
  if (manifest === null) return;
  for (const change of [{ enabled: false }, { webhook: WEBHOOK }, { enabled: true, webhook: WEBHOOK }, {}])
    assertEdited(text, manifest, change);
}

function judgeCron([expr, tz]: [string, string]): void {
  const manifest = taken(JSON.stringify({ ...SOUND, trigger: { kind: 'cron', expr, tz } }));
  if (manifest !== null) assert.ok(parseCron(expr), 'what is taken can be read');
}

function assertIssues(issues: AutomationIssue[]): void {
  assert.ok(issues.length > 0, 'refused without an issue');
  for (const { code, path, message } of issues) {
    assert.deepEqual([typeof code, typeof path, typeof message], ['string', 'string', 'string']);
    assert.ok(message.length < 64 * 1024, `a message of ${message.length} characters`);
  }
}

/** What is taken fires: after now, and after each fire once more or not at all. */
function assertFires(time: { expr: string; tz?: string }): void {
  let after = NOW;
  for (let n = 0; n < FIRES; n++) {
    const next = times.next(time, after);
    if (next === null) {
      assert.ok(n > 0, `${JSON.stringify(time)} was taken and never fires`);
      return;
    }
    assert.ok(Number.isFinite(next) && next > after, `${JSON.stringify(time)}: ${next} follows ${after}`);
    after = next;
  }
}

function assertEdited(text: string, before: AutomationManifest, change: AutomationChange): void {
  const edited = editAutomation(text, change);
  const parsed = parseAutomation(edited, { firesAfter: null, maxBytes: LIMITS.automationStoredBytes });
  assert.ok('manifest' in parsed, `what was valid is not after ${JSON.stringify(change)}: ${JSON.stringify(parsed)}`);
  const { manifest } = parsed;
  const wanted = before.triggers.map((one) => {
    if (change.webhook === undefined || !('pending' in one)) return one;
    const { pending: _, ...more } = one;
    return { ...more, ...('verify' in more ? { id: change.webhook.id } : change.webhook) };
  });
  assert.deepEqual(manifest, { ...before, enabled: change.enabled ?? before.enabled, triggers: wanted });
  const [old, now] = [text, edited].map((one) => JSON.parse(one) as Record<string, unknown>);
  const members = (value: object = {}) =>
    Object.entries(value).filter(([name]) => !['enabled', 'trigger', 'triggers'].includes(name));
  assert.deepEqual(members(now), members(old));
  assert.equal(editAutomation(edited, change), edited, 'the same edit again changes something');
}

export const automations: Target = {
  name: 'automations',
  claim: 'An automation is taken, and fires and can be edited, or refused with typed issues, in bounded time.',
  open: () => [
    check('JSON values', 100_000, written, judge, CHECK_MS),
    check('changed text', 100_000, changed, judge, CHECK_MS),
    check('large', 2000, large, judge, CHECK_MS),
    check('cron expressions', 50_000, fc.tuple(expression, zone), judgeCron, CHECK_MS),
  ],
};
