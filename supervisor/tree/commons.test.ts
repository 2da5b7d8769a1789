import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VersionSummary } from '../../protocol/manifest.ts';
import { type ActorSpec, type Frame, Kind } from '../../protocol/wire/frames.ts';
import type { Link } from '../../protocol/wire/link.ts';
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
    const one = {
      spec: { actorId } as ActorSpec,
      summary,
      key,
      inFlight,
      attach: () => null,
      live: () => {},
      onFrame: () => {},
    };
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

/** Residents 1 to 3, of which the first has no call in flight, and what happens to them. */
function commonsWithResidents() {
  const happened: string[] = [];
  const live: number[] = [];
  const sent: Frame[] = [];
  const host = { name: 'host-1', state: 'running', send: () => {} } as unknown as Child;
  const commons = new Commons(host, () => 'ticket', {
    onEnded: (what) => happened.push(what.replace(/^.* ended/, 'ended')),
    onStuck: (key) => happened.push(`${key} is stuck`),
  });
  for (const actorId of [1, 2, 3]) {
    commons.settle({
      spec: { actorId } as ActorSpec,
      summary: { versionId: `app${actorId}/v1` } as VersionSummary,
      key: `app${actorId}`,
      inFlight: new Map(Array.from({ length: actorId - 1 }, (_, n) => [n, { request: { tool: 'list' } }])),
      attach: () => null,
      live: () => void live.push(actorId),
      onFrame: () => {
        throw new Error('Not a result.');
      },
      exited: () => void happened.push(`app${actorId} exited`),
      handBack: (reason) => void happened.push(`app${actorId} ${reason}`),
    });
  }
  const link = { send: (frame: Frame) => sent.push(frame), close: () => {} } as unknown as Link;
  const { onFrame } = commons.attach(link, { role: 'commons', host: 'host-1', n: 1 }) ?? assert.fail();
  onFrame([Kind.ready, { pid: 1, threadId: 1 }] as unknown as Frame, link);
  const starts = sent.splice(0);
  return { commons, happened, live, sent, starts, receive: (frame: Frame) => onFrame(frame, link) };
}

test('residents take calls as soon as their starts are sent, and not before', async () => {
  const { live, starts } = commonsWithResidents();
  assert.deepEqual([starts.length, live], [3, []]);
  await null;
  assert.deepEqual(live, [1, 2, 3]);
});

test('one that stalls it is to blame; where nobody knows, all that have calls in flight', () => {
  const known = commonsWithResidents();
  known.commons.ended([Kind.commonsEnded, 1, 'stalled', 'why']);
  assert.deepEqual(known.happened, ['ended (stalled, app1): why', 'app1 failed', 'app2 null', 'app3 null']);
  const unknown = commonsWithResidents();
  unknown.commons.ended([Kind.commonsEnded, 0, 'crash', 'why']);
  assert.deepEqual(unknown.happened, ['ended (crash): why', 'app1 null', 'app2 failed', 'app3 failed']);
});

test('nobody else is to blame for one that has left, and whose code ran on', () => {
  const { commons, happened, receive } = commonsWithResidents();
  receive([Kind.leaves, 2, 'globals', 'URL']);
  commons.ended([Kind.commonsEnded, 2, 'stalled', 'why']);
  commons.ended([Kind.commonsEnded, 2, 'stuck', '']);
  assert.deepEqual(happened, ['app2 globals', 'ended (stalled, app2): why', 'app1 null', 'app3 null', 'app2 is stuck']);
});

test('a frame that no sound resident sends ends that one only', () => {
  const { happened, sent, receive } = commonsWithResidents();
  receive([Kind.resident, 2, [Kind.ready, {}]] as unknown as Frame);
  assert.deepEqual(happened, ['app2 failed']);
  assert.deepEqual(sent, [[Kind.resident, 2, [Kind.stop, 2, true]]]);
  receive([Kind.exited, 2, 'stopped', '']);
  assert.deepEqual(happened, ['app2 failed']);
});
