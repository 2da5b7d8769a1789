/** Making a stored version live, for the commands that do. */

import type { VersionRecord } from '../../protocol/answers.ts';
import type { MintedWebhook } from '../../protocol/automation.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { CommandError } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';
import type { ActivateAnswer } from './api.ts';
import type { Client } from './client.ts';
import { appPath, withQuery } from './paths.ts';

/** The end of an id of the tarball store, or the number of a version of the git store. */
const SHORT_ID = /^[0-9a-f]{6}$/;
const NUMBER = /^v?(\d{1,9})$/;

/** The shortest that `findVersion` takes for a version: its last six characters, or on the git store `v3`. */
export function shortVersion(versionId: string): string {
  return versionId.slice(Math.max(versionId.lastIndexOf('_'), versionId.lastIndexOf('/')) + 1);
}

/** A version's id, from the id itself, its last six characters, or on the git store its number (`3` or `v3`). */
export async function findVersion(client: Client, app: string, typed: string): Promise<string> {
  const number = NUMBER.exec(typed)?.[1];
  if (number === undefined && !SHORT_ID.test(typed)) return typed;
  const versions = await client.get<VersionRecord[]>(
    withQuery(appPath(app, '/versions'), { limit: LIMITS.listRowsMax }),
  );
  const matches = versions.filter(({ versionId }) => versionId.endsWith(`_${typed}`));
  if (matches.length > 1) throw new CommandError(`"${typed}" matches ${matches.length} versions; use the whole id.`);
  const tagged = versions.some(({ versionId }) => versionId.startsWith(`${app}/v`));
  if (tagged && number !== undefined) return `${app}/v${Number(number)}`;
  return matches[0]?.versionId ?? typed;
}

/** Tells which version is live now, and what the data has had that it does not know. */
export function showActivated(terminal: Terminal, answer: ActivateAnswer): void {
  const { style } = terminal;
  terminal.answer(answer, () => {
    if (answer.previousVersion === answer.activeVersion) {
      terminal.line(`${style('green', '✓')} ${answer.activeVersion} of ${style('bold', answer.id)} was live already`);
      return;
    }
    terminal.line(`${style('green', '✓')} ${answer.activeVersion} of ${style('bold', answer.id)} is live`);
    if (answer.previousVersion) terminal.line(style('dim', `  before it: ${answer.previousVersion}`));
    const ahead = answer.migrationsAhead ?? [];
    if (ahead.length > 0)
      terminal.line(style('yellow', `  the data stays as it is: it is ahead of this version by ${migrations(ahead)}`));
    drawMinted(terminal, answer.webhooks ?? []);
  });
}

function migrations(numbers: number[]): string {
  return `migration${numbers.length === 1 ? '' : 's'} ${numbers.join(', ')}`;
}

/** Webhooks that were minted just now: the only time that their secrets are seen. */
export function drawMinted(terminal: Terminal, webhooks: MintedWebhook[]): void {
  const { style, noteStyle } = terminal;
  for (const { ownerApp, automationId, url, secret } of webhooks) {
    terminal.line(`${style('green', '✓')} webhook of ${style('bold', `${ownerApp}/${automationId}`)}`);
    terminal.line(`  ${style('dim', 'url'.padEnd(9))} ${style('cyan', url)}`);
    terminal.line(`  ${style('dim', 'secret'.padEnd(9))} ${secret}`);
  }
  if (webhooks.length > 0) terminal.note(noteStyle('yellow', 'Keep the secret now: it is not shown again.'));
}
