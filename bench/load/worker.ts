/** What runs in a load generator's process. */
import { closedLoop } from './closed-loop.ts';
import { fanOut } from './fan-out.ts';
import type { LoadResult, LoadTask } from './task.ts';

export async function run(task: LoadTask): Promise<LoadResult> {
  const before = process.cpuUsage();
  const result = await (task.subscribe ? fanOut(task) : closedLoop(task));
  const { user, system } = process.cpuUsage(before);
  return { ...result, cpuMs: (user + system) / 1000 };
}
