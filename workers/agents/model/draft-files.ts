/**
 * Reads, writes, edits, lists and searches the files of one draft for an agent, by the rules for archives. No name reaches
 * anything outside the folder: links are not followed.
 */
import { lstatSync, realpathSync } from 'node:fs';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { FileConditions } from '../../../protocol/wire/jobs.ts';
import { objectId } from '../../../storage/git/object.ts';
import { bytesOf, plainFiles, workspaceFiles } from '../../jobs/workspace-files-job.ts';

export class DraftFiles {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Whether a path belongs to the draft; its file may not exist yet. */
  has(path: string): boolean {
    try {
      bytesOf(this.#folder, this.#inside(path));
      return true;
    } catch {
      return false;
    }
  }

  /** The text of a file, or `lines` lines of it beginning with line `from`, which counts from 1. */
  read(path: string, from = 1, lines = Number.POSITIVE_INFINITY): string {
    const { text } = this.#text(this.#inside(path));
    if (from <= 1 && lines === Number.POSITIVE_INFINITY) return text;
    const start = Math.max(from, 1) - 1;
    return text
      .split('\n')
      .slice(start, start + lines)
      .join('\n');
  }

  /** Writes a whole file, and the folders above it. */
  async write(path: string, text: string): Promise<void> {
    await this.#put(this.#inside(path), text, {});
  }

  /** Replaces the one place where the file has exactly `before`. Rejects when there is none, or more than one. */
  async edit(path: string, before: string, after: string): Promise<void> {
    const name = this.#inside(path);
    const { text, sha } = this.#text(name);
    const at = before === '' ? -1 : text.indexOf(before);
    if (at === -1) throw new SvcError('BAD_REQUEST', `${name} does not have this text; read it again.`);
    if (text.includes(before, at + 1))
      throw new SvcError('BAD_REQUEST', `${name} has this text more than once; give more of what is around it.`);
    // Others may edit the draft at the same time.
    await this.#put(name, text.slice(0, at) + after + text.slice(at + before.length), { ifMatch: `"${sha}"` });
  }

  /** Rejects for a file that is not there. */
  async delete(path: string): Promise<void> {
    await workspaceFiles({ work: 'delete', folder: this.#folder, path: this.#inside(path), conditions: {} });
  }

  /** Gives a file another path, where none may be. */
  async rename(from: string, to: string): Promise<void> {
    const [before, after] = [this.#inside(from), this.#inside(to)];
    const bytes = bytesOf(this.#folder, before);
    if (bytes === null) throw new SvcError('NOT_FOUND', `The draft has no file ${before}.`);
    if (before === after) return;
    // First the new one: whatever fails, the content stays.
    await this.#put(after, bytes, { ifNoneMatch: '*' });
    const ifMatch = `"${objectId('blob', bytes)}"`;
    await workspaceFiles({ work: 'delete', folder: this.#folder, path: before, conditions: { ifMatch } });
  }

  /** Paths and sizes in bytes, sorted by path. */
  list(): { path: string; size: number }[] {
    return plainFiles(this.#folder).flatMap((path) => {
      const found = lstatSync(join(this.#folder, path), { throwIfNoEntry: false });
      return found?.isFile() ? [{ path, size: found.size }] : [];
    });
  }

  /**
   * The lines that contain `text`, ignoring case, as `path:line: text`; at most `LIMITS.agentSearchLines`, and a last one that
   * says so.
   */
  async search(text: string): Promise<string[]> {
    const wanted = text.toLowerCase();
    const found: string[] = [];
    for (const { path, size } of this.list()) {
      if (size > LIMITS.archiveFileBytes) continue;
      // Other turns go on meanwhile.
      await new Promise(setImmediate);
      const lines = textOf(bytesOf(this.#folder, path))?.split('\n') ?? [];
      for (const [at, line] of lines.entries()) {
        if (!line.toLowerCase().includes(wanted)) continue;
        if (found.length === LIMITS.agentSearchLines) return [...found, '[more lines have it, and are cut]'];
        found.push(`${path}:${at + 1}: ${line.slice(0, LIMITS.textChars)}`);
      }
    }
    return found;
  }

  async #put(path: string, content: string | Buffer, conditions: FileConditions): Promise<void> {
    try {
      await workspaceFiles({ work: 'put', folder: this.#folder, path, bytes: Buffer.from(content), conditions });
    } catch (error) {
      if (error instanceof SvcError) throw error;
      // Node's message has the full path of the gateway's temporary file.
      const { code } = error as NodeJS.ErrnoException;
      throw new SvcError('BAD_REQUEST', `${path} could not be written (${code ?? 'no reason given'}).`);
    }
  }

  #text(path: string): { text: string; sha: string } {
    const size = lstatSync(join(this.#folder, path), { throwIfNoEntry: false })?.size ?? 0;
    if (size > LIMITS.archiveFileBytes)
      throw new SvcError('PAYLOAD_TOO_LARGE', `${path} has more than ${LIMITS.archiveFileBytes} bytes.`);
    const bytes = bytesOf(this.#folder, path);
    if (bytes === null) throw new SvcError('NOT_FOUND', `The draft has no file ${path}.`);
    const text = textOf(bytes);
    if (text === null) throw new SvcError('BAD_REQUEST', `${path} is no text.`);
    return { text, sha: objectId('blob', bytes) };
  }

  /** The path within the folder, with `/`. Absolute paths may name the folder directly or with its links resolved. */
  #inside(path: string): string {
    const full = isAbsolute(path) ? resolve(path) : resolve(this.#folder, path);
    for (const root of [this.#folder, realpathSync(this.#folder)]) {
      const name = relative(root, full);
      if (name !== '' && name !== '..' && !name.startsWith(`..${sep}`)) return name.split(sep).join('/');
    }
    throw new SvcError('FORBIDDEN', `${path} is not in the draft.`);
  }
}

/** Null for content that is not UTF-8 or has a NUL. */
function textOf(bytes: Buffer | null): string | null {
  if (bytes === null || bytes.includes(0)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
