/** A small separate file system (tmpfs), for tests of full disks. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Mounts one of this size (`16m`) at a new folder; returns a function that unmounts it. Throws if that is not
 * permitted.
 */
export function mountSmall(at: string, size: string): () => void {
  mkdirSync(at);
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'none', at], { stdio: 'pipe' });
  return () => execFileSync('umount', [at]);
}

/** Why none can be mounted here, or null. */
export function whyNoSmallDisk(): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'svc-mount-'));
  try {
    mountSmall(join(folder, 'disk'), '1m')();
    return null;
  } catch (error) {
    return `a tmpfs cannot be mounted here (${(error as Error).message.trim()})`;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
