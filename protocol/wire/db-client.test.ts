import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { DbClient } from './db-client.ts';
import { DbOp, type Frame, type FrameOf, Kind } from './frames.ts';
import { Link } from './link.ts';

let directory: string;
let path: string;
let db: DbClient;
let server: Server | null;
/** Of the connections, in their order. */
let sessions: number[];

/** A writer that does with each request what the test says. */
function serve(onRequest: (frame: FrameOf<'db'>, link: Link) => void): void {
  server = createServer((socket) => {
    new Link(socket, { onFrame: (frame, link) => onRequest(frame as FrameOf<'db'>, link), onClose: () => {} });
  }).listen(path);
}

const isResume = (frame: Frame): frame is FrameOf<'resume'> => frame[0] === Kind.resume;
const RESULT = { changes: 1, lastInsertRowid: 1 };
const answer = (frame: FrameOf<'db'>, link: Link): void => link.send([Kind.dbResult, frame[1], RESULT]);

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'db-client-'));
  path = join(directory, 'writer.sock');
  server = null;
  db = new DbClient((handlers, session) => {
    sessions.push(session);
    return new Link(connect(path), handlers);
  });
  sessions = [];
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
    else if (isResume(frame)) link.send([Kind.resumed, -1]);
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

test('only operations that had not begun are sent again after a lost connection', async () => {
  const seen: unknown[] = [];
  let resumed: Frame | null = null;
  serve((frame, link) => {
    if (isResume(frame)) {
      resumed = frame;
      // Of a and b the first had begun; the transaction was lost with the writer.
      link.send([Kind.resumed, 2]);
    } else if (resumed !== null) {
      seen.push(frame[4]);
      answer(frame, link);
    } else if (frame[4] === 'c') link.close(new Error('gone'));
    else if (frame[2] === DbOp.begin) link.send([Kind.dbResult, frame[1], 77]);
  });
  const tx = await db.begin();
  const [begun, inTransaction, waiting] = await Promise.allSettled([
    db.run('a'),
    db.run('b', [], tx),
    db.run('c').then((result) => [result, sessions]),
  ]);
  const codeOf = (outcome: PromiseSettledResult<unknown> | undefined) =>
    outcome?.status === 'rejected' && (outcome.reason as { code: string }).code;
  assert.deepEqual([codeOf(begun), codeOf(inTransaction)], ['WRITER_LOST', 'WRITER_LOST']);
  assert.deepEqual(waiting?.status === 'fulfilled' && waiting.value, [RESULT, sessions]);
  assert.deepEqual(seen, ['c']);
  assert.deepEqual(resumed, [Kind.resume, sessions[0]]);
  assert.equal(new Set(sessions).size, 2);
});

test('operations sent while a writer is replaced follow the waiting ones; a transaction cannot continue', async () => {
  const seen: unknown[] = [];
  let lost = false;
  serve((frame, link) => {
    if (isResume(frame)) {
      void Promise.resolve().then(async () => {
        await assert.rejects(db.run('late', [], 5), { code: 'WRITER_LOST' });
        later.push(db.run('b'));
        link.send([Kind.resumed, 0]);
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
