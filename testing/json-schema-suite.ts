/** The official JSON Schema test suite, draft 2020-12, as Debian packages it (libtest-json-schema-acceptance-perl). */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonSchema } from '../protocol/manifest.ts';

const SUITE = '/usr/share/perl5/auto/share/dist/Test-JSON-Schema-Acceptance';
const TESTS = join(SUITE, 'tests/draft2020-12');
const REMOTES = join(SUITE, 'remotes');

/** The package that installs the suite. */
export const SUITE_PACKAGE = 'libtest-json-schema-acceptance-perl';

export type Case = { description: string; data: unknown; valid: boolean };
/** Cases that share a schema. `file` is relative to the draft's folder, without `.json`. */
export type Group = { file: string; description: string; schema: JsonSchema; tests: Case[] };

export function suiteIsInstalled(): boolean {
  return existsSync(TESTS);
}

/** The commit of the suite that the package was made from. */
export function suiteCommit(): string {
  return readFileSync(join(SUITE, 'submodule_status'), 'utf8').trim().slice(0, 7);
}

export function readSuite(): Group[] {
  return jsonFiles(TESTS).flatMap((path) => {
    const groups = JSON.parse(readFileSync(join(TESTS, path), 'utf8')) as Omit<Group, 'file'>[];
    return groups.map((group) => ({ ...group, file: path.replace(/\.json$/, '') }));
  });
}

/** The schemas that the suite expects at `http://localhost:1234/`, by address; those of other drafts only if used. */
export function readRemotes(): { uri: string; schema: JsonSchema }[] {
  return jsonFiles(REMOTES)
    .filter((path) => !/^draft(?!2020-12|2019-09|7\/)/.test(path))
    .map((path) => ({
      uri: `http://localhost:1234/${path}`,
      schema: JSON.parse(readFileSync(join(REMOTES, path), 'utf8')) as JsonSchema,
    }));
}

function jsonFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.json'))
    .sort();
}
