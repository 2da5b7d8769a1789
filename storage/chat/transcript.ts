/**
 * Reads and writes the transcript of a chat window, `<app>/_chat/w<windowId>.jsonl` (specification, "Chat windows"): a line for
 * each message, and one for each group of events. Its rows are what counts; the file is a copy of the turns that have ended.
 */
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CHAT_MODES } from '../../protocol/agents/agents.ts';
import { type NewTurn, TURN_STATES, type TurnEnd } from '../../protocol/agents/stored-turns.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { listOf, matching, number, object, oneOf, text } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import { isMissing, syncDir } from '../files/atomic-file.ts';
import type { PackedEvent } from './chat-tables.ts';

export type UserLine = { kind: 'user' } & NewTurn;
/** `id` is that of the first event; each event, and each piece of text, is one more. `session` is that of the agent. */
export type EventsLine = {
  kind: 'events';
  turnId: string;
  id: number;
  ts: number;
  events: PackedEvent[];
  session?: string;
  end?: TurnEnd;
};
export type TranscriptLine = UserLine | EventsLine;

const PIECES = ['assistant.delta', 'reasoning.delta'] as const;
const pieces = object({ type: oneOf(...PIECES), deltas: listOf(text) });
const event = object({ type: matching(new RegExp(`^(?!(?:${PIECES.join('|')})$)`), 'the type of another event') });
const ofLine = { turnId: text, ts: number };
const LINE = shape({
  anyOf: [
    object(
      { kind: { const: 'user' }, ...ofLine, message: text, runner: text, mode: oneOf(...CHAT_MODES) },
      { by: object({ id: text, name: text }) },
    ),
    object(
      { kind: { const: 'events' }, ...ofLine, id: { type: 'integer' }, events: listOf({ anyOf: [pieces, event] }) },
      { end: oneOf(...TURN_STATES) },
    ),
  ],
});

/** Null for an invalid line, which a crash or another program left. */
function parseLine(text: string): TranscriptLine | null {
  let line: unknown;
  try {
    line = JSON.parse(text);
  } catch {
    return null;
  }
  return LINE.holds(line) ? (line as TranscriptLine) : null;
}

const CHUNK_BYTES = 64 * 1024;
const NEWLINE = 0x0a;

/** The valid lines of a transcript. `end` gets the file's size, and whether its last line is whole. Rejects with `WINDOW_DAMAGED`. */
export async function* transcriptLines(
  path: string,
  end: (at: { bytes: number; whole: boolean }) => void,
): AsyncGenerator<TranscriptLine> {
  const file = await openTranscript(path);
  if (file === null) {
    end({ bytes: 0, whole: true });
    return;
  }
  try {
    let at = 0;
    let parts: Buffer[] = [];
    let partBytes = 0;
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(CHUNK_BYTES), 0, CHUNK_BYTES, at + partBytes);
      let chunk = buffer.subarray(0, bytesRead);
      if (bytesRead === 0) break;
      for (let newline = chunk.indexOf(NEWLINE); newline >= 0; newline = chunk.indexOf(NEWLINE)) {
        const rest = chunk.subarray(0, newline);
        const text = parts.length === 0 ? rest.toString() : Buffer.concat([...parts, rest]).toString();
        const line = parseLine(text);
        if (line !== null) yield line;
        at += partBytes + newline + 1;
        parts = [];
        partBytes = 0;
        chunk = chunk.subarray(newline + 1);
      }
      // A line that is too long to be valid is skipped.
      if (partBytes <= LIMITS.chatTurnBytes) parts.push(chunk);
      partBytes += chunk.length;
    }
    end({ bytes: at + partBytes, whole: partBytes === 0 });
  } catch (error) {
    throw ofDamage(error);
  } finally {
    await file.close();
  }
}

/** Adds lines at the end of a transcript, which is made when it is missing. Resolves with the number of bytes. */
export async function addLines(path: string, lines: TranscriptLine[], isWhole = true): Promise<number> {
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  const bytes = Buffer.from(isWhole ? text : `\n${text}`);
  const file = await open(path, APPEND, 0o600);
  try {
    await file.appendFile(bytes);
  } finally {
    await file.close();
  }
  return bytes.length;
}

/** The length of a transcript; 0 for a missing one, null for what is no file. */
export async function lengthOf(path: string): Promise<number | null> {
  try {
    const found = await lstat(path);
    return found.isFile() ? found.size : null;
  } catch (error) {
    if (isMissing(error)) return 0;
    throw error;
  }
}

/** Renames what stands in the place of a transcript to `<name>.damaged`. */
export async function setAside(path: string): Promise<void> {
  await rm(`${path}.damaged`, { recursive: true, force: true });
  await rename(path, `${path}.damaged`);
}

/** Makes the folder of an app's transcripts, durably. Rejects with `UNKNOWN_APP` where there is no folder above it. */
export async function makeChatFolder(dir: string): Promise<void> {
  try {
    await mkdir(dir, { mode: 0o700 });
    await syncDir(dirname(dir));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return;
    throw isMissing(error) ? new SvcError('UNKNOWN_APP', 'The app was removed.') : error;
  }
}

/** A link is not followed, and a pipe not waited for. */
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const APPEND = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW;

/** What stands in the place of a transcript, by the error code of opening it. */
const DAMAGES: Record<string, string> = {
  EISDIR: 'a folder is in its place',
  ELOOP: 'a link is in its place',
  ENXIO: 'it is no file',
  EACCES: 'the gateway may not use it',
  EPERM: 'the gateway may not use it',
  EIO: 'the disk failed on it',
};

/** `WINDOW_DAMAGED` when the transcript itself cannot be used; else the same error. */
function ofDamage(error: unknown): unknown {
  const why = DAMAGES[(error as NodeJS.ErrnoException | null)?.code ?? ''];
  return why === undefined ? error : damaged(why, error);
}

function damaged(why: string, cause?: unknown): SvcError {
  const message = `The transcript of the window cannot be read: ${why}. Delete the window, or use another one.`;
  return new SvcError('WINDOW_DAMAGED', message, { cause });
}

/** Follows no link, and waits for no pipe. Null when there is none. Rejects with `WINDOW_DAMAGED`. */
async function openTranscript(path: string): Promise<FileHandle | null> {
  let file: FileHandle;
  try {
    file = await open(path, READ);
  } catch (error) {
    if (isMissing(error)) return null;
    throw ofDamage(error);
  }
  const found = await file.stat();
  if (found.isFile()) return file;
  await file.close();
  throw damaged(found.isDirectory() ? 'a folder is in its place' : 'it is no file');
}

/** Whether an error says that a transcript cannot be used. */
export function isDamaged(error: unknown): error is SvcError {
  return error instanceof SvcError && error.code === 'WINDOW_DAMAGED';
}
