/** `svc files`: lists, downloads, uploads and deletes the files that an app keeps beside its database. */
import { existsSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { SvcError } from '../../../protocol/errors.ts';
import { requestOf } from '../../../protocol/http/client.ts';
import { endingOf, mediaTypeOf } from '../../../protocol/http/media-types.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { formatBytes, formatCount, plural } from '../../../protocol/text/units.ts';
import { UNTYPED } from '../../../storage/blob-files.ts';
import { temporaryBeside } from '../../../storage/files/atomic-file.ts';
import { type CommandContext, interruptible, type RunCommand, runVerb } from '../../command.ts';
import { CommandError, UsageError } from '../../failure.ts';
import { type Client, ofFile } from '../../gateway/client.ts';
import { ReceivedContent, receivedSha256 } from '../../gateway/received.ts';
import { change, type RowOf, readList, showList } from '../../resource.ts';
import { FILES, SHOWN_SHA } from '../../resources.ts';
import { shellPath, shortPath } from '../../terminal/paths.ts';

const PROGRESS_UNSEEN_MS = 300;

export function files(context: CommandContext): ReturnType<RunCommand> {
  return runVerb(context, { ls: list, get, put, rm: removeFile });
}

async function list({ args, terminal, connect }: CommandContext): Promise<void> {
  const app = args.at(1);
  args.endsAt(2, (extra) => `svc files get ${app} ${extra}`);
  const sort = args.text('sort');
  if (sort !== undefined && sort !== 'newest' && sort !== 'largest')
    throw new UsageError(`--sort takes newest or largest, not "${sort}".`, `svc files ls ${app} --sort largest`);
  const limit = args.number('lines', 1, LIMITS.listRowsMax);
  const { rows, answer } = await readList(connect(), FILES, [app], { limit, sort });
  showList(terminal, FILES, rows, { scope: [app] });
  if (terminal.json || rows.length === 0) return;
  const { usage, next } = answer;
  const shown = next === null ? '' : `${formatCount(rows.length)} of `;
  terminal.note(`${shown}${plural(usage.files, 'file')}, ${formatBytes(usage.bytes)} of ${formatBytes(usage.quota)}`);
}

async function get(context: CommandContext): Promise<void> {
  const { args, terminal, cwd, connect } = context;
  const client = connect();
  const row = await findFile(client, args.at(1), shaOf(context));
  const content = new ReceivedContent(row);
  const out = args.text('out') ?? `${row.sha256.slice(0, SHOWN_SHA)}${endingOf(row.type)}`;
  const file = resolve(cwd, out);
  const shown = shortPath(file, context);
  if (existsSync(file)) throw new CommandError(`${shown} already exists.`, 'Name another file: --out <file>');
  if (!existsSync(dirname(file))) throw new CommandError(`The folder for ${shown} does not exist.`, 'Make it first.');
  const unfinished = temporaryBeside(file);
  await interruptible(async (signal) => {
    try {
      const params = { id: args.at(1), sha256: row.sha256 };
      const request = requestOf('GET /svc/:id/_blobs/:sha256', { params });
      await client.download(request, unfinished, signal, (chunk) => content.take(chunk));
      content.check();
      renameSync(unfinished, file);
    } finally {
      rmSync(unfinished, { force: true });
    }
  });
  const { sha256, size, type } = row;
  terminal.answer({ file, sha256, size, type }, () =>
    terminal.done(`${terminal.style('bold', shown)} is written, ${formatBytes(size)}, ${type}`),
  );
}

async function put(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const app = args.at(1);
  const named = args.wordAt(2, 'svc files', '<file>', 'Such as: photo.jpg');
  const bytes = readLocal(named, context);
  const type = args.text('type') ?? mediaTypeOf(named) ?? UNTYPED;
  const client = connect();
  await checkRoom(client, app, bytes.length);
  const progress = terminal.progress(`Uploading ${basename(named)}`, PROGRESS_UNSEEN_MS);
  const options = ofFile(type, (sent) => progress.update(sent, bytes.length));
  const stored = await client
    .call('PUT /svc/:id/_blobs', { params: { id: app }, body: bytes }, options)
    .finally(progress.end);
  terminal.answer(stored, () => {
    terminal.done(`${terminal.style('bold', basename(named))} is stored, ${formatBytes(stored.size)}, ${stored.type}`);
    terminal.facts({ sha256: stored.sha256 });
  });
}

async function removeFile(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const app = args.at(1);
  const { sha256, size, type } = await findFile(connect(), app, shaOf(context));
  const name = sha256.slice(0, SHOWN_SHA);
  await change(context, {
    call: (client) => client.call('DELETE /svc/:id/_blobs/:sha256', { params: { id: app, sha256 } }),
    question: `Delete ${name} (${type}, ${formatBytes(size)}) of ${app}? Rows that refer to it stay.`,
    done: `${terminal.style('bold', name)} of ${app} is deleted`,
  });
}

/** Asks before the upload: a gateway that refuses one may close the connection before its answer can be read. */
async function checkRoom(client: Client, app: string, size: number): Promise<void> {
  const list = client.call('GET /svc/:id/_blobs', { params: { id: app }, query: { limit: 1 } });
  // A token that may not list files may still upload.
  const usage = await list.then(
    (page) => page.usage,
    () => null,
  );
  if (usage === null || usage.bytes + size <= usage.quota) return;
  const [has, most] = [formatBytes(usage.bytes), formatBytes(usage.quota)];
  throw new SvcError('QUOTA_EXCEEDED', `${formatBytes(size)} do not fit: the files of "${app}" use ${has} of ${most}.`);
}

/** The SHA-256, or the beginning of one, that the command line names. */
function shaOf({ args }: CommandContext): string {
  const hint = `List them: svc files ls ${args.at(1)}`;
  const named = args.wordAt(2, 'svc files', '<sha256>', hint).toLowerCase();
  if (/^[0-9a-f]{1,64}$/.test(named)) return named;
  throw new UsageError(`"${args.at(2)}" is not a SHA-256 or the beginning of one.`, hint);
}

async function findFile(client: Client, app: string, named: string): Promise<RowOf<'GET /svc/:id/_blobs', 'files'>> {
  const [first, second] = (await readList(client, FILES, [app], { prefix: named, limit: 2 })).rows;
  const hint = `List them: svc files ls ${app}`;
  if (first === undefined) throw new CommandError(`No file of "${app}" begins with ${named}.`, hint);
  if (second === undefined) return { ...first, sha256: receivedSha256(first.sha256, named) };
  throw new CommandError(`Several files of "${app}" begin with ${named}.`, `Give more of its characters. ${hint}`);
}

function readLocal(named: string, context: CommandContext): Buffer {
  const file = resolve(context.cwd, named);
  const shown = shortPath(file, context);
  const found = statSync(file, { throwIfNoEntry: false });
  if (found === undefined) throw new CommandError(`There is no file ${shown}.`, 'Check its path.');
  if (!found.isFile())
    throw new CommandError(
      `${shown} is not a file.`,
      `Upload one at a time, or an archive: tar -czf files.tar.gz ${shellPath(shown)}`,
    );
  if (found.size > LIMITS.blobBytes)
    throw new CommandError(
      `${shown} has ${formatBytes(found.size)}; a file may have ${formatBytes(LIMITS.blobBytes)}.`,
      'Split it, or make it smaller.',
    );
  return readFileSync(file);
}
