import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { openTicket, signTicket, type Ticket } from './ticket.ts';

const key = randomBytes(32);
const ticket: Ticket = { role: 'database', name: 'todos', file: '/data/todos.sqlite', maintain: false };

test('a signed ticket survives the round trip', () => {
  assert.deepEqual(openTicket(signTicket(ticket, key), key), ticket);
});

test('tickets of another boot, changed tickets and other bytes are refused', () => {
  const signed = signTicket(ticket, key);
  const [body = '', mac = ''] = signed.split('.');
  const other = Buffer.from(JSON.stringify({ ...ticket, file: '/data/other.sqlite' })).toString('base64url');
  for (const [name, text] of [
    ['another key', signTicket(ticket, randomBytes(32))],
    ['another body', `${other}.${mac}`],
    ['another signature', `${body}.${mac.slice(0, -2)}AA`],
    ['no signature', body],
    ['an empty signature', `${body}.`],
    ['an empty text', ''],
    ['a number', 7],
    ['nothing', undefined],
  ] as const) {
    assert.equal(openTicket(text, key), null, name);
  }
});
