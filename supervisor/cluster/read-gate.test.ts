import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { SvcError } from '../../protocol/errors.ts';
import { openSqlite } from '../../storage/sqlite.ts';
import { StateReader } from '../../storage/wal-index.ts';
import { within } from '../../testing/waiting.ts';
import { ReadGate } from './read-gate.ts';

const APP = 'notes';

/** A database that commits, and a log that confirms when it is told to. */
function opened(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  const file = join(folder, 'data.sqlite');
  const questions: { confirm(): void; refuse(): void }[] = [];
  let ended = 0;
  const gate = new ReadGate({
    file: () => file,
    open: () => ({
      confirm: () =>
        new Promise<void>((resolve, reject) => {
          const refuse = () => reject(new SvcError('STORAGE_UNAVAILABLE', 'The log does not answer.'));
          questions.push({ confirm: resolve, refuse });
        }),
      end: () => ended++,
    }),
  });
  let db: ReturnType<typeof openSqlite> | null = null;
  const commit = () => {
    if (db === null) {
      db = openSqlite(file, {});
      db.pragma('journal_mode = WAL');
      db.exec('CREATE TABLE notes (v INTEGER)');
    } else db.exec('INSERT INTO notes VALUES (1)');
  };
  const reader = new StateReader(file);
  t.after(() => {
    gate.close();
    reader.close();
    db?.close();
    rmSync(folder, { recursive: true, force: true });
  });
  let reads = 0;
  /** As the writer does that fetches the database anew. */
  const replace = () => {
    copyFileSync(file, `${file}-fetched`);
    for (const path of [`${file}-wal`, `${file}-shm`, file]) rmSync(path);
    renameSync(`${file}-fetched`, file);
  };
  return { gate, questions, commit, replace, state: () => reader.read(++reads), ended: () => ended };
}

test('an answer that may show a commit waits until the log has it, and all that wait ask once', async (t) => {
  const { gate, questions, commit } = opened(t);
  assert.equal(gate.settled(APP), null, 'nothing can be read without a file');
  commit();
  const first = gate.settled(APP) as Promise<void>;
  await Promise.resolve();
  assert.equal(questions.length, 1);
  commit();
  const second = gate.settled(APP) as Promise<void>;
  const third = gate.settled(APP) as Promise<void>;
  assert.equal(questions.length, 1, 'the first question was asked before the second commit');
  questions[0]?.confirm();
  await first;
  assert.equal(await within(20, second), 'late');
  assert.equal(questions.length, 2);
  questions[1]?.confirm();
  await Promise.all([second, third]);
  assert.equal(gate.settled(APP), null);
  assert.equal(questions.length, 2);
});

test('answers of one piece share a look at the database, and those of the next one do not', async (t) => {
  const { gate, questions, commit } = opened(t);
  commit();
  const waits = gate.settled(APP, 1) as Promise<void>;
  await Promise.resolve();
  questions[0]?.confirm();
  await waits;
  assert.equal(gate.settled(APP, 2), null);
  commit();
  assert.equal(gate.settled(APP, 2), null, 'it was read before the commit');
  const later = gate.settled(APP, 3) as Promise<void>;
  await Promise.resolve();
  questions[1]?.confirm();
  await later;
  assert.equal(gate.settled(APP), null);
  commit();
  assert.notEqual(gate.settled(APP), null, 'nobody says what it was read with');
});

test('a note of the writer that the log has a commit spares the question', async (t) => {
  const { gate, questions, commit, state } = opened(t);
  commit();
  const waits = gate.settled(APP) as Promise<void>;
  await Promise.resolve();
  questions[0]?.confirm();
  await waits;
  commit();
  gate.committed(APP, state());
  assert.equal(gate.settled(APP), null);
  assert.equal(questions.length, 1);
});

test('what the log will not have is an error, and the next answer asks again', async (t) => {
  const { gate, questions, commit, ended } = opened(t);
  commit();
  const waits = gate.settled(APP) as Promise<void>;
  await Promise.resolve();
  questions[0]?.refuse();
  await assert.rejects(waits, { code: 'STORAGE_UNAVAILABLE' });
  const again = gate.settled(APP) as Promise<void>;
  await Promise.resolve();
  questions[1]?.confirm();
  await again;
  gate.forget(APP);
  assert.equal(ended(), 1);
});

test('what was read of a file that another one took the place of is an error, however soon the log answers', async (t) => {
  const { gate, questions, commit, replace } = opened(t);
  commit();
  const waits = gate.settled(APP) as Promise<void>;
  await Promise.resolve();
  replace();
  questions[0]?.confirm();
  await assert.rejects(waits, { code: 'STORAGE_UNAVAILABLE' });
  const again = gate.settled(APP) as Promise<void>;
  await Promise.resolve();
  questions[1]?.confirm();
  await again;
});
