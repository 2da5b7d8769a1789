import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { type Mark, MarkWriter, readMark } from './mark.ts';
import { NO_LOG } from './wal-pages.ts';

function writerOf(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-mark-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const file = join(folder, 'data.sqlite');
  const writer = new MarkWriter(file);
  const seq = (): number | undefined => readMark(file)?.seq;
  return { writer, seq, later: () => t.mock.timers.tick(LIMITS.logMarkMs) };
}

const at = (seq: number): Mark => ({ seq, epoch: 1, checksum: 7, place: NO_LOG });

test('the last of the marks that follow each other is written a little later', (t) => {
  const { writer, seq, later } = writerOf(t);
  writer.write(at(1));
  writer.writeSoon(at(2));
  writer.writeSoon(at(3));
  assert.equal(seq(), 1);
  later();
  assert.equal(seq(), 3);
  writer.writeSoon(at(4));
  writer.close();
  assert.equal(seq(), 4);
});

test('a mark that is written at once, or cleared, is not replaced by an earlier one', (t) => {
  const { writer, seq, later } = writerOf(t);
  writer.writeSoon(at(1));
  writer.write(at(2));
  later();
  assert.equal(seq(), 2);
  writer.writeSoon(at(3));
  writer.clear();
  later();
  writer.close();
  assert.equal(seq(), undefined);
});
