/**
 * Named places between two durable steps, where a test run can end the process (bench/reliability-notes.md). Without the environment
 * variable `SVC_CRASH_PLAN`, as in every run but those, a point is a call of an empty function.
 *
 * The variable names a file. Each of its lines is a crash to come, `<point> <passing> <process|tree>`: the first line is taken
 * away when its point has been passed that many times, and the process ends. Beside it, `<file>.passed` gets a line
 * `<point> <pid>` for each point that is passed.
 */
import { appendFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

const PLAN = 'SVC_CRASH_PLAN';
/** In a child's environment: the pid of the gateway whose tree it belongs to. */
const TREE = 'SVC_CRASH_TREE';

const plan = process.env[PLAN];

/** `what` tells apart the files that one piece of code writes. */
export const crashPoint: (point: string, what?: string) => void =
  plan === undefined ? () => {} : (point, what) => pass(plan, what === undefined ? point : `${point}:${what}`);

/** What a child of the gateway needs in its environment, which is empty otherwise, for its own points to work. */
export function crashEnvironment(): Record<string, string> {
  return plan === undefined ? {} : { [PLAN]: plan, [TREE]: String(process.pid) };
}

/** The folders that a child under Node's permission model needs for that: none in a run without crashes. */
export function crashFolders(): { readable: string[]; writable: string[] } {
  return plan === undefined ? { readable: [], writable: [] } : { readable: ['/proc'], writable: [dirname(plan)] };
}

/** Synchronous throughout: nothing of the process may run between the step before the point and its end. */
function pass(file: string, point: string): void {
  appendFileSync(`${file}.passed`, `${point} ${process.pid}\n`);
  const [next = '', ...later] = readFileSync(file, 'utf8').split('\n');
  const [wanted, passing, mode] = next.split(' ');
  if (wanted !== point) return;
  const left = Number(passing) - 1;
  if (left > 0) {
    writeFileSync(file, [`${wanted} ${left} ${mode}`, ...later].join('\n'));
    return;
  }
  writeFileSync(file, later.join('\n'));
  if (mode === 'tree') killTree(Number(process.env[TREE] ?? process.pid));
  process.kill(process.pid, 'SIGKILL');
}

/** The gateway first, so that it sees none of its children end; this process last, for it has to do it. */
function killTree(root: number): void {
  const children = childrenOf(root);
  for (const pid of [root, ...children]) if (pid !== process.pid) process.kill(pid, 'SIGKILL');
}

function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && parentOf(name) === pid)
    .map(Number);
}

/** Null for a process that ended meanwhile. The program's name before the fields is in parentheses and may hold anything. */
function parentOf(pid: string): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return null;
  }
}
