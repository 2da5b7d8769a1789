/**
 * "The busy loop": computes now and then, at the lowest priority, and touches nothing else. What a load notices of it is what
 * the machine itself makes of somebody who computes beside.
 *
 * `busy-loop.ts <busyMs> <everyMs>`: so many milliseconds of computing in each `everyMs`. Prints `{}` when it is ready.
 */
import { constants, setPriority } from 'node:os';

const [busyMs, everyMs] = process.argv.slice(2).map(Number) as [number, number];

function compute(): void {
  const { user, system } = process.cpuUsage();
  const until = user + system + busyMs * 1000;
  for (let used = 0; used < until; ) {
    const usage = process.cpuUsage();
    used = usage.user + usage.system;
  }
}

setPriority(constants.priority.PRIORITY_LOW);
setInterval(compute, everyMs);
process.stdin.on('end', () => process.exit(0)).resume();
process.stdout.write('{}\n');
