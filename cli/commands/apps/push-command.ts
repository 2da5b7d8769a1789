/** `svc push`: uploads an app folder, or an archive of one, as a new version. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { UploadAnswer } from '../../../protocol/answer-types.ts';
import { GatewayError } from '../../../protocol/http/gateway-error.ts';
import { formatBytes, plural } from '../../../protocol/text/units.ts';
import { hasMarks } from '../../../storage/git/merge-text.ts';
import type { CommandContext } from '../../command.ts';
import { archivedContent, isArchive, readArchivedId } from '../../dev/app-archive.ts';
import {
  contentOf,
  drawLeftOut,
  readAppId,
  scanAppFolder,
  sendArchive,
  uploadApp,
  warnOfFlatAutomations,
} from '../../dev/app-folder.ts';
import { confirmOlder, drawVersion, mayReplace, noteVersion, readOrigin, versionsOf } from '../../dev/folder-origin.ts';
import { CommandError } from '../../failure.ts';
import type { Client } from '../../gateway/client.ts';
import { findPages } from '../../gateway/page-links.ts';
import { shellPath, shortPath } from '../../terminal/paths.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { drawMinted, drawWarnings, factsOfVersion, shortVersion } from './versions-command.ts';

export async function push(context: CommandContext): Promise<void> {
  const { args, terminal, connect, cwd, subject } = context;
  const client = connect();
  const path = resolve(cwd, args.at(0));
  const archive = isArchive(path) ? path : null;
  const id = args.text('id') ?? (archive === null ? readAppId(path) : await readArchivedId(archive));
  subject.app = id;
  subject.dir = shellPath(shortPath(path, context));
  const { files, leftOut } = archive === null ? scanAppFolder(path) : { files: [], leftOut: [] };
  checkResolved(path, files);
  const versions = (await isKnown(client, id)) ? await versionsOf(client, id) : [];
  if (leftOut.length > 0) terminal.hint(drawLeftOut(leftOut));
  warnOfFlatAutomations(terminal, files);
  const activate = !args.has('no-activate');
  const origin = archive === null ? readOrigin(path, id) : null;
  const content = () => (archive === null ? contentOf(path, files) : archivedContent(archive));
  const isChecked = activate && !args.has('force');
  const { ifLive, older } = isChecked
    ? await mayReplace(client, origin, versions, content)
    : { ifLive: null, older: undefined };
  if (older !== undefined) await confirmOlder(terminal, older);
  const progress = terminal.progress(`Uploading ${id}`);
  const options = { activate, ifLive, message: args.text('message'), onSent: progress.update };
  const upload =
    archive === null
      ? uploadApp(client, path, { id, files, ...options })
      : sendArchive(client, id, readFileSync(archive), options);
  const answer = await upload.finally(progress.end);
  if (archive === null) await noteVersion(client, path, { app: id, version: answer.versionId }, terminal);
  const addressOf = await findPages(client);
  const isExpected = ifLive !== null && older === undefined;
  terminal.answer(answer, () => draw(terminal, answer, addressOf({ app: answer.id }), isExpected));
}

/** Throws for a file in which `svc pull` or `svc dev` left the lines of both sides. */
function checkResolved(folder: string, files: string[]): void {
  const marked = files.find((file) => hasMarks(readFileSync(join(folder, file))));
  if (marked !== undefined)
    throw new CommandError(
      `Both sides of a conflict are still marked in ${marked}.`,
      'Choose between the lines from <<<<<<< to >>>>>>>, then push again.',
    );
}

/** Asked before the upload: a gateway that refuses one may close the connection before its answer can be read. */
async function isKnown(client: Client, id: string): Promise<boolean> {
  try {
    await client.call('GET /svc/_apps/:id', { params: { id } });
    return true;
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'UNKNOWN_APP') return false;
    throw error;
  }
}

/** `isExpected`: the version that it took the place of was known. */
function draw(terminal: Terminal, answer: UploadAnswer, page: string, isExpected: boolean): void {
  const { style } = terminal;
  const { id, versionId, deduplicated, replaced } = answer;
  const isLive = answer.activeVersion === versionId;
  const what = deduplicated ? 'exists already' : 'is stored';
  terminal.done(`${style('bold', id)} ${versionId} ${isLive ? 'is live' : what}`);
  const before = replaced && { ...replaced, uploadedAt: replaced.publishedAt };
  terminal.facts({
    files: `${plural(answer.files, 'file')}, ${formatBytes(answer.bytes)}`,
    content: isLive && deduplicated ? 'unchanged since an earlier upload' : '',
    replaced: before && !isExpected ? drawVersion(before) : '',
    ...factsOfVersion(answer),
    pruned: answer.pruned.join(', '),
    page: isLive ? style('cyan', page) : '',
    next: isLive ? '' : `svc activate ${id} ${shortVersion(versionId)}`,
  });
  drawWarnings(terminal, answer.warnings);
  drawMinted(terminal, answer.webhooks);
}
