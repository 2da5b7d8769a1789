/** CPU and memory of another process as the operating system counts them, so that a stuck child need not be asked. */
import { readFile } from 'node:fs/promises';

/** Bytes and milliseconds. `null` where the system does not tell (no `/proc`). */
export type ProcessUsage = { rss: number; cpuMs: number };

// Linux reports both in these units on every architecture Node runs on.
const TICK_MS = 10;
const PAGE_BYTES = 4096;

export async function processUsage(pid: number): Promise<ProcessUsage | null> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    // The command name in parentheses may hold spaces; the numbered fields start after it, at field 3.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = Number(fields[11]) + Number(fields[12]);
    return { rss: Number(fields[21]) * PAGE_BYTES, cpuMs: ticks * TICK_MS };
  } catch {
    return null;
  }
}
