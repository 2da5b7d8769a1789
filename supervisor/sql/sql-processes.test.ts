// Real processes and a real writer; the clock of statements is short.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import type { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { jobsFlags } from '../../protocol/wire/host-flags.ts';
import { signTicket } from '../../protocol/wire/ticket.ts';
import { damagedData } from '../../storage/apps/app-data.ts';
import { inTime } from '../../testing/waiting.ts';
import { WriterProcess } from '../../testing/writer-process.ts';
import { Child } from '../tree/child.ts';
import { entryPoint, ownReadable, withRealPaths } from '../tree/entry-points.ts';
import { LinkServer } from '../tree/links.ts';
import { SqlProcesses } from './sql-processes.ts';

const ENDLESS = 'WITH n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n) SELECT count(*) FROM n';
const LONG_MS = 60_000;

const folder = mkdtempSync(join(tmpdir(), 'svc-sql-processes-'));
const key = randomBytes(32);
const supervisorSocket = join(folder, 's');
const children = new Map<string, Child>();
const links = new LinkServer(
  key,
  (ticket, link) => (ticket.role === 'sql' ? (children.get(ticket.name)?.attach(link) ?? null) : null),
  () => {},
);
const writer = new WriterProcess(folder);
/** Processes that run. */
const pids = new Set<number>();
let onEnd: () => void = () => {};
/** A statement is about to be sent. */
const onSend: () => void = () => {};
/** Its first statement was sent. */
let onReady: (child: Child) => void = () => {};
let processes: SqlProcesses;

before(async () => {
  await links.listen(supervisorSocket);
  await writer.start();
});
afterEach(async () => {
  await processes.close();
  children.clear();
});
after(async () => {
  links.close();
  await writer.end();
  rmSync(folder, { recursive: true, force: true });
});

function start(options: { sqlMs?: number; idleMs?: number; ended?: string[] } = {}): void {
  processes = new SqlProcesses({
    unsettled: () => null,
    ...options,
    createChild: (name, events) => {
      const child: Child = new Child(
        {
          name,
          role: 'sql',
          entry: entryPoint('sql'),
          flags: jobsFlags({ readable: [...ownReadable(), ...withRealPaths([folder])], writable: [] }),
          bootstrap: () => ({ supervisorSocket, ticket: signTicket({ role: 'sql', name }, key) }),
        },
        {
          ...events,
          onReady: () => {
            events.onReady();
            onReady(child);
          },
          log: () => {},
          onProcess: (pid, _role, alive) => {
            if (alive) pids.add(pid);
            else pids.delete(pid);
            if (pids.size === 0) onEnd();
          },
        },
      );
      children.set(name, child);
      return child;
    },
    onDamaged: async (app, damage) => damagedData(app, damage),
    database: (app, migrated) => {
      onSend();
      return {
        dataFile: join(folder, `${app}.sqlite`),
        migrated,
        writer: { socket: writer.socket, ticket: writer.ticketFor(app) },
      };
    },
    maxResultBytes: 10_000,
    onEnded: (app, what) => options.ended?.push(`${app}: ${what}`),
  });
}

/** Resolves with the rows or the result of a write; rejects with the error, whose `told` says whether its outcome is unknown. */
function run(app: string, sql: string, mode?: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let told = false;
    processes.run(
      app,
      { body: Buffer.from(JSON.stringify({ sql, mode })), migrated: false },
      {
        result: (_status, body) => {
          const { rows, changes } = JSON.parse(Buffer.from(body).toString());
          resolve(rows ?? changes);
        },
        outcomeUnknown: () => {
          told = true;
        },
        failed: (error) => reject(Object.assign(error, { told })),
        faulted: reject,
      },
    );
  });
}

async function failure(statement: Promise<unknown>): Promise<SvcError & { told: boolean }> {
  const failed = await statement.catch((error: SvcError & { told: boolean }) => error);
  assert.ok(failed instanceof Error, `It was answered with ${JSON.stringify(failed)}.`);
  return failed as SvcError & { told: boolean };
}

const ended = (): Promise<void> =>
  new Promise((resolve) => {
    onEnd = resolve;
    if (pids.size === 0) resolve();
  });

test('endless statements of one app hold up no other one, and end with their processes', async () => {
  const log: string[] = [];
  start({ sqlMs: 1000, idleMs: 0, ended: log });
  const answers: string[] = [];
  const endless = [1, 2, 3].map(() => failure(run('a', ENDLESS)).finally(() => answers.push('a')));
  const others = ['b', 'c'].map((app) => run(app, 'SELECT 1').finally(() => answers.push(app)));
  assert.deepEqual(await Promise.all(others), [[[1]], [[1]]]);
  assert.deepEqual(answers.sort(), ['b', 'c'], 'they were answered before the time of the endless ones was up');
  for (const { code, message, told } of await Promise.all(endless)) {
    assert.deepEqual([code, told], ['HANDLER_ERROR', false]);
    assert.match(message, /timed out after 1 s/);
  }
  assert.deepEqual(log, Array(3).fill('a: SQL of a caller timed out after 1 s.'));
  // Those that were killed are gone, and the others end when they have nothing to do.
  await inTime(ended(), 'the end of all processes');
});

test('a statement that reads is run again when its process is killed, once', async () => {
  start({ sqlMs: LONG_MS });
  assert.deepEqual(await run('a', 'SELECT 1'), [[1]]);
  const [pid] = pids;
  const long = run('a', ENDLESS.replace('FROM n)', 'FROM n LIMIT 300000)'));
  process.kill(pid as number, 'SIGKILL');
  assert.deepEqual(await long, [[300_000]]);
});

test('a statement that reads fails when its process is killed twice', async () => {
  start({ sqlMs: LONG_MS });
  onReady = (child) => child.kill('for the test');
  const { code, told, message } = await failure(run('a', ENDLESS, 'read'));
  onReady = () => {};
  assert.deepEqual([code, told], ['HANDLER_ERROR', false]);
  assert.match(message, /ended twice/);
});

test('what a write did is unknown when its time is up or its process ends', async () => {
  start({ sqlMs: 1000 });
  assert.equal(await run('w', 'CREATE TABLE t (n)'), 0);
  assert.equal(await run('w', 'INSERT INTO t VALUES (1)', 'write'), 1);
  const late = await failure(run('w', `INSERT INTO t ${ENDLESS}`, 'write'));
  assert.deepEqual([late.code, late.status, late.told], ['OUTCOME_UNKNOWN', 500, true]);
  assert.match(late.message, /timed out after 1 s\. It may be stored or not/);
  await writer.kill();
  await writer.start();
  assert.deepEqual(await run('w', 'SELECT n FROM t'), [[1]]);
});

test('over the limit statements are refused, and one whose caller leaves while it waits is dropped', async () => {
  start({ sqlMs: 500 });
  const running = Array.from({ length: LIMITS.sqlProcesses / 2 }, () => failure(run('a', ENDLESS)));
  let answered = 0;
  const drop = processes.run(
    'a',
    { body: Buffer.from('{"sql":"SELECT 1"}'), migrated: false },
    {
      result: () => answered++,
      outcomeUnknown: () => answered++,
      failed: () => answered++,
      faulted: () => answered++,
    },
  );
  const waiting = Array.from({ length: LIMITS.sqlQueue / 2 - 1 }, () => run('a', 'SELECT 1'));
  assert.equal((await failure(run('a', 'SELECT 1'))).code, 'OVERLOADED');
  drop();
  waiting.push(run('a', 'SELECT 1'));
  await Promise.all([...running, ...waiting]);
  assert.equal(answered, 0);
});

test('the end lets what runs end, and refuses the rest', async () => {
  start({ sqlMs: 1000 });
  const running = [1, 2].map(() => run('a', ENDLESS.replace('FROM n)', 'FROM n LIMIT 300000)')));
  const waiting = failure(run('a', 'SELECT 1'));
  await processes.close();
  assert.deepEqual(await Promise.all(running), [[[300_000]], [[300_000]]]);
  assert.equal((await waiting).code, 'OVERLOADED');
  assert.equal((await failure(run('a', 'SELECT 1'))).code, 'OVERLOADED');
  assert.equal(pids.size, 0);
});
