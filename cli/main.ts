/** The `svc` command's entry. */
import { LIMITS } from '../protocol/limits.ts';
import { COMMANDS } from './commands.ts';
import { reasonOf } from './dev/file-fault.ts';
import { EXIT } from './failure.ts';
import { runCommandLine } from './run-command-line.ts';

const { outlivesOutput = false } = COMMANDS.find(({ name }) => name === process.argv[2]) ?? {};
const end = (): void => process.exit(exitCode);

process.stdout.on('error', (error) => {
  if (!outlivesOutput) endWithout(error);
});
// What is only noted may be lost.
process.stderr.on('error', () => {});

const exitCode = await runCommandLine(process.argv.slice(2), {
  env: process.env,
  cwd: process.cwd(),
  platform: process.platform,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
});
// Once all is written it ends, whatever handle may still be open: a gateway that was stopped must not live on.
process.stdout.write('', (error) => {
  if (error && !outlivesOutput) endWithout(process.stdout.errored ?? error);
  else end();
});
// What waits then, perhaps nobody ever reads.
if (outlivesOutput) setTimeout(end, LIMITS.logDrainMs);

/** When stdout takes no more. */
function endWithout(error: NodeJS.ErrnoException): void {
  // A reader that has seen enough (`svc logs -f | head`) is no failure.
  if (error.code === 'EPIPE') process.exit(EXIT.ok);
  process.stderr.write(`✗ Standard output cannot be written: ${reasonOf(error)}.\n`);
  process.exit(EXIT.failed);
}
