/** A small file system of its own (tmpfs), for what runs full. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Mounts one of this size (`16m`) at a new folder; answers what unmounts it. Throws where that is not permitted. */
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
