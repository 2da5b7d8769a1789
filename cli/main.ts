/** The `svc` command's entry. */
import { runCommandLine } from './run.ts';

// A reader that has seen enough (`svc logs -f | head`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});

const exitCode = await runCommandLine(process.argv.slice(2), {
  env: process.env,
  cwd: process.cwd(),
  platform: process.platform,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
});
// Once all is written it ends, whatever handle may still be open: a gateway that was stopped must not live on.
process.stdout.write('', () => process.exit(exitCode));
