import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { LIMITS } from '../limits.ts';
import { DbClient } from './db-client.ts';
import { DbOp, type Frame, type FrameOf, Kind } from './frames.ts';
import { Link } from './link.ts';

let directory: string;
let path: string;
let db: DbClient;
let server: Server | null;
/** Of the connections, in their order. */
let connectionIds: number[];

/** A writer that does with each request what the test says. */
function serve(onRequest: (frame: FrameOf<'db'>, link: Link) => void): void {
  server = createServer((socket) => {
    new Link(socket, { onFrame: (frame, link) => onRequest(frame as FrameOf<'db'>, link), onClose: () => {} });
  }).listen(path);
}

const newClient = (): DbClient =>
  new DbClient((handlers, connectionId, socket = path) => {
    connectionIds.push(connectionId);
    return new Link(connect(socket), handlers);
  });

const codeOf = (outcome: PromiseSettledResult<unknown> | undefined): unknown =>
  outcome?.status === 'rejected' ? (outcome.reason as { code: string }).code : undefined;

const isResume = (frame: Frame): frame is FrameOf<'resume'> => frame[0] === Kind.resume;
const RESULT = { changes: 1, lastInsertRowid: 1 };
const answer = (frame: FrameOf<'db'>, link: Link): void => link.send([Kind.dbResult, frame[1], RESULT]);

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'db-client-'));
  path = join(directory, 'writer.sock');
  server = null;
  db = newClient();
  connectionIds = [];
});
afterEach(() => {
  db.end();
  server?.close();
  rmSync(directory, { recursive: true });
});

test('answers are paired with their requests, in any order', async () => {
  const waiting: number[] = [];
  serve((frame, link) => {
    waiting.push(frame[1]);
    if (waiting.length === 3) for (const id of waiting.reverse()) link.send([Kind.dbResult, id, `answer ${id}`]);
  });
  const answers = await Promise.all([db.get('a'), db.get('b'), db.get('c')]);
  assert.deepEqual(answers, ['answer 1', 'answer 2', 'answer 3']);
});

test("an error has SQLite's code, its message and the file of a migration", async () => {
  serve((frame, link) =>
    link.send([
      Kind.dbError,
      frame[1],
      { code: 'MIGRATION_FAILED', message: 'no such table', path: 'migrations/0001_a.sql' },
    ]),
  );
  await assert.rejects(db.migrate([], null), {
    name: 'DbError',
    code: 'MIGRATION_FAILED',
    message: 'no such table',
    path: 'migrations/0001_a.sql',
  });
});

test('after a lost connection the outcome of sent operations is unknown, and the next operation connects again', async () => {
  let connections = 0;
  serve((frame, link) => {
    if (connections++ === 0) link.close(new Error('gone'));
    else if (isResume(frame)) link.send([Kind.resumed, -1, -1]);
    else answer(frame, link);
  });
  const outcomes = await Promise.allSettled([db.run('a'), db.run('b')]);
  for (const outcome of outcomes) {
    assert.equal(outcome.status === 'rejected' && (outcome.reason as { code: string }).code, 'WRITER_LOST');
  }
  assert.deepEqual(await db.run('c'), RESULT);
});

test('a commit says which operations of its transaction are under way', async () => {
  const commits: unknown[] = [];
  serve((frame, link) => {
    if (frame[2] === DbOp.commit) commits.push(frame[4]);
    answer(frame, link);
  });
  await db.run('a', [], 5).catch(() => {});
  await db.run('connects');
  void db.run('b', [], 4);
  const first = db.run('c', [], 5);
  await Promise.all([first, db.run('d', [], 5), db.commit(5)]);
  await db.commit(5);
  assert.deepEqual(commits, [4, 0]);
});

test('only operations that cannot be stored are sent again after a lost connection', async () => {
  const seen: unknown[] = [];
  let resumed: Frame | null = null;
  serve((frame, link) => {
    if (isResume(frame)) {
      resumed = frame;
      // Of a and b the first may be stored.
      link.send([Kind.resumed, 1, 0]);
    } else if (resumed !== null) {
      seen.push(frame[4]);
      answer(frame, link);
    } else if (frame[4] === 'b') link.close(new Error('gone'));
  });
  const [stored, waiting] = await Promise.allSettled([db.run('a'), db.run('b')]);
  assert.equal(codeOf(stored), 'WRITER_LOST');
  assert.equal(waiting?.status, 'fulfilled');
  assert.deepEqual(seen, ['b']);
  assert.deepEqual(resumed, [Kind.resume, connectionIds[0]]);
  assert.equal(new Set(connectionIds).size, 2);
});

const NAMES: Record<number, string> = { [DbOp.begin]: 'begin', [DbOp.commit]: 'commit', [DbOp.rollback]: 'rollback' };

/**
 * Two writers, which number their transactions 77 and 99. The first one lets what is outside wait, and is lost with the statement or commit `lost`; the next one
 * says `progress` and gives each statement the result that `again` says. Answers what that one was asked.
 */
function loseTransaction(lost: string, progress: [number, number], again: (sql: string) => unknown = () => RESULT) {
  const seen: unknown[][] = [];
  let isNext = false;
  serve((frame, link) => {
    if (isResume(frame)) {
      isNext = true;
      link.send([Kind.resumed, ...progress]);
      return;
    }
    const [, id, op, tx, sql] = frame;
    const what = String(NAMES[op] ?? sql);
    if (isNext) {
      seen.push([what, tx]);
      link.send([Kind.dbResult, id, what === 'begin' ? 99 : again(what)]);
    } else if (what === lost) link.close(new Error('gone'));
    else if (tx !== 0 || what === 'begin') link.send([Kind.dbResult, id, what === 'begin' ? 77 : RESULT]);
  });
  return seen;
}

test('an open transaction is repeated at the next writer, before what waits behind it, and goes on', async () => {
  const seen = loseTransaction('b', [0, 0]);
  const tx = await db.begin();
  const values = [new Uint8Array([1])];
  await db.run('a', values, tx);
  values[0]?.fill(9);
  const behind = db.run('behind');
  await db.run('b', [], tx);
  await db.commit(tx);
  await behind;
  assert.deepEqual(seen, [
    ['begin', 0],
    ['behind', 0],
    ['a', 99],
    ['b', 99],
    ['commit', 99],
  ]);
});

for (const [name, lost, progress, again] of [
  ['a statement has another result', 'b', [0, 0], (sql: string) => ({ ...RESULT, changes: sql === 'a' ? 2 : 1 })],
  ['it has done more than is kept', 'b', [0, 0], undefined],
] as const) {
  test(`a transaction is rolled back where ${name}`, async () => {
    const seen = loseTransaction(lost, [...progress], again);
    const tx = await db.begin();
    await db.run('a', again === undefined ? ['x'.repeat(LIMITS.replayedBytes)] : [], tx);
    await assert.rejects(db.run('b', [], tx), { code: 'WRITER_LOST', message: /rolled back/ });
    await assert.rejects(db.run('c', [], tx), { code: 'WRITER_LOST', message: /rolled back/ });
    await db.run('d');
    const asked = seen.map(([what]) => what);
    assert.deepEqual(asked, again === undefined ? ['d'] : ['begin', 'a', 'rollback', 'd']);
  });
}

test('a commit that cannot be stored is repeated; the outcome of another is unknown', async () => {
  for (const [commit, isKnown] of [
    [0, true],
    [3, false],
    [-1, false],
  ] as const) {
    const seen = loseTransaction('commit', [commit < 0 ? -1 : 0, commit]);
    const tx = await db.begin();
    await db.run('a', [], tx);
    const [outcome] = await Promise.allSettled([db.commit(tx)]);
    assert.equal(codeOf(outcome), isKnown ? undefined : 'WRITER_LOST');
    if (!isKnown) assert.match(String(outcome.status === 'rejected' && outcome.reason), /unknown/);
    assert.deepEqual(
      seen.map(([what]) => what),
      isKnown ? ['begin', 'a', 'commit'] : [],
    );
    db.end();
    server?.close();
    db = newClient();
  }
});

for (const [died, progress, deaths] of [
  ['it may be what the writer died of', -1, 2],
  ['the writer did not die of itself', 0, 3],
] as const) {
  test(`where the writer dies that repeats a transaction, and ${died}`, async () => {
    let lost = 0;
    serve((frame, link) => {
      if (isResume(frame)) link.send([Kind.resumed, progress, progress]);
      else if (frame[2] === DbOp.begin) link.send([Kind.dbResult, frame[1], 77]);
      else if (frame[4] === 'b' ? lost === 0 : lost > 0 && lost < 3 && frame[4] === 'a') {
        lost++;
        link.close(new Error('gone'));
      } else answer(frame, link);
    });
    const tx = await db.begin();
    await db.run('a', [], tx);
    const [outcome] = await Promise.allSettled([db.run('b', [], tx)]);
    assert.equal(codeOf(outcome), progress < 0 ? 'WRITER_LOST' : undefined);
    if (outcome.status === 'rejected') assert.match(String(outcome.reason), /rolled back/);
    await db.run('c');
    assert.equal(lost, deaths);
  });
}

test('a commit that was sent may be stored where no writer says how far it came', async () => {
  serve((frame, link) => {
    if (isResume(frame) || frame[2] === DbOp.commit) link.close(new Error('gone'));
    else link.send([Kind.dbResult, frame[1], frame[2] === DbOp.begin ? 77 : RESULT]);
  });
  const tx = await db.begin();
  await assert.rejects(db.commit(tx), { code: 'WRITER_LOST', message: /unknown/ });
});

test('a writer that is lost before it says how far the one before came makes nothing unknown', async () => {
  let resumes = 0;
  serve((frame, link) => {
    if (isResume(frame) && ++resumes > 2) link.send([Kind.resumed, 0, 0]);
    else if (resumes > 2) link.send([Kind.dbResult, frame[1], frame[2] === DbOp.begin ? 77 : RESULT]);
    else if (frame[2] === DbOp.begin) link.send([Kind.dbResult, frame[1], 77]);
    else link.close(new Error('gone'));
  });
  const tx = await db.begin();
  const behind = db.run('behind');
  await db.commit(tx);
  assert.deepEqual(await behind, RESULT);
  assert.equal(resumes, 3);
});

test('operations of a transaction that is repeated have their numbers, by which a commit refers to them', async () => {
  const seen = new Map<unknown, unknown[]>();
  serve((frame, link) => {
    if (isResume(frame)) {
      link.send([Kind.resumed, 0, 0]);
      return;
    }
    const [, id, op, , sql] = frame;
    seen.set(sql, [...(seen.get(sql) ?? []), id]);
    if (sql === 'b' && seen.get(sql)?.length === 1) link.close(new Error('gone'));
    else link.send([Kind.dbResult, id, op === DbOp.begin ? 77 : RESULT]);
  });
  const tx = await db.begin();
  await db.run('a', [], tx);
  await Promise.all([db.run('b', [], tx), db.commit(tx)]);
  assert.deepEqual(
    ['a', 'b', 3].map((sql) => seen.get(sql)),
    [
      [2, 2],
      [3, 3],
      [4, 4],
    ],
  );
});

test('what is asked of a transaction just when it is repeated is sent once, after what waited', async () => {
  const seen: unknown[] = [];
  let isNext = false;
  serve((frame, link) => {
    if (isResume(frame)) {
      isNext = true;
      link.send([Kind.resumed, 0, 0]);
      return;
    }
    const [, id, op, , sql] = frame;
    if (isNext) seen.push(sql);
    if (sql === 'b' && !isNext) link.close(new Error('gone'));
    else if (sql !== 'outside') link.send([Kind.dbResult, id, op === DbOp.begin ? 77 : RESULT]);
    // Both answers come at once.
    if (isNext && sql === 'a') link.send([Kind.dbError, outside, { code: 'SQLITE_BUSY', message: '' }]);
  });
  const tx = await db.begin();
  await db.run('a', [], tx);
  const outside = 3;
  const asked = db.run('outside').catch(() => db.run('c', [], tx));
  await db.run('b', [], tx);
  await asked;
  assert.deepEqual(seen.slice(1), ['outside', 'a', 'b', 'c']);
});

test('a client follows its database to a separate writer, and back when that is gone', async () => {
  const shared = { sends: true, served: [] as unknown[] };
  const own = join(directory, 'own.sock');
  serve((frame, link) => {
    if (isResume(frame)) link.send([Kind.resumed, 0, 0]);
    else if (shared.sends) {
      link.send([Kind.elsewhere, own]);
      link.close();
    } else {
      shared.served.push(frame[4]);
      answer(frame, link);
    }
  });
  const links: Link[] = [];
  const served: unknown[] = [];
  const second = createServer((socket) => {
    const onFrame = (frame: Frame, link: Link) => {
      served.push(frame[4]);
      answer(frame as FrameOf<'db'>, link);
    };
    links.push(new Link(socket, { onFrame, onClose: () => {} }));
  }).listen(own);
  await Promise.all([db.run('a'), db.run('b')]);
  assert.deepEqual([served, shared.served], [['a', 'b'], []]);
  shared.sends = false;
  const closed = once(second, 'close');
  second.close();
  for (const link of links) link.close(new Error('gone'));
  await closed;
  await db.run('c');
  assert.deepEqual([served, shared.served], [['a', 'b'], ['c']]);
});

test('operations sent while a writer is replaced follow the waiting ones; a transaction cannot continue', async () => {
  const seen: unknown[] = [];
  let lost = false;
  serve((frame, link) => {
    if (isResume(frame)) {
      void Promise.resolve().then(async () => {
        await assert.rejects(db.run('late', [], 5), { code: 'WRITER_LOST' });
        later.push(db.run('b'));
        link.send([Kind.resumed, 0, 0]);
      });
    } else if (!lost) {
      lost = true;
      link.close(new Error('gone'));
    } else {
      seen.push(frame[4]);
      answer(frame, link);
    }
  });
  const later: Promise<unknown>[] = [];
  await db.run('a');
  await Promise.all(later);
  assert.deepEqual(seen, ['a', 'b']);
});

test('operations wait for a writer that is not there yet, and are sent once', async () => {
  const early = [db.run('a'), db.run('b')];
  // The first try has failed when the server appears.
  await assert.rejects(new Promise((_, reject) => connect(path).on('error', reject)), { code: 'ENOENT' });
  const seen: unknown[] = [];
  serve((frame, link) => {
    seen.push(frame[4]);
    answer(frame, link);
  });
  await Promise.all([...early, db.run('c')]);
  assert.deepEqual(seen, ['a', 'b', 'c']);
});

test('a value that fits no frame fails its own operation only', async () => {
  serve(answer);
  const [tooLarge, fine] = await Promise.allSettled([db.run('a', [2n ** 64n]), db.run('b', [1])]);
  assert.equal(tooLarge.status === 'rejected' && (tooLarge.reason as { code: string }).code, 'SQLITE_TOOBIG');
  assert.equal(fine.status, 'fulfilled');
});

test('a frame that is not an answer ends the connection', async () => {
  serve((_, link) => link.send([Kind.cancel, 1, 'deadline'] as Frame));
  await assert.rejects(db.run('a'), { code: 'WRITER_LOST' });
});

test('end rejects outstanding operations', async () => {
  serve(() => {});
  const asked = db.run('a');
  db.end();
  await assert.rejects(asked, { code: 'WRITER_LOST' });
});
