/** Compiles the LD_PRELOAD shims of this folder. */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Why no shim can be used here, or null. */
export function whyNoShim(): string | null {
  if (process.platform !== 'linux') return 'the disk shim needs Linux';
  try {
    execFileSync('cc', ['--version'], { stdio: 'ignore' });
    return null;
  } catch {
    return 'the disk shim needs a C compiler (cc)';
  }
}

export function compileShim(source: 'powercut.c' | 'crash.c' | 'fsyncs.c' | 'clock.c', library: string): void {
  const path = fileURLToPath(new URL(source, import.meta.url));
  execFileSync('cc', ['-shared', '-fPIC', '-O2', '-Wall', '-Wextra', '-Werror', '-o', library, path, '-ldl']);
}
