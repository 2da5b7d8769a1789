/** `svc types`: TypeScript declarations of an app, or a client of its tools, from its folder or from the gateway. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { checkManifest } from '../../../protocol/rules/manifest-check.ts';
import { isPath } from '../../app-argument.ts';
import type { CommandContext } from '../../command.ts';
import { readAppId } from '../../dev/app-folder.ts';
import { CommandError, reasonOf, systemStep } from '../../failure.ts';
import { describeApp } from '../../gateway/descriptions.ts';
import { shortPath } from '../../terminal/paths.ts';
import { clientOf, declarationsOf } from '../../types/declarations.ts';

export async function types(context: CommandContext): Promise<void> {
  const { args, terminal, cwd } = context;
  const manifest = await manifestOf(context, args.at(0));
  const out = args.text('out');
  // A `.d.ts` file has declarations only; any other TypeScript file gets the client.
  const isModule = out !== undefined && /(?<!\.d)\.[mc]?ts$/.test(out);
  const text = isModule ? clientOf(manifest) : declarationsOf(manifest);
  if (out === undefined) {
    terminal.answer({ declarations: text }, () => terminal.lines(text.trimEnd().split('\n')));
    return;
  }
  const path = resolve(cwd, out);
  try {
    writeFileSync(path, text);
  } catch (error) {
    throw new CommandError(
      `${shortPath(path, context)} cannot be written: ${reasonOf(error as Error)}.`,
      systemStep(error),
    );
  }
  terminal.answer({ path, bytes: Buffer.byteLength(text) }, () => terminal.done(`Wrote ${shortPath(path, context)}`));
}

/** The manifest of a folder with an `app.json`, else of the app with this id. */
async function manifestOf({ cwd, connect }: CommandContext, app: string) {
  const folder = resolve(cwd, app);
  if (isPath(app) || existsSync(join(folder, 'app.json'))) {
    const id = readAppId(folder);
    return checkManifest(readFileSync(join(folder, 'app.json'), 'utf8'), id);
  }
  return { ...(await describeApp(connect(), app)), id: app };
}
