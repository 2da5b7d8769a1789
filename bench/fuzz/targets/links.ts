/** Connections between processes: what a stranger, an app's thread or a database client may send harms nobody else. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { mock } from 'node:test';
import fc from 'fast-check';
import { type ErrorBody, errorEnvelope } from '../../../protocol/errors.ts';
import { encodeFrame, FrameDecoder } from '../../../protocol/wire/codec.ts';
import { DbClient } from '../../../protocol/wire/db-client.ts';
import { DbOp, type Frame, Kind, ToolKind } from '../../../protocol/wire/frames.ts';
import { ADMIN_CALLER } from '../../../protocol/wire/handler-caller.ts';
import { openLink } from '../../../protocol/wire/link.ts';
import { Span } from '../../../supervisor/tracing/span.ts';
import { Call, type Tracked } from '../../../supervisor/tree/actor/call.ts';
import { appOf } from '../../../testing/apps.ts';
import { World } from '../../../testing/scripted-host.ts';
import { WriterProcess } from '../../../testing/writer-process.ts';
import { anyBytes, cuts, jsonValue, mutated, pieces, usually } from '../arbitraries.ts';
import { type FuzzedGateway, startFuzzed } from '../gateway.ts';
import { assertErrorBody } from '../oracle.ts';
import { check, type Target } from '../target.ts';
import words from '../words.json' with { type: 'json' };

const blob = anyBytes(20);
const big = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const thing = fc.oneof(jsonValue, blob, big, fc.constantFrom<unknown>([1n, [Buffer.from('x')]], { a: 2n ** 62n }));
/** Right at least half of the time, or anything. */
const orThing = (...right: fc.Arbitrary<unknown>[]) => fc.oneof(...right, thing);
const id = usually(fc.integer({ min: 0, max: 6 }), thing, 5);

const frameOf = (kind: number, ...members: fc.Arbitrary<unknown>[]): fc.Arbitrary<unknown[]> =>
  fc.tuple(fc.constant(kind), ...members);
const anyFrame = fc
  .tuple(fc.constantFrom(...Object.values(Kind)), fc.array(thing, { maxLength: 6 }))
  .map(([kind, members]) => [kind, ...members]);
const encode = (frame: readonly unknown[]): Buffer => encodeFrame(frame as unknown as Frame);

/** What an app's thread sends, right in most places. */
const errorBody = fc.record(
  {
    code: orThing(fc.constantFrom('INVALID_INPUT', 'HANDLER_ERROR', 'INTERNAL', '__proto__', 'constructor')),
    message: orThing(fc.string()),
    path: thing,
    issues: orThing(fc.array(fc.record({ path: thing, message: thing, keyword: thing }), { maxLength: 3 })),
  },
  { requiredKeys: ['code', 'message'] },
);
const double = orThing(fc.double());
const boolean = orThing(fc.boolean());
const span = fc.tuple(fc.constantFrom('db', 'fetch'), fc.double(), fc.double(), fc.constantFrom('', 'X'), thing, thing);
const actorFrame = fc.oneof(
  frameOf(Kind.result, id, orThing(fc.constantFrom(200, 201, 204, 404, 599, 199, 600, -0)), orThing(blob), double),
  frameOf(Kind.error, id, orThing(errorBody), double),
  frameOf(Kind.pong, id, orThing(fc.record({ heapUsed: thing }))),
  frameOf(Kind.log, thing),
  frameOf(Kind.ready, thing),
  frameOf(
    Kind.reads,
    id,
    orThing(fc.array(orThing(fc.string()), { maxLength: 4 }), fc.constant(null)),
    boolean,
    boolean,
  ),
  frameOf(
    Kind.spans,
    id,
    orThing(fc.constantFrom('00f067aa0ba902b7', '0000000000000000')),
    double,
    double,
    orThing(fc.array(span)),
    orThing(fc.nat()),
  ),
  frameOf(Kind.schemaChanged, thing),
  anyFrame,
);

type Outcome = { answers: number; faults: unknown[] };

/** A call whose answer is put together as the routes do it. */
function ask(world: World, actor: ReturnType<World['actor']>, action: boolean): Outcome {
  const outcome: Outcome = { answers: 0, faults: [] };
  const reply = {
    result: (
      status: number,
      body: Uint8Array,
      timing: { queueMs: number; handlerMs: number },
      tracked: Tracked | null,
    ) => {
      outcome.answers++;
      if (tracked !== null) assertReads(tracked);
      assert.ok(Number.isInteger(status) && Buffer.concat([body]) && timing.handlerMs.toFixed(2) !== '', 'a result');
    },
    failed: (error: { toBody(): ErrorBody }) => {
      outcome.answers++;
      assertErrorBody(error.toBody());
      JSON.stringify(errorEnvelope(error.toBody()));
    },
    outcomeUnknown: () => {},
    faulted: (error: unknown) => void outcome.faults.push(error),
  };
  const span = new Span('call', 'internal', { traceId: 'a'.repeat(32), parentId: null }, assertSpan);
  const [kind, schema] = action ? [ToolKind.action, undefined] : [ToolKind.query, 1];
  actor.submit(
    new Call(
      { kind, tool: 'tool', body: Buffer.from('{}'), traceId: '', span, caller: ADMIN_CALLER, allowedMs: 1000, schema },
      reply,
      world.now,
    ),
  );
  return outcome;
}

function assertSpan({ name, begunAt, endedAt, attributes }: Span): void {
  assert.ok(name.length < 200 && begunAt <= endedAt, 'a span');
  JSON.stringify(attributes);
}

function assertReads({ reads: { tables, keep, caller } }: Tracked): void {
  assert.ok(tables === 'all' || [...tables].every((name) => typeof name === 'string'), 'tables');
  assert.deepEqual([typeof keep, typeof caller], ['boolean', 'boolean']);
}

async function hostileActor(list: readonly unknown[][]): Promise<void> {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  try {
    const world = new World((ms) => mock.timers.tick(ms));
    const actor = world.actor();
    const outcomes = [false, true, false, true].map((action) => ask(world, actor, action));
    const thread = await world.liveThread();
    const ids = thread.received.filter(([kind]) => kind === Kind.dispatch).map(([, id]) => id);
    assert.ok(ids.length > 0, 'the thread was asked nothing');
    for (const frame of list) {
      const [kind, id, ...rest] = frame;
      // A small number stands for one of the calls that are under way.
      const own = typeof id === 'number' && kind !== Kind.pong ? ids[id] : undefined;
      thread.send(received(own === undefined ? frame : [kind, own, ...rest]));
    }
    thread.end();
    // The calls' time passes, whatever is started for them anew.
    await world.pass(2000);
    for (const one of world.host.running) one.end();
    await world.pass(2000);
    for (const { answers, faults } of outcomes) {
      assert.equal(answers, 1, 'a call was not answered exactly once');
      assert.deepEqual(faults, [], 'an answer could not be put together');
    }
  } finally {
    mock.timers.reset();
  }
}

/** The frame as the other side of a socket gets it. */
function received(frame: readonly unknown[]): Frame {
  const found: Frame[] = [];
  new FrameDecoder().push(encode(frame), (one) => found.push(one));
  return found[0] as Frame;
}

/** Sends the bytes to a socket, and resolves when the connection is closed by whoever got them. */
async function sendTo(path: string, chunks: Buffer[]): Promise<void> {
  const socket = connect(path);
  socket.on('error', () => {});
  socket.resume();
  for (const chunk of chunks) socket.write(chunk);
  socket.end();
  if (!socket.closed) await once(socket, 'close').catch(() => {});
}

const sql = fc.constantFrom(...words.sql);
const params = orThing(fc.array(thing, { maxLength: 3 }), fc.record({ a: thing }));
const tx = usually(fc.constant(0), thing);
const dbFrame = fc.oneof(
  frameOf(Kind.db, id, fc.constantFrom(DbOp.run, DbOp.get, DbOp.all), tx, sql, params),
  frameOf(Kind.db, id, fc.constant(DbOp.batch), tx, fc.array(orThing(fc.tuple(sql, params)), { maxLength: 4 })),
  frameOf(Kind.db, id, fc.integer({ min: DbOp.exec, max: DbOp.close + 1 }), fc.oneof(tx, fc.constant(1)), orThing(sql)),
  frameOf(
    Kind.db,
    id,
    ...[DbOp.migrate, 0, [{ name: '0001_x.sql', path: '/etc/passwd' }], null].map((member) => fc.constant(member)),
  ),
  anyFrame,
);
const dbBytes = fc.array(dbFrame, { minLength: 1, maxLength: 6 }).map((list) => Buffer.concat(list.map(encode)));

/** Sends bytes after `hello` to the writer, which goes on to serve a sound client of another database. */
async function attack(writer: WriterProcess, sound: DbClient, chunks: Buffer[]): Promise<void> {
  await sendTo(writer.socket, [encode([Kind.hello, writer.ticketFor('hostile')]), ...chunks]);
  assert.deepEqual(await sound.all('SELECT v FROM t'), [{ v: 1 }], 'the sound client reads something else');
  assert.ok(writer.isRunning, 'the writer ended');
  const files = readdirSync(writer.folder).filter(
    (name) => !/^(?:sound|hostile)\.sqlite(?:-wal|-shm)?$|\.sock$/.test(name),
  );
  assert.deepEqual(files, [], 'there are new files');
}

/** What somebody without a ticket may say. */
const hello = orThing(
  fc.constantFrom(
    '.',
    'e30.',
    'e30.e30',
    `${Buffer.from('{"role":"writer"}').toString('base64url')}.${'A'.repeat(43)}`,
    '\u0000.é',
  ),
).map((ticket) => encode([Kind.hello, ticket]));
const strangerBytes = fc.oneof(blob, hello, anyFrame.map(encode), mutated(hello));

/** The sockets of the daemon are below `folder`. */
async function knock(fuzzed: FuzzedGateway, folder: string, chunks: Buffer[]): Promise<void> {
  const sockets = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((found) => found.isSocket());
  assert.equal(sockets.length, 2, "the supervisor's socket and the writer's");
  for (const { parentPath, name } of sockets) await sendTo(join(parentPath, name), chunks);
  await fuzzed.assertSound();
  const { status, text } = await fuzzed.gateway.write('app', 'add', {});
  assert.equal(status, 200, text);
}

const APP = appOf('app', {
  migrations: ['CREATE TABLE t (v)'],
  actions: { add: '({ db }) => db.run("INSERT INTO t VALUES (1)")' },
});

export const links: Target = {
  name: 'links',
  claim: 'Hostile frames on any socket end that connection and nothing else; each call is still answered once.',
  open: async (stage) => {
    const writer = new WriterProcess(stage.newFolder());
    stage.atEnd(() => writer.end());
    await writer.start();
    const sound = new DbClient((handlers) => openLink(writer.socket, writer.ticketFor('sound'), handlers));
    stage.atEnd(() => sound.end());
    await sound.exec('CREATE TABLE t (v); INSERT INTO t VALUES (1)');
    const folder = stage.newFolder();
    const fuzzed = await startFuzzed(stage, { app: APP }, { env: { TMPDIR: folder } });
    const frames = fc.array(actorFrame, { minLength: 1, maxLength: 12 });
    const toWriter = fc.tuple(fc.oneof(dbBytes, mutated(dbBytes)), cuts);
    return [
      check("an app's thread that lies", 20_000, frames, hostileActor),
      check('a database client with a ticket', 20_000, toWriter, ([bytes, at]) =>
        attack(writer, sound, pieces(bytes, at)),
      ),
      check('strangers', 10_000, fc.tuple(strangerBytes, cuts), ([bytes, at]) =>
        knock(fuzzed, folder, pieces(bytes, at)),
      ),
    ];
  },
};
