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
import { cuts, jsonValue, mutated, pieces } from '../arbitraries.ts';
import { FuzzedGateway } from '../gateway.ts';
import { assertErrorBody, assertPrototypesUntouched } from '../oracle.ts';
import type { Target, TargetContext } from '../target.ts';
import words from '../words.json' with { type: 'json' };

const blob = fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes));
const big = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const thing = fc.oneof(jsonValue, blob, big, fc.constantFrom<unknown>([1n, [Buffer.from('x')]], { a: 2n ** 62n }));
const anyFrame = fc
  .tuple(fc.constantFrom(...Object.values(Kind)), fc.array(thing, { maxLength: 6 }))
  .map(([kind, members]) => [kind, ...members]);

/** What an app's thread sends, right in most places. */
const id = fc.oneof({ weight: 5, arbitrary: fc.integer({ min: 0, max: 6 }) }, { weight: 1, arbitrary: thing });
const errorBody = fc.record(
  {
    code: fc.oneof(fc.constantFrom('INVALID_INPUT', 'HANDLER_ERROR', 'INTERNAL', '__proto__', 'constructor'), thing),
    message: fc.oneof(fc.string(), thing),
    path: thing,
    issues: fc.oneof(thing, fc.array(fc.record({ path: thing, message: thing, keyword: thing }), { maxLength: 3 })),
  },
  { requiredKeys: ['code', 'message'] },
);
const actorFrame = fc.oneof(
  fc.tuple(
    fc.constant(Kind.result),
    id,
    fc.oneof(fc.constantFrom(200, 201, 204, 404, 599, 199, 600, -0), thing),
    fc.oneof(blob, thing),
    fc.oneof(fc.double(), thing),
  ),
  fc.tuple(fc.constant(Kind.error), id, fc.oneof(errorBody, thing), fc.oneof(fc.double(), thing)),
  fc.tuple(fc.constant(Kind.pong), id, fc.oneof(fc.record({ heapUsed: thing }), thing)),
  fc.tuple(fc.constant(Kind.log), thing),
  fc.tuple(fc.constant(Kind.ready), thing),
  fc.tuple(
    fc.constant(Kind.reads),
    id,
    fc.oneof(fc.array(fc.oneof(fc.string(), thing), { maxLength: 4 }), fc.constant(null), thing),
    fc.oneof(fc.boolean(), thing),
    fc.oneof(fc.boolean(), thing),
  ),
  fc.tuple(
    fc.constant(Kind.spans),
    id,
    fc.oneof(fc.constantFrom('00f067aa0ba902b7', '0000000000000000'), thing),
    fc.oneof(fc.double(), thing),
    fc.oneof(fc.double(), thing),
    fc.oneof(
      fc.array(
        fc.tuple(fc.constantFrom('db', 'fetch'), fc.double(), fc.double(), fc.constantFrom('', 'X'), thing, thing),
      ),
      thing,
    ),
    fc.oneof(fc.nat(), thing),
  ),
  fc.tuple(fc.constant(Kind.schemaChanged), thing),
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
    for (const frame of list) thread.send(received(frame));
    thread.end();
    // The calls' time passes, whatever is started for them anew.
    await world.pass(2000);
    for (const one of world.host.running) one.end();
    await world.pass(2000);
    for (const { answers, faults } of outcomes) {
      assert.equal(answers, 1, 'a call was not answered exactly once');
      assert.deepEqual(faults, [], 'an answer could not be put together');
    }
    assertPrototypesUntouched();
  } finally {
    mock.timers.reset();
  }
}

/** The frame as the other side of a socket gets it. */
function received(frame: readonly unknown[]): Frame {
  const found: Frame[] = [];
  new FrameDecoder().push(encodeFrame(frame as unknown as Frame), (one) => found.push(one));
  return found[0] as Frame;
}

/** The writer's process, with a database of a sound client beside the hostile one's. */
class AttackedWriter {
  readonly #writer: WriterProcess;
  readonly #sound: DbClient;

  private constructor(writer: WriterProcess) {
    this.#writer = writer;
    this.#sound = new DbClient((handlers) => openLink(writer.socket, writer.ticketFor('sound'), handlers));
  }

  static async start(folder: string): Promise<AttackedWriter> {
    const attacked = new AttackedWriter(await new WriterProcess(folder).start());
    await attacked.#sound.exec('CREATE TABLE t (v); INSERT INTO t VALUES (1)');
    return attacked;
  }

  async stop(): Promise<void> {
    this.#sound.end();
    await this.#writer.end();
  }

  /** Sends bytes after `hello`, reads until the connection ends or was answered, and ends it. */
  async attack(chunks: Buffer[]): Promise<void> {
    const socket = connect(this.#writer.socket);
    socket.on('error', () => {});
    socket.resume();
    socket.write(encodeFrame([Kind.hello, this.#writer.ticketFor('hostile')]));
    for (const chunk of chunks) socket.write(chunk);
    socket.end();
    if (!socket.closed) await once(socket, 'close').catch(() => {});
    assert.deepEqual(await this.#sound.all('SELECT v FROM t'), [{ v: 1 }], 'the sound client reads something else');
    assert.ok(this.#writer.isRunning, 'the writer ended');
    const files = readdirSync(this.#writer.folder).filter(
      (name) => !/^(?:sound|hostile)\.sqlite(?:-wal|-shm)?$|\.sock$/.test(name),
    );
    assert.deepEqual(files, [], 'there are new files');
  }
}

const sql = fc.constantFrom(...words.sql);
const params = fc.oneof(fc.array(thing, { maxLength: 3 }), fc.record({ a: thing }), thing);
const tx = fc.oneof({ weight: 6, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: thing });
const dbFrame = fc.oneof(
  fc.tuple(fc.constant(Kind.db), id, fc.constantFrom(DbOp.run, DbOp.get, DbOp.all), tx, sql, params),
  fc.tuple(
    fc.constant(Kind.db),
    id,
    fc.constant(DbOp.batch),
    tx,
    fc.array(fc.oneof(fc.tuple(sql, params), thing), { maxLength: 4 }),
  ),
  fc.tuple(
    fc.constant(Kind.db),
    id,
    fc.integer({ min: DbOp.exec, max: DbOp.close + 1 }),
    fc.oneof(tx, fc.constant(1)),
    fc.oneof(sql, thing),
  ),
  fc.tuple(
    fc.constant(Kind.db),
    id,
    fc.constant(DbOp.migrate),
    fc.constant(0),
    fc.constant([{ name: '0001_x.sql', path: '/etc/passwd' }]),
    fc.constant(null),
  ),
  anyFrame,
);
const dbBytes = fc
  .array(dbFrame, { minLength: 1, maxLength: 6 })
  .map((list) => Buffer.concat(list.map((one) => encodeFrame(one as unknown as Frame))));

/** What somebody without a ticket may say. */
const claim = fc.oneof(
  thing,
  fc.constantFrom(
    '.',
    'e30.',
    'e30.e30',
    `${Buffer.from('{"role":"writer"}').toString('base64url')}.${'A'.repeat(43)}`,
    '\u0000.é',
  ),
);
const strangerBytes = fc.oneof(
  blob,
  claim.map((ticket) => encodeFrame([Kind.hello, ticket as string])),
  anyFrame.map((frame) => encodeFrame(frame as unknown as Frame)),
  mutated(claim.map((ticket) => encodeFrame([Kind.hello, ticket as string]))),
);

/** A daemon whose sockets, which it makes in the system's temporary folder, lie in `folder`. */
async function startIn(folder: string): Promise<FuzzedGateway> {
  const temporary = process.env.TMPDIR;
  process.env.TMPDIR = folder;
  const starting = FuzzedGateway.start('uws', { app: APP });
  if (temporary === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = temporary;
  return await starting;
}

async function knock(fuzzed: FuzzedGateway, folder: string, bytes: Buffer, at: number[]): Promise<void> {
  const sockets = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((found) => found.isSocket());
  assert.equal(sockets.length, 2, "the supervisor's socket and the writer's");
  for (const { parentPath, name } of sockets) {
    const socket = connect(join(parentPath, name));
    socket.on('error', () => {});
    socket.resume();
    for (const chunk of pieces(bytes, at)) socket.write(chunk);
    socket.end();
    if (!socket.closed) await once(socket, 'close').catch(() => {});
  }
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
  open: async (context: TargetContext) => {
    const writer = await AttackedWriter.start(context.newFolder());
    const folder = context.newFolder();
    const fuzzed = await startIn(folder);
    return {
      checks: [
        {
          name: "an app's thread that lies",
          runs: { full: 20_000, smoke: 100 },
          property: fc.asyncProperty(fc.array(actorFrame, { minLength: 1, maxLength: 12 }), hostileActor),
        },
        {
          name: 'a database client with a ticket',
          runs: { full: 10_000, smoke: 100 },
          property: fc.asyncProperty(fc.oneof(dbBytes, mutated(dbBytes)), cuts, (bytes, at) =>
            writer.attack(pieces(bytes, at)),
          ),
        },
        {
          name: 'strangers',
          runs: { full: 5000, smoke: 50 },
          property: fc.asyncProperty(strangerBytes, cuts, (bytes, at) => knock(fuzzed, folder, bytes, at)),
        },
      ],
      close: async () => {
        await writer.stop();
        await fuzzed.close();
      },
    };
  },
};
