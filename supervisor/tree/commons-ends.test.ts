/** Whom the end of the commons is blamed on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ActorSpec, type Frame, Kind } from '../../protocol/wire/frames.ts';
import type { Link } from '../../protocol/wire/link.ts';
import type { Child } from './child.ts';
import { Commons } from './commons.ts';

/** Residents 1 to 3, of which the first has no call in flight, and what happens to them. */
function commonsWithResidents() {
  const happened: string[] = [];
  const sent: Frame[] = [];
  const host = { name: 'host-1', state: 'running', send: () => {} } as unknown as Child;
  const commons = new Commons(host, () => 'ticket', {
    onEnded: (what) => happened.push(what.replace(/^.* ended/, 'ended')),
    onStuck: (key) => happened.push(`${key} is stuck`),
  });
  for (const actorId of [1, 2, 3]) {
    commons.settle({
      spec: { actorId } as ActorSpec,
      key: `app${actorId}`,
      inFlight: { size: actorId - 1 },
      attach: () => null,
      onFrame: () => {
        throw new Error('Not a result.');
      },
      exited: () => happened.push(`app${actorId} exited`),
      handBack: (reason) => happened.push(`app${actorId} ${reason}`),
    } as Parameters<Commons['settle']>[0]);
  }
  const link = { send: (frame: Frame) => sent.push(frame), close: () => {} } as unknown as Link;
  const { onFrame } = commons.attach(link, { role: 'commons', host: 'host-1', n: 1 }) ?? assert.fail();
  onFrame([Kind.ready, { pid: 1, threadId: 1 }] as unknown as Frame, link);
  sent.length = 0;
  return { commons, happened, sent, receive: (frame: Frame) => onFrame(frame, link) };
}

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
