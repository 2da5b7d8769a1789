/**
 * Judges what a gateway names before it becomes a file, a list or a page on this machine: the gateway may be hostile, or
 * another program may answer at its address. All commands use these rules (SECURITY.md, "Threats").
 */
import { createHash } from 'node:crypto';
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { LOCAL_BASE } from '../../protocol/http/origins.ts';
import { isAppId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { ArchiveRules } from '../../protocol/rules/archive-rules.ts';
import { listOf, object, text } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import type { GitFile } from '../../protocol/wire/git-jobs.ts';
import { OBJECT_ID, objectId } from '../../storage/git/object.ts';
import { CommandError } from '../failure.ts';

import type { Connection } from './connection.ts';

const FILES = shape(listOf(object({ path: text, sha: OBJECT_ID })));
const SHA256 = /^[0-9a-f]{64}$/;
const LOOPBACK = /^(?:localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])$/;
/** Characters of a name that an error shows. */
const SHOWN_CHARS = 300;

/** For an answer that no gateway gives. */
export function refused(what: string): CommandError {
  return new CommandError(`The gateway sent ${what}.`, 'Check its address, and whether you trust it: svc status');
}

function shown(value: unknown): string {
  return JSON.stringify(String(value).slice(0, SHOWN_CHARS));
}

/** The places of a gateway's files in one folder, whose names follow the rules of archives together. */
export class ReceivedFiles {
  readonly #folder: string;
  readonly #rules = new ArchiveRules('The app');
  /** Name → why it is refused; null for one that is permitted. */
  readonly #faults = new Map<string, string | null>();

  /** `known` are the names that the folder has already: another may not differ from one in upper and lower case only. */
  constructor(folder: string, known: Iterable<string> = []) {
    this.#folder = folder;
    for (const path of known) this.#nameFault(path);
  }

  /** Where the file of this name goes. Throws when it would lead elsewhere, also through a link that is there. */
  place(path: string): string {
    const fault = this.#nameFault(path) ?? this.#linkBefore(path);
    if (fault !== null) throw refused(`the name ${shown(path)}, which is not taken. ${fault}`.replace(/\.$/, ''));
    return join(this.#folder, path);
  }

  #nameFault(path: string): string | null {
    let fault = this.#faults.get(path);
    if (fault === undefined) {
      fault = this.#faultOf(path);
      this.#faults.set(path, fault);
    }
    return fault;
  }

  #faultOf(path: string): string | null {
    try {
      const isPlain = this.#rules.admit({ path, type: 'File', size: 0 }).path === path;
      return isPlain ? null : 'It is no plain relative name.';
    } catch (error) {
      return (error as Error).message;
    }
  }

  #linkBefore(path: string): string | null {
    const segments = path.split('/');
    for (let depth = 1; depth <= segments.length; depth++) {
      const name = segments.slice(0, depth).join('/');
      const found = lstatSync(join(this.#folder, name), { throwIfNoEntry: false });
      if (found?.isSymbolicLink()) return `"${name}" is a link here.`;
      if (!found?.isDirectory()) break;
    }
    return null;
  }
}

/** The files of an app that a gateway lists. */
export function listedFiles(answer: unknown): GitFile[] {
  const rows = listed(answer);
  if (!FILES.holds(rows)) throw refused('a list of files without names and ids');
  return rows as GitFile[];
}

/** Throws unless these are the bytes of that id, as the gateway listed them. */
export function checkContent(path: string, bytes: Uint8Array, sha: string | undefined): void {
  if (objectId('blob', bytes) !== sha) throw refused(`another content of ${shown(path)} than it lists`);
}

/** The SHA-256 of a file, which begins with `asked`. */
export function receivedSha256(sha256: unknown, asked: string): string {
  if (typeof sha256 === 'string' && SHA256.test(sha256) && sha256.startsWith(asked)) return sha256;
  throw refused(`the SHA-256 ${shown(sha256)} for ${asked}`);
}

/** The content of a file that is named by its SHA-256, as it arrives. */
export class ReceivedContent {
  readonly #sha256: string;
  readonly #hash = createHash('sha256');
  #left: number;

  /** `size` in bytes. */
  constructor({ sha256, size }: { sha256: string; size: number }) {
    this.#sha256 = sha256;
    this.#left = size;
  }

  /** Throws for more bytes than the file has. */
  take(chunk: Uint8Array): void {
    this.#hash.update(chunk);
    this.#left -= chunk.length;
    if (!(this.#left >= 0)) throw this.#other();
  }

  /** Throws unless all of it has arrived. */
  check(): void {
    if (this.#hash.digest('hex') !== this.#sha256) throw this.#other();
  }

  #other(): CommandError {
    return refused(`another content than that of ${this.#sha256}`);
  }
}

/** The id of an app, which becomes the name of a folder. */
export function receivedApp(id: unknown): string {
  if (typeof id !== 'string' || !isAppId(id)) throw refused(`the app id ${shown(id)}`);
  return id;
}

/** An array, which may be a page of a list. */
export function listed(answer: unknown): unknown[] {
  if (!Array.isArray(answer)) throw refused('something else than a list');
  return answer;
}

/** Throws for a list that goes on after so many pages. */
export function checkPages(pages: number): void {
  if (pages > LIMITS.listPages) throw refused('a list without end');
}

/** Throws for an answer of more bytes than any has. */
export function checkSize(bytes: number): void {
  if (bytes > LIMITS.frameBytes) throw refused(`an answer of more than ${LIMITS.frameBytes} bytes`);
}

/** An address of a page: `http` or `https`. */
export function pageAddress(address: unknown): URL {
  const url = typeof address === 'string' && URL.canParse(address) ? new URL(address) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) throw refused(`the address ${shown(address)}`);
  return url;
}

/**
 * Throws for an address that is not the gateway's: at its host or below it, or at those names of this machine that stand for
 * one here. One that was found in a data directory of this machine is its user's own, and may have any domain.
 */
export function checkOwnAddress(address: string, { url, pid }: Connection): void {
  const page = pageAddress(address);
  if (pid !== undefined) return;
  const gateway = new URL(url);
  const isBelow = (host: string): boolean => page.hostname === host || page.hostname.endsWith(`.${host}`);
  const isHere = LOOPBACK.test(gateway.hostname) || gateway.hostname.endsWith('.localhost');
  const isOwn = isHere
    ? page.port === gateway.port && (isBelow(gateway.hostname) || isBelow(LOCAL_BASE))
    : isBelow(gateway.hostname);
  if (!isOwn) throw refused(`the address ${shown(address)}, which is not at ${gateway.host}`);
}
