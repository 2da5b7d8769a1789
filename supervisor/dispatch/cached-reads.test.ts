import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../protocol/errors.ts';
import type { HandlerCaller } from '../../protocol/wire/handler-caller.ts';
import { STATE_BYTES } from '../../storage/wal-index.ts';
import { Meter } from '../operations/metrics/meters.ts';
import { Commits } from '../results/commits.ts';
import { Results } from '../results/results.ts';
import type { CallReply, Timed } from '../tree/actor/call.ts';
import { CachedReads } from './cached-reads.ts';
import type { Target } from './request.ts';

const ANN: HandlerCaller = { kind: 'token', name: 'ann' };
const BOB: HandlerCaller = { kind: 'token', name: 'bob' };
/** Two people of one name. */
const PEOPLE: HandlerCaller[] = ['u1', 'u2'].map((id) => ({
  kind: 'person',
  name: 'Sam',
  user: { id, name: 'Sam', role: 'editor' },
}));
const TARGET = { app: { key: 'notes' }, kind: 'query', tool: { name: 'list' } } as unknown as Target;

const ALLOWED_MS = 1000;

/** Runs wait in `runs` until the test ends them, or their callers leave them. `pass` lets time pass. */
function setUp() {
  const commits = new Commits({
    file: () => '',
    reader: () => ({ read: () => new Uint8Array(STATE_BYTES), close: () => {} }),
  });
  let time = 0;
  const waiting = new Set<Timed>();
  const deadlines = { add: (one: Timed) => waiting.add(one), delete: (one: Timed) => waiting.delete(one) };
  const clock = { now: () => time, deadlines } as unknown as ConstructorParameters<typeof CachedReads>[2];
  const results = new Results(commits);
  const reads = new CachedReads(results, ALLOWED_MS, clock);
  const runs: { reply: CallReply; since: number }[] = [];
  const told: string[] = [];
  const read = (caller: HandlerCaller, body = '') =>
    reads.submit(
      TARGET,
      'v1',
      { body: Buffer.from(body), traceId: () => '', source: 'handler', caller },
      {
        answered: (_status, body) => told.push(`${caller.name ?? caller.kind}: ${Buffer.from(body)}`),
        failed: ({ message }) => told.push(`${caller.name ?? caller.kind}: ${message}`),
        faulted: (error) => told.push(`${caller.name ?? caller.kind}: ${error}`),
      },
      (_request, reply, since) => {
        const run = { reply, since };
        runs.push(run);
        return () => {
          if (runs.includes(run)) runs.splice(runs.indexOf(run), 1);
        };
      },
      new Meter(),
    );
  const fail = (message: string, started: boolean) =>
    runs.shift()?.reply.failed(new SvcError('HANDLER_ERROR', message), { queueMs: 0, handlerMs: 0, started });
  const pass = (ms: number) => {
    time += ms;
    for (const one of waiting) if (one.deadline <= time && waiting.delete(one)) one.expire();
  };
  return { read, runs, told, fail, pass, results, waiting };
}

test('the error of a run goes to the caller it ran for; waiting callers get separate runs', () => {
  const { read, runs, told, fail } = setUp();
  read({ kind: 'admin' });
  read({ kind: 'token', name: 'bob' });
  assert.equal(runs.length, 1);
  fail('about the administrator', true);
  assert.deepEqual([told, runs.length], [['admin: about the administrator'], 1]);
  fail('about bob', true);
  assert.deepEqual(told, ['admin: about the administrator', 'bob: about bob']);
});

test('a call that could not begin fails for all who waited for it', () => {
  const { read, runs, told, fail } = setUp();
  read({ kind: 'admin' });
  read({ kind: 'token', name: 'bob' });
  fail('too many', false);
  assert.deepEqual([told, runs.length], [['admin: too many', 'bob: too many'], 0]);
});

test('once the first caller has left, no one gets the error of its run', () => {
  const { read, runs, told, fail } = setUp();
  const leave = read({ kind: 'admin' });
  read({ kind: 'token', name: 'bob' });
  leave();
  fail('about the administrator', true);
  assert.deepEqual([told, runs.length], [[], 1]);
});

test('a run that all its callers left is not joined', () => {
  const { read, runs, told } = setUp();
  read(ANN)();
  assert.equal(runs.length, 0, 'it was given up');
  read(BOB);
  assert.equal(runs.length, 1, 'it has a run of its own');
  const [first, second] = [read(ANN), read(ANN)];
  first();
  second();
  assert.equal(runs.length, 1, 'one caller still waits for that');
  runs.shift()?.reply.result(200, Buffer.from('1'), { queueMs: 0, handlerMs: 0, started: true }, null);
  assert.deepEqual(told, ['bob: 1']);
});

test('a caller whose joined run is lost is answered at its own deadline', () => {
  const { read, runs, told, pass, waiting } = setUp();
  read(ANN);
  pass(400);
  read(BOB);
  runs.length = 0;
  pass(ALLOWED_MS - 1);
  assert.deepEqual(told, []);
  pass(1);
  assert.deepEqual(told, ['bob: "list" timed out after 1 s; it waited for the run of an equal call.']);
  assert.equal(waiting.size, 0);
});

test('a run of its own, after the joined one has failed, gets what is left of the time of its caller', () => {
  const { read, runs, fail, pass, waiting } = setUp();
  read(ANN);
  pass(400);
  read(BOB);
  pass(500);
  fail('too late', true);
  assert.deepEqual([runs.map(({ since }) => since), waiting.size], [[400], 0]);
});

test('a result that cannot be kept or told reaches every caller as an error', () => {
  const { read, runs, told, results } = setUp();
  results.ended = () => {
    throw new Error('no memory');
  };
  read(ANN);
  read(BOB);
  const reads = { tables: new Set<string>(), keep: true, caller: false };
  const timing = { queueMs: 0, handlerMs: 0, started: true };
  const [run] = runs;
  assert.throws(() => run?.reply.result(200, Buffer.from('1'), timing, { reads, version: 'v1' }));
  run?.reply.faulted('no memory');
  assert.deepEqual(told, ['ann: no memory', 'bob: no memory']);
});

test('reads share a run if their inputs have the same bytes, whatever stands around them', () => {
  const inputs = (...bodies: string[]): number => {
    const { read, runs } = setUp();
    for (const body of bodies) read(ANN, body);
    return runs.length;
  };
  assert.equal(inputs('', '{}', '{"input":{}}', '{"app":"notes"}'), 1);
  assert.equal(inputs('{"app":"notes","query":"list","input":{"a":1}}', '{ "\\u0069nput":{"a":1}, "query":"list"}'), 1);
  assert.equal(inputs('{"input":{"a":1,"b":2}}', '{"input":{"b":2,"a":1}}'), 2);
  assert.equal(inputs('{"input":{"a":0}}', '{"input":{"a":-0}}', '{"input":{"a":1e999}}', '{"input":{"a":null}}'), 4);
  assert.equal(inputs('{"input":"é"}', '{"input":"\\u00e9"}', '{"input":"e"}'), 3);
});

test('a kept result of a query that read who calls is for that person alone, also of another role or name', () => {
  const { read, runs, told } = setUp();
  const [sam, other] = PEOPLE as [HandlerCaller, HandlerCaller];
  const { user } = sam as { user: NonNullable<HandlerCaller['user']> };
  const changed: HandlerCaller[] = [
    { ...sam, user: { ...user, role: 'viewer' } },
    { ...sam, user: { ...user, email: 'sam@example.org' } },
    { kind: 'token', name: 'Sam' },
    { kind: 'token', name: JSON.stringify(user) },
  ];
  const end = (result: string) =>
    runs
      .shift()
      ?.reply.result(
        200,
        Buffer.from(result),
        { queueMs: 0, handlerMs: 1, started: true },
        { reads: { tables: new Set(), keep: true, caller: true }, version: 'v1' },
      );
  // One waits for the run of the other, and gets a run of its own.
  read(sam);
  read(other);
  assert.equal(runs.length, 1);
  end('"first"');
  assert.equal(runs.length, 1);
  end('"second"');
  assert.deepEqual(told.splice(0), ['Sam: "first"', 'Sam: "second"']);
  read({ ...sam, user: { ...user } });
  assert.deepEqual([told.splice(0), runs.length], [['Sam: "first"'], 0]);
  for (const caller of [other, ...changed]) {
    read(caller);
    assert.equal(runs.length, 1, JSON.stringify(caller));
    end('"of the other"');
    told.splice(0);
  }
});
