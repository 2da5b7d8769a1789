import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { pino } from 'pino';
import { LIMITS } from '../../protocol/limits.ts';
import { createLog, LogStream, streamOf } from './log-stream.ts';

let written: string;
/** What the output does; null takes everything. */
let refuses: ((bytes: Buffer) => number) | null;

beforeEach(() => {
  written = '';
  refuses = null;
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
});
afterEach(() => mock.timers.reset());

const take = (bytes: Buffer, count = bytes.length): number => {
  written += bytes.toString('utf8', 0, count);
  return count;
};
const stream = () => new LogStream({ output: (bytes) => (refuses === null ? take(bytes) : refuses(bytes)) });
const fail = (code: string) => () => {
  throw Object.assign(new Error(code), { code });
};
const retry = () => mock.timers.tick(LIMITS.logRetryMs);
const lines = () => written.split('\n').slice(0, -1);
const notice = () => JSON.parse(lines().at(-1) ?? '') as { level: number; msg: string };

test('lines are written at once', () => {
  const log = stream();
  log.write('{"msg":"one"}\n');
  assert.equal(written, '{"msg":"one"}\n');
  log.write('{"msg":"two"}\n');
  assert.equal(written, '{"msg":"one"}\n{"msg":"two"}\n');
});

for (const code of ['ENOSPC', 'EAGAIN', 'EPIPE', 'EIO']) {
  test(`after ${code} lines wait, are written in order once that is over, and none is lost`, () => {
    const log = stream();
    refuses = fail(code);
    for (let i = 0; i < 100; i++) log.write(`{"n":${i}}\n`);
    retry();
    retry();
    assert.equal(written, '');
    refuses = null;
    retry();
    assert.deepEqual(
      lines(),
      Array.from({ length: 100 }, (_, i) => `{"n":${i}}`),
    );
    assert.equal(log.droppedLines, 0);
  });
}

test('a partial write continues where it stopped', () => {
  const log = stream();
  let calls = 0;
  refuses = (bytes) => (calls++ === 0 ? take(bytes, 5) : fail('ENOSPC')());
  log.write('{"msg":"a line"}\n');
  log.write('{"msg":"another"}\n');
  refuses = null;
  retry();
  assert.deepEqual(lines(), ['{"msg":"a line"}', '{"msg":"another"}']);
});

test('waiting lines are bounded; more are dropped, counted, and reported once', async () => {
  const log = stream();
  refuses = fail('ENOSPC');
  const line = `{"pad":"${'x'.repeat(1000)}"}\n`;
  const fit = Math.floor(LIMITS.logBacklogBytes / line.length);
  for (let i = 0; i < fit + 7; i++) log.write(line);
  assert.equal(log.droppedLines, 7);
  refuses = null;
  retry();
  assert.equal(lines().length, fit + 1);
  assert.deepEqual([notice().level, notice().msg.includes('dropped here: 7.')], [40, true], notice().msg);
  assert.match(notice().msg, /ENOSPC/);
  log.write('{"msg":"later"}\n');
  retry();
  assert.equal(lines().length, fit + 2);
  assert.equal(log.droppedLines, 7);
});

test('at the end a slow reader gets a moment, a full disk none', async () => {
  mock.timers.reset();
  const log = stream();
  refuses = fail('EAGAIN');
  log.write('{"msg":"slow"}\n');
  const drained = log.drain();
  refuses = null;
  await drained;
  assert.equal(written, '{"msg":"slow"}\n');
  let tries = 0;
  refuses = () => {
    tries++;
    return fail('ENOSPC')();
  };
  log.write('{"msg":"full"}\n');
  await log.drain();
  assert.equal(tries, 1, 'it is not tried again');
});

test('a line cannot drive the terminal of whoever looks at the log, and is the same JSON', () => {
  const log = pino({ base: null }, stream());
  const msg = 'from an app: \u001b[2J\u009b31m\u202e\nforged';
  log.info({ field: '\u0085' }, msg);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there.
  assert.doesNotMatch(lines()[0] ?? '', /[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/);
  const entry = JSON.parse(lines()[0] ?? '') as Record<string, unknown>;
  assert.deepEqual([entry.msg, entry.field], [msg, '\u0085']);
});

test("a log of ours is known by its stream, a host's is not", () => {
  assert.equal(
    streamOf(createLog({ log: 'silent', logFile: null, dataDir: '' }).child({ app: 'notes' }))?.droppedLines,
    0,
  );
  assert.equal(streamOf(pino({ level: 'silent' })), null);
});
