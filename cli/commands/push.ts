/** `svc push`: packs a folder and uploads it. */
import { resolve } from 'node:path';
import type { UploadAnswer } from '../../protocol/answers.ts';
import type { CommandContext } from '../command.ts';
import { drawLeftOut, packFiles, readAppId, scanAppFolder, warnOfFlatAutomations } from '../dev/app-folder.ts';
import { GatewayError } from '../failure.ts';
import { drawMinted, shortVersion } from '../gateway/activation.ts';
import type { Client } from '../gateway/client.ts';
import { findPages } from '../gateway/pages.ts';
import { appPath, withQuery } from '../gateway/paths.ts';
import { drawNetwork, drawUses } from '../terminal/reach.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { formatBytes, plural } from '../terminal/units.ts';

export async function run({ args, terminal, connect, cwd }: CommandContext): Promise<void> {
  const client = connect();
  const folder = resolve(cwd, args.at(0));
  const id = args.text('id') ?? readAppId(folder);
  const { files, leftOut } = scanAppFolder(folder);
  await checkWelcome(client, id);
  if (leftOut.length > 0) terminal.note(terminal.noteStyle('dim', drawLeftOut(leftOut)));
  warnOfFlatAutomations(terminal, files);

  const archive = await packFiles(folder, files);
  const progress = terminal.progress(`Uploading ${id}`);
  const path = withQuery(appPath(id, '/upload'), { activate: args.has('no-activate') ? 0 : undefined });
  let answer: UploadAnswer;
  try {
    answer = await client.upload<UploadAnswer>(path, archive, (sent) => progress.update(sent, archive.length));
  } finally {
    progress.end();
  }
  const addressOf = await findPages(client);
  terminal.answer(answer, () => draw(terminal, answer, addressOf({ app: answer.id })));
}

/** Asks before everything is sent: a gateway that refuses an upload may close the connection before its answer can be read. */
async function checkWelcome(client: Client, id: string): Promise<void> {
  try {
    await client.get(appPath(id));
  } catch (error) {
    if (!(error instanceof GatewayError && error.body.code === 'UNKNOWN_APP')) throw error;
  }
}

function draw(terminal: Terminal, answer: UploadAnswer, page: string): void {
  const { style } = terminal;
  const live = answer.activeVersion === answer.versionId;
  const what = answer.deduplicated ? 'was there already' : 'is stored';
  terminal.line(`${style('green', '✓')} ${style('bold', answer.id)} ${answer.versionId} ${live ? 'is live' : what}`);
  const facts: [name: string, value: string][] = [
    ['files', `${plural(answer.files, 'file')}, ${formatBytes(answer.bytes)}`],
  ];
  if (live && answer.deduplicated) facts.push(['content', 'unchanged since an earlier upload']);
  if (answer.migrationsApplied.length > 0) facts.push(['migrated', answer.migrationsApplied.join(', ')]);
  if (answer.network !== undefined) facts.push(['network', drawNetwork(answer.network)]);
  if (answer.uses !== undefined) facts.push(['uses', drawUses(answer.uses)]);
  if (answer.pruned.length > 0) facts.push(['pruned', answer.pruned.join(', ')]);
  if (live) facts.push(['page', style('cyan', page)]);
  else facts.push(['next', `svc activate ${answer.id} ${shortVersion(answer.versionId)}`]);
  for (const [name, value] of facts) terminal.line(`  ${style('dim', name.padEnd(9))} ${value}`);
  drawMinted(terminal, answer.webhooks);
}
