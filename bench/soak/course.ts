/** What a daemon holds over time: memory of each process, the supervisor's heap after collections, descriptors, threads, files. */
import { readdirSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { memoryOf } from '../../testing/processes.ts';
import type { Daemon } from '../daemon.ts';
import { median, slope } from '../statistics.ts';

/** Bytes and counts, `at` so many seconds after the load began; processes by name. */
export type Sample = {
  at: number;
  pss: Record<string, number>;
  rss: Record<string, number>;
  /** Of the supervisor, after a forced collection: JavaScript objects, and the buffers that they hold outside of the heap. */
  heap: { heapUsed: number; arrayBuffers: number };
  descriptors: Record<string, number>;
  threads: Record<string, number>;
  /** Below the data directory. */
  files: { count: number; bytes: number };
};

const PROBE = fileURLToPath(new URL('./heap-probe.mjs', import.meta.url));

/** Flags of Node with which a process tells its heap at `socket`; the path of a socket has about a hundred characters at most. */
export function probeFlags(socket: string): string[] {
  return ['--expose-gc', '--import', `${PROBE}?${encodeURIComponent(socket)}`];
}

/** Takes samples until it is told to end. */
export async function takeCourse(
  daemon: Daemon,
  heapSocket: string,
  { everyMs, until, onSample }: { everyMs: number; until: AbortSignal; onSample(sample: Sample): void },
): Promise<Sample[]> {
  const startedAt = performance.now();
  const samples: Sample[] = [];
  while (!until.aborted) {
    // A process may have been replaced.
    await daemon.refresh();
    const heap = (await json(connect(heapSocket))) as Sample['heap'];
    const memories = daemon.processes.map(({ name, pid }) => ({ name, pid, ...memoryOf(pid) }));
    const byName = <T>(of: (process: (typeof memories)[number]) => T): Record<string, T> =>
      Object.fromEntries(memories.map((process) => [process.name, of(process)]));
    const sample: Sample = {
      at: (performance.now() - startedAt) / 1000,
      pss: byName(({ pss }) => pss),
      rss: byName(({ rss }) => rss),
      heap,
      descriptors: byName(({ pid }) => entriesOf(`/proc/${pid}/fd`).length),
      threads: byName(({ pid }) => entriesOf(`/proc/${pid}/task`).length),
      files: filesBelow(daemon.dataDir),
    };
    samples.push(sample);
    onSample(sample);
    await wait(everyMs, undefined, { signal: until }).catch(() => {});
  }
  return samples;
}

/** How a number went through the second half of the time: its middle, and by what share of that it grew. */
export type Growth = { middle: number; share: number };

/** The growth is that of the line with the median slope of all pairs (Theil–Sen), so that no single sample decides it. */
export function secondHalf(samples: Sample[], of: (sample: Sample) => number): Growth {
  const end = samples.at(-1)?.at ?? 0;
  const points = samples.filter(({ at }) => at >= end / 2).map((sample) => ({ x: sample.at, y: of(sample) }));
  const middle = median(points.map(({ y }) => y));
  const rise = points.length < 2 ? 0 : slope(points) * ((points.at(-1)?.x ?? 0) - (points[0]?.x ?? 0));
  return { middle, share: middle === 0 ? 0 : rise / middle };
}

export function sum(values: Record<string, number>): number {
  return Object.values(values).reduce((total, value) => total + value, 0);
}

/** Nothing when the folder is gone, as that of a process that ended is. */
function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Files come and go while they are counted. */
function filesBelow(folder: string): Sample['files'] {
  const found = { count: 0, bytes: 0 };
  for (const name of entriesOf(folder)) {
    const path = join(folder, name);
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat?.isDirectory()) {
      const below = filesBelow(path);
      found.count += below.count;
      found.bytes += below.bytes;
    } else if (stat) {
      found.count++;
      found.bytes += stat.size;
    }
  }
  return found;
}
