/** Making a stored version live, for the commands that do. */
import type { ActivateAnswer, VersionRecord } from './api.ts';
import type { Client } from './client.ts';
import { CommandError } from './failure.ts';
import { appPath } from './paths.ts';
import type { Terminal } from './terminal/terminal.ts';

const SHORT_ID = /^[0-9a-f]{6}$/;

/** A version's id, from the id itself or its last six characters. */
export async function findVersion(client: Client, app: string, typed: string): Promise<string> {
  if (!SHORT_ID.test(typed)) return typed;
  const versions = await client.get<VersionRecord[]>(appPath(app, '/versions'));
  const matches = versions.filter(({ versionId }) => versionId.endsWith(`_${typed}`));
  if (matches.length > 1) throw new CommandError(`"${typed}" fits ${matches.length} versions; give the whole id.`);
  return matches[0]?.versionId ?? typed;
}

export async function activateVersion(
  client: Client,
  terminal: Terminal,
  app: string,
  versionId: string,
): Promise<void> {
  const answer = await client.post<ActivateAnswer>(appPath(app, '/activate'), { versionId });
  const { style } = terminal;
  terminal.answer(answer, () => {
    if (answer.previousVersion === answer.activeVersion) {
      terminal.line(`${style('green', '✓')} ${answer.activeVersion} of ${style('bold', answer.id)} was live already`);
      return;
    }
    terminal.line(`${style('green', '✓')} ${answer.activeVersion} of ${style('bold', answer.id)} is live`);
    if (answer.previousVersion) terminal.line(style('dim', `  before it: ${answer.previousVersion}`));
  });
}
