import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Frame, Kind } from '../../protocol/wire/frames.ts';
import type { Ticket } from '../../protocol/wire/ticket.ts';
import type { Child } from './child.ts';
import { Commons } from './commons.ts';

function commonsOf(state: Child['state']) {
  const sent: Frame[] = [];
  const host = { name: 'host-1', state, send: (frame: Frame) => void sent.push(frame) };
  const sign = ({ n }: Extract<Ticket, { role: 'commons' }>): string => `thread ${n}`;
  const commons = new Commons(host as unknown as Child, sign, { onEnded: () => {}, onStuck: () => {} });
  return { commons, host, sent };
}

test('a thread for residents that are expected starts as soon as the host runs, and with each new process of it', () => {
  const { commons, host, sent } = commonsOf('starting');
  commons.prepare();
  assert.deepEqual(sent, []);
  host.state = 'running';
  commons.hostReady();
  commons.prepare();
  assert.deepEqual(sent, [[Kind.commons, 'thread 1']]);
  commons.hostGone();
  commons.hostReady();
  assert.deepEqual(sent.slice(1), [[Kind.commons, 'thread 2']]);
});

test('a host whose commons nobody expects has no thread for them', () => {
  const { commons, sent } = commonsOf('running');
  commons.hostReady();
  assert.deepEqual(sent, []);
});
