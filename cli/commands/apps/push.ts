/** `svc push`: uploads an app folder, or an archive of one, as a new version. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { UploadAnswer } from '../../../protocol/answers.ts';
import type { CommandContext } from '../../command.ts';
import { isArchive, readArchivedId } from '../../dev/app-archive.ts';
import {
  drawLeftOut,
  readAppId,
  scanAppFolder,
  sendArchive,
  uploadApp,
  warnOfFlatAutomations,
} from '../../dev/app-folder.ts';
import { GatewayError } from '../../failure.ts';
import { route } from '../../gateway/api.ts';
import type { Client } from '../../gateway/client.ts';
import { findPages } from '../../gateway/pages.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { formatBytes, plural } from '../../terminal/units.ts';
import { drawMinted, drawWarnings, factsOfVersion, shortVersion } from './versions.ts';

export async function push({ args, terminal, connect, cwd }: CommandContext): Promise<void> {
  const client = connect();
  const path = resolve(cwd, args.at(0));
  const archive = isArchive(path) ? path : null;
  const id = args.text('id') ?? (archive === null ? readAppId(path) : await readArchivedId(archive));
  const { files, leftOut } = archive === null ? scanAppFolder(path) : { files: [], leftOut: [] };
  await checkWelcome(client, id);
  if (leftOut.length > 0) terminal.hint(drawLeftOut(leftOut));
  warnOfFlatAutomations(terminal, files);
  const progress = terminal.progress(`Uploading ${id}`);
  const options = { activate: !args.has('no-activate'), onSent: progress.update };
  const upload =
    archive === null
      ? uploadApp(client, path, { id, files, ...options })
      : sendArchive(client, id, readFileSync(archive), options);
  const answer = await upload.finally(progress.end);
  const addressOf = await findPages(client);
  terminal.answer(answer, () => draw(terminal, answer, addressOf({ app: answer.id })));
}

/** Asks before the upload: a gateway that refuses one may close the connection before its answer can be read. */
async function checkWelcome(client: Client, id: string): Promise<void> {
  try {
    await client.get(route`/svc/_apps/${id}`);
  } catch (error) {
    if (!(error instanceof GatewayError && error.body.code === 'UNKNOWN_APP')) throw error;
  }
}

function draw(terminal: Terminal, answer: UploadAnswer, page: string): void {
  const { style } = terminal;
  const { id, versionId, deduplicated } = answer;
  const isLive = answer.activeVersion === versionId;
  const what = deduplicated ? 'exists already' : 'is stored';
  terminal.done(`${style('bold', id)} ${versionId} ${isLive ? 'is live' : what}`);
  terminal.facts({
    files: `${plural(answer.files, 'file')}, ${formatBytes(answer.bytes)}`,
    content: isLive && deduplicated ? 'unchanged since an earlier upload' : '',
    ...factsOfVersion(answer),
    pruned: answer.pruned.join(', '),
    page: isLive ? style('cyan', page) : '',
    next: isLive ? '' : `svc activate ${id} ${shortVersion(versionId)}`,
  });
  drawWarnings(terminal, answer.warnings);
  drawMinted(terminal, answer.webhooks);
}
