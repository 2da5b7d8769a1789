/**
 * Maps positions in bundles of packages to positions in their sources, by the source maps beside the bundles:
 * `_packages/zod.js:812:11` becomes `node_modules/zod/v4/core/parse.js:20:15`. TypeScript needs no map: its positions do not
 * change.
 */
import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { LIMITS } from '../../protocol/limits.ts';
import { PACKAGES_FOLDER } from '../../protocol/rules/handler-imports.ts';

type SourceMap = { sources: string[]; mappings: string };
type Place = { source: number; line: number; column: number };

const IN_BUNDLE = new RegExp(`${PACKAGES_FOLDER}/((?:[\\w.~@+-]+/)*[\\w.~@+-]+\\.js):(\\d+):(\\d+)`, 'g');
const { parse } = JSON;
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const CONTINUES = 32;

/** The texts of an app, whose version is in the folder `root`. */
export class SourcePositions {
  readonly #root: string;
  /** Places that were looked up; a stack names the same ones again and again. */
  readonly #known = new Map<string, string>();

  constructor(root: string) {
    this.#root = root;
  }

  /** The text with every position mapped that has a source; others stay. Never throws. */
  text(text: string): string {
    if (!text.includes(`${PACKAGES_FOLDER}/`)) return text;
    /** Read once for a text, and not kept: some have megabytes. */
    const maps = new Map<string, SourceMap | null>();
    return text.replace(IN_BUNDLE, (place: string, file: string, line: string, column: string) => {
      const known = this.#known.get(place);
      if (known !== undefined) return known;
      if (!maps.has(file)) maps.set(file, this.#read(file));
      const map = maps.get(file) ?? null;
      const found = map === null ? place : (sourcePlace(map, file, Number(line), Number(column)) ?? place);
      if (this.#known.size >= LIMITS.sourcePlaces) this.#known.clear();
      this.#known.set(place, found);
      return found;
    });
  }

  #read(file: string): SourceMap | null {
    if (file.split('/').includes('..')) return null;
    try {
      const map = parse(
        readFileSync(join(this.#root, PACKAGES_FOLDER, `${file}.map`), 'utf8'),
      ) as Partial<SourceMap> | null;
      const { sources, mappings } = map ?? {};
      return Array.isArray(sources) && typeof mappings === 'string' ? { sources, mappings } : null;
    } catch {
      // No map or a damaged one: the position in the bundle stays.
      return null;
    }
  }
}

/** `line` and `column` count from 1, as in stacks. */
function sourcePlace(map: SourceMap, file: string, line: number, column: number): string | null {
  const found = lookUp(map.mappings, line - 1, column - 1);
  const source: unknown = found === null ? undefined : map.sources[found.source];
  if (found === null || typeof source !== 'string') return null;
  const path = posix.join(PACKAGES_FOLDER, posix.dirname(file), source);
  return /^[\w.~@+/ -]+$/.test(path) ? `${path}:${found.line + 1}:${found.column + 1}` : null;
}

/** The last segment of the line that begins at or before the column, all counted from 0. Reads no further than that line, and makes nothing. */
function lookUp(mappings: string, line: number, column: number): Place | null {
  const fields = [0, 0, 0, 0];
  let [at, field, value, shift, atLine] = [0, 0, 0, 0, 0];
  let best: Place | null = null;
  const endSegment = (): boolean => {
    if (atLine === line && field > 0) {
      const [from = 0, source = 0, sourceLine = 0, sourceColumn = 0] = fields;
      if (from > column) return true;
      best = field >= fields.length ? { source, line: sourceLine, column: sourceColumn } : null;
    }
    field = 0;
    return false;
  };
  for (; at < mappings.length; at++) {
    const char = mappings[at] as string;
    if (char === ',' || char === ';') {
      if (endSegment()) return best;
      if (char === ',') continue;
      if (atLine++ === line) return best;
      fields[0] = 0;
      continue;
    }
    const digit = DIGITS.indexOf(char);
    value += (digit & (CONTINUES - 1)) << shift;
    shift += 5;
    if (digit & CONTINUES) continue;
    if (field < fields.length) fields[field] = (fields[field] as number) + (value & 1 ? -(value >> 1) : value >> 1);
    field++;
    [value, shift] = [0, 0];
  }
  endSegment();
  return best;
}
