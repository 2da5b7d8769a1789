/**
 * "The busy loop": computes now and then, at the lowest priority, and touches nothing else. What a load notices of it is what
 * the machine itself makes of somebody who computes beside.
 *
 * `busy-loop.ts`: for each line of JSON (`BusyShare`) on standard input, goes on with that share. Prints `{}` when it is
 * ready, ends when standard input does.
 */
import { constants, setPriority } from 'node:os';
import { createInterface } from 'node:readline';

/** So many milliseconds of computing in each `everyMs`. */
export type BusyShare = { busyMs: number; everyMs: number };

setPriority(constants.priority.PRIORITY_LOW);

let timer: NodeJS.Timeout | undefined;

function compute(ms: number): void {
  const { user, system } = process.cpuUsage();
  const until = user + system + ms * 1000;
  for (let used = 0; used < until; ) {
    const usage = process.cpuUsage();
    used = usage.user + usage.system;
  }
}

const input = createInterface(process.stdin);
input.on('line', (line) => {
  const { busyMs, everyMs } = JSON.parse(line) as BusyShare;
  clearInterval(timer);
  if (busyMs > 0) timer = setInterval(compute, everyMs, busyMs);
});
input.on('close', () => process.exit(0));
process.stdout.write('{}\n');
