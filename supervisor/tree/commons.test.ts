import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VersionSummary } from '../../protocol/manifest.ts';
import { type ActorSpec, type Frame, Kind } from '../../protocol/wire/frames.ts';
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

test('residents that are handed back come last while no thread answers what they were asked', () => {
  const { commons } = commonsOf('running');
  let back: string[] = [];
  const summaries = new Map<string, VersionSummary>();
  const resident = (actorId: number, key: string, query?: string): VersionSummary => {
    const summary = summaries.get(key) ?? ({ versionId: key } as VersionSummary);
    summaries.set(key, summary);
    const inFlight = new Map(query === undefined ? [] : [[1, { request: { tool: query } }]]);
    const one = { spec: { actorId } as ActorSpec, summary, key, inFlight, attach: () => null, onFrame: () => {} };
    commons.settle({ ...one, exited: () => {}, handBack: (reason) => void back.push(`${key} ${reason}`) });
    return summary;
  };
  resident(1, 'loops', 'bad');
  commons.answered(resident(2, 'is-next', 'bad'), 'ok');
  commons.answered(resident(3, 'waits', 'list'), 'list');
  const fresh = resident(4, 'is-new', 'list');
  commons.ended([Kind.commonsEnded, 1, 'stalled', '']);
  assert.deepEqual(back, ['waits null', 'loops failed', 'is-next null', 'is-new null']);

  back = [];
  for (const [n, key] of ['stalls', 'is-next', 'is-new', 'waits'].entries()) resident(n + 5, key);
  commons.answered(fresh, 'list');
  commons.ended([Kind.commonsEnded, 5, 'stalled', '']);
  assert.deepEqual(back, ['stalls failed', 'is-new null', 'waits null', 'is-next null']);
});
