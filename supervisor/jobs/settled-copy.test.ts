import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { settledCopy } from './settled-copy.ts';

function setUp(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'data.sqlite');
  writeFileSync(file, 'of now');
  const steps: string[] = [];
  const replace = (): void => {
    writeFileSync(`${file}.new`, 'fetched again');
    renameSync(`${file}.new`, file);
  };
  return { file, steps, replace, copy: async () => void steps.push('copied') };
}

test('a copy is there when the log has what is in it, and not before', async (t) => {
  const { file, steps, copy } = setUp(t);
  let confirm = (): void => {};
  const settled = () => {
    steps.push('asked');
    return new Promise<void>((resolve) => {
      confirm = resolve;
    }).then(() => void steps.push('confirmed'));
  };
  const copied = settledCopy(file, settled, copy).then(() => void steps.push('there'));
  while (steps.length < 2) await new Promise(setImmediate);
  confirm();
  await copied;
  assert.deepEqual(steps, ['copied', 'asked', 'confirmed', 'there']);
});

test('what the log refuses is no copy', async (t) => {
  const { file, copy } = setUp(t);
  const refused = new Error('Another node has it.');
  await assert.rejects(
    settledCopy(file, () => Promise.reject(refused), copy),
    refused,
  );
});

test('a copy of a file that was replaced meanwhile is made again, and given up where that goes on', async (t) => {
  const { file, steps, replace, copy } = setUp(t);
  const once = () => {
    if (steps.length === 1) replace();
    return null;
  };
  await settledCopy(file, once, copy);
  assert.equal(steps.length, 2);
  const always = () => {
    replace();
    return null;
  };
  await assert.rejects(settledCopy(file, always, copy), { code: 'STORAGE_UNAVAILABLE' });
});
