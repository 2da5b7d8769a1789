// Chooses where tests write: in memory, where there is room and programs may run. What a full or failing disk does is tried with file
// systems of their own; no other test needs a disk of the machine, and each commit would wait for it.
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const IN_MEMORY = '/dev/shm';
/** More than four files of tests use at a time, beside their processes. */
const NEEDED_BYTES = 6 * 1024 ** 3;

/** The folder for TMPDIR, which the end of this process removes if it is in memory. What the environment names is kept. */
export function temporaryFolder() {
  if (process.env.TMPDIR !== undefined || !hasRoom()) return tmpdir();
  removeOld();
  const folder = mkdtempSync(join(IN_MEMORY, `svc-${process.pid}-`));
  process.on('exit', () => remove(folder));
  if (!runsPrograms(folder)) return tmpdir();
  // As /tmp: PostgreSQL runs as another user.
  chmodSync(folder, 0o1777);
  return folder;
}

function hasRoom() {
  try {
    const { bavail, bsize } = statfsSync(IN_MEMORY);
    return Math.min(process.availableMemory(), bavail * bsize) >= NEEDED_BYTES;
  } catch {
    return false;
  }
}

function runsPrograms(folder) {
  const program = join(folder, 'try');
  writeFileSync(program, '#!/bin/sh\n', { mode: 0o700 });
  return spawnSync(program).status === 0;
}

/** What a run left that was killed. */
function removeOld() {
  for (const name of readdirSync(IN_MEMORY)) {
    const [, pid] = /^svc-(\d+)-/.exec(name) ?? [];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) remove(join(IN_MEMORY, name));
  }
}

/** A process that ends may still write. */
function remove(folder) {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
}
