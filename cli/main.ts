/** The `svc` command's entry. */
import { LIMITS } from '../protocol/limits.ts';
import { EXIT, reasonOf, systemStep } from './failure.ts';
import { runCommandLine } from './run-command-line.ts';

/** A gateway keeps running when its output can no longer be written. */
const outlivesOutput = process.argv[2] === 'serve';

process.stdout.on('error', (error) => {
  if (!outlivesOutput) endWithout(error);
});
// Notes may be lost.
process.stderr.on('error', () => {});

const { env, platform, stdin, stdout, stderr } = process;
const machine = { env, cwd: process.cwd(), platform, stdin, stdout, stderr };
void runCommandLine(process.argv.slice(2), machine).then((exitCode) => {
  const end = (): void => process.exit(exitCode);
  // Exits when everything is written, even with open handles: a stopped gateway must not keep running.
  process.stdout.write('', (error) => {
    if (error && !outlivesOutput) endWithout(process.stdout.errored ?? error);
    else end();
  });
  // The rest of the output may never be read.
  if (outlivesOutput) setTimeout(end, LIMITS.logDrainMs);
});

/** Ends the command when stdout can no longer be written. */
function endWithout(error: NodeJS.ErrnoException): void {
  // A reader that stops reading (`svc logs -f | head`) is not a failure.
  if (error.code === 'EPIPE') process.exit(EXIT.ok);
  process.stderr.write(`✗ Standard output cannot be written: ${reasonOf(error)}.\n  ${systemStep(error)}\n`);
  process.exit(EXIT.failed);
}
