// Loaded into the process of each test file: notes at its end, in SVC_TEST_TIMES, how many seconds it took and how many seconds of
// processor time its processes used.
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const STAT = '/proc/self/stat';
// Linux counts in this unit on every architecture that Node runs on.
const TICKS = 100;

/** Of this process and of all that it waited for, user and system. Elsewhere than on Linux of this process alone. */
function processorSeconds() {
  if (!existsSync(STAT)) {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  }
  const stat = readFileSync(STAT, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) / TICKS;
}

const [, file] = process.argv;
if (isMainThread && file?.endsWith('.test.js')) {
  process.on('exit', () => {
    const line = JSON.stringify([file, performance.now() / 1000, processorSeconds()]);
    appendFileSync(process.env.SVC_TEST_TIMES, `${line}\n`);
  });
}
