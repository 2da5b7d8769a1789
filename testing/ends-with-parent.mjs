// Loaded into a daemon that a test starts: asks it to stop when its standard input, a pipe from the test, is closed.
import { isMainThread } from 'node:worker_threads';

/** Time after which a daemon that does not stop is killed. */
const GRACE_MS = 10_000;

if (isMainThread) {
  process.stdin.on('close', () => {
    process.kill(process.pid, 'SIGTERM');
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), GRACE_MS).unref();
  });
  process.stdin.resume().unref();
}
