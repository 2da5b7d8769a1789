/** What runs in a load generator's process. */
import { closedLoop } from './closed-loop.ts';
import { fanOut } from './fan-out.ts';
import type { LoadResult, LoadTask } from './task.ts';

export function run(task: LoadTask): Promise<LoadResult> {
  return task.subscribe ? fanOut(task) : closedLoop(task);
}
