/** `svc test`: runs the tests of an app folder. */
import { resolve } from 'node:path';
import { findTests, runTests } from '../app-tests/run-tests.ts';
import { type CommandContext, interruptible } from '../command.ts';
import { readAppId } from '../dev/app-folder.ts';
import { FolderEdits } from '../dev/folder-edits.ts';
import { explain } from '../explain.ts';
import { CommandError, EXIT } from '../failure.ts';

/** The exit code is 1 if a test fails, or if there is none. */
export async function test(context: CommandContext): Promise<number> {
  const { args, terminal, cwd } = context;
  const folder = resolve(cwd, args.at(0));
  readAppId(folder);
  const once = (signal: AbortSignal): Promise<number> => runOnce(context, folder, signal);
  if (!args.has('watch')) return await interruptible(once);
  const edits = new FolderEdits(folder);
  try {
    await interruptible(async (signal) => {
      signal.addEventListener('abort', () => edits.wake());
      while (!signal.aborted) {
        await once(signal).catch(async (error: unknown) => {
          if (signal.aborted) return;
          const { title, lines } = await explain(error, undefined, {});
          terminal.failure(title, lines);
        });
        if (!terminal.json && !signal.aborted) terminal.hint('They run again after each change. Stop with Ctrl-C.');
        await edits.next();
      }
    });
  } finally {
    edits.close();
  }
  return EXIT.ok;
}

async function runOnce({ terminal, env }: CommandContext, folder: string, signal: AbortSignal): Promise<number> {
  const files = findTests(folder);
  if (files.length === 0)
    throw new CommandError('The app has no tests.', 'Tests are files such as tests/app.test.js: docs/testing-apps.md');
  const { code, results } = await runTests(folder, files, { env, shown: !terminal.json, signal });
  if (terminal.json) terminal.event({ passed: code === 0, tests: results });
  return code;
}
