/**
 * `svc versions files`, `show`, `diff` and `rm`: the files of a version of an app, what changes when it becomes live,
 * and its deletion.
 */
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { requestOf } from '../../../protocol/http/client.ts';
import { GatewayError } from '../../../protocol/http/gateway-error.ts';
import { formatBytes, plural } from '../../../protocol/text/units.ts';
import { type CommandContext, type RunCommand, runVerbOfApp } from '../../command.ts';
import { CommandError } from '../../failure.ts';
import type { Client } from '../../gateway/client.ts';
import { change, readAll, readList, showList } from '../../resource.ts';
import { VERSION_FILES, VERSIONS } from '../../resources.ts';
import { drawChanges } from '../../terminal/changes.ts';
import { didYouMean } from '../../terminal/nearest.ts';
import { shellPath, shortPath } from '../../terminal/paths.ts';
import { findVersion, listVersions } from './versions-command.ts';

const VERBS = { '': listVersions, files: listFiles, show: showFile, diff: diffVersion, rm: removeVersion };

export function versions(context: CommandContext): ReturnType<RunCommand> {
  const { args } = context;
  const [verb, app, version] = [args.at(0), args.optionalAt(1), args.optionalAt(2)];
  if (Object.hasOwn(VERBS, verb) && verb !== 'show')
    args.endsAt(3, (extra) => `To print a file: svc versions show ${app} ${version} ${extra}`);
  return runVerbOfApp(context, VERBS, 'svc versions', 'files');
}

/** Permanently deletes a version that is not live. */
async function removeVersion(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const app = args.at(1);
  const version = args.wordAt(2, 'svc versions', '<version>', `List them: svc versions ${app}`);
  const versionId = await findVersion(connect(), app, version);
  await change(context, {
    call: (client) => client.call('DELETE /svc/_apps/:id/versions/:versionId', { params: { id: app, versionId } }),
    question: `Delete ${versionId} of ${app}? It cannot be made live again.`,
    done: `${versionId} of ${terminal.style('bold', app)} is deleted`,
  });
}

/** Those of the live version, unless another is named. */
async function listFiles({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.at(1);
  const named = args.optionalAt(2);
  const versionId = named === undefined ? await liveVersion(client, app) : await findVersion(client, app, named);
  const files = await readAll(client, VERSION_FILES, [app, versionId]);
  showList(terminal, VERSION_FILES, files);
  if (terminal.json || files.length === 0) return;
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  terminal.note(`${plural(files.length, 'file')}, ${formatBytes(bytes)}, of ${versionId}`);
}

/** Prints a file, byte for byte if a program reads it, or writes it to another file. */
async function showFile(context: CommandContext): Promise<void> {
  const { args, terminal, connect, cwd } = context;
  const app = args.at(1);
  const version = args.wordAt(2, 'svc versions', '<version> <path>', `List them: svc versions ${app}`);
  const path = args.wordAt(3, 'svc versions', '<path>', `List them: svc versions files ${app} ${version}`);
  const client = connect();
  const versionId = await findVersion(client, app, version);
  const bytes = await readFile(client, app, versionId, path);
  const out = args.text('out');
  if (out !== undefined) {
    const file = resolve(cwd, out);
    writeNew(file, bytes, shortPath(file, context));
    terminal.answer({ file, path, versionId, size: bytes.length }, () =>
      terminal.done(`${terminal.style('bold', shortPath(file, context))} is written, ${formatBytes(bytes.length)}`),
    );
    return;
  }
  const text = textOf(bytes);
  if (terminal.json) terminal.document({ path, versionId, size: bytes.length, text });
  else if (!terminal.interactive) terminal.bytes(bytes);
  else if (text !== null) terminal.lines(text.replace(/\n$/, '').split('\n'));
  else {
    const hint = `Write it to a file: svc versions show ${app} ${version} ${shellPath(path)} --out <file>`;
    throw new CommandError(`${path} is not text.`, hint);
  }
}

/** What changes when a version becomes live: the one that a rollback would make live, unless another is named. */
async function diffVersion({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.at(1);
  const named = args.optionalAt(2);
  const versionId = named === undefined ? await versionBefore(client, app) : await findVersion(client, app, named);
  const answer = await client.call('GET /svc/_apps/:id/versions/:versionId/diff', { params: { id: app, versionId } });
  terminal.answer(answer, () => {
    const { style } = terminal;
    terminal.line(`${answer.from ?? 'nothing'} ${style('dim', '→')} ${style('bold', answer.to)}`);
    drawChanges(
      terminal,
      answer.files.map((file) => ({ ...file, name: file.path })),
      args.has('stat'),
    );
  });
}

async function readFile(client: Client, app: string, versionId: string, path: string): Promise<Buffer> {
  const params = { id: app, versionId, '*': path };
  try {
    return await client.bytesOf(requestOf('GET /svc/_apps/:id/versions/:versionId/files/*', { params }));
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'NOT_FOUND') throw error;
    const paths = (await readAll(client, VERSION_FILES, [app, versionId])).map((file) => file.path);
    const hint = `List them: svc versions files ${app} ${versionId}`;
    throw new CommandError(`${versionId} has no file ${path}.`, didYouMean(path, paths, hint));
  }
}

async function liveVersion(client: Client, app: string): Promise<string> {
  const { activeVersion } = await client.call('GET /svc/_apps/:id', { params: { id: app } });
  if (activeVersion !== null) return activeVersion;
  throw new CommandError(`No version of "${app}" is live.`, `Name one of: svc versions ${app}`);
}

async function versionBefore(client: Client, app: string): Promise<string> {
  const before = await liveVersion(client, app);
  const [older] = (await readList(client, VERSIONS, [app], { before, limit: 1 })).rows;
  if (older !== undefined) return older.versionId;
  throw new CommandError(`No version of "${app}" is older than the live one.`, `Name one of: svc versions ${app}`);
}

/** Null for bytes that are not UTF-8 text. */
function textOf(bytes: Buffer): string | null {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

function writeNew(file: string, bytes: Buffer, shown: string): void {
  try {
    writeFileSync(file, bytes, { flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    throw new CommandError(`${shown} already exists.`, 'Name another file: --out <file>');
  }
}
