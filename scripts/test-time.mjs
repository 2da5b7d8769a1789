// Loaded into the process of each test file: notes how long it took, in seconds, at the end of SVC_TEST_TIMES.
import { appendFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const [, file] = process.argv;
if (isMainThread && file?.endsWith('.test.ts')) {
  process.on('exit', () => {
    const line = JSON.stringify([file, Math.round(performance.now() / 100) / 10]);
    appendFileSync(process.env.SVC_TEST_TIMES, `${line}\n`);
  });
}
