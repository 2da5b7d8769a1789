/** The route of the audit log: who did what to the gateway (specification, "Audit log"). */
import { AUDIT_ACTIONS, type AuditAction } from '../../audit.ts';
import { LIMITS } from '../../limits.ts';
import { count, listOf, type Of, object, oneOf, text, textOrNull } from '../../shapes/schema.ts';
import { newestFirst, TIME } from '../pieces.ts';
import { resource, row } from '../row.ts';

const ACTIONS = Object.keys(AUDIT_ACTIONS) as AuditAction[];
const ENTRY = object({
  id: { ...count, says: 'For `before`' },
  at: TIME,
  actor: {
    ...object(
      { kind: oneOf('admin', 'session', 'token', 'agent', 'person', 'host', 'public', 'machine', 'guest') },
      { name: { ...text, says: 'Of the token, the person, or the agent' } },
    ),
    says: 'Who did it: `session` is a signed-in browser, `host` who a host lets in, `public` somebody unknown, `guest` who came by a link, `machine` who may write the data directory',
  },
  action: oneOf(...ACTIONS),
  target: { ...textOrNull, says: 'The app, token or version that it was done to' },
  detail: { ...object({}), additionalProperties: {}, says: 'What else there is to know; it never holds a secret' },
});
export type AuditEntry = Of<typeof ENTRY>;

export const readAudit = row({
  method: 'GET',
  path: '/svc/_audit',
  needs: 'admin',
  title: 'Read the audit log',
  does: 'Answers who did what, the newest first.',
  query: newestFirst('the `id` of an entry'),
  answer: { json: listOf(ENTRY) },
  errors: { BAD_REQUEST: '`before` is no `id`' },
  example: [
    {
      id: 12,
      at: 1_767_225_600_000,
      actor: { kind: 'token', name: 'backup script' },
      action: 'app.published',
      target: 'todos',
      detail: { version: 'todos/v3' },
    },
  ],
});

export const AUDIT = resource({
  name: 'Audit log',
  page: 'audit',
  about: `The audit log says who did what to the gateway. An entry is stored before the answer to what it records, and is kept for ${LIMITS.auditDays} days. It cannot be changed or deleted over HTTP.

| Action | Meaning |
|---|---|
${ACTIONS.map((action) => `| \`${action}\` | ${AUDIT_ACTIONS[action]} |`).join('\n')}`,
  rows: [readAudit],
});
