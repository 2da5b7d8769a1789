/** Texts that are open in the editor. They are kept while other views are open, so that unsaved text is never lost. */
import type { EditorState, Text } from '@codemirror/state';
import { keyOf, readFile, type Source, writeFile } from './code-workspace.ts';
import { stateOf } from './editor.tsx';

export type OpenFile = {
  readonly path: string;
  /** Grows when something other than the editor replaced the text. */
  edition: number;
  /** Null for a file that is no text. */
  state: EditorState | null;
  saved: Text | null;
  /** What the gateway had when it was read or saved. */
  sha: string;
  /** Settles when it is not being saved. */
  saving: Promise<void>;
};

/** Source → path → file. */
const opened = new Map<string, Map<string, OpenFile>>();

export function filesOf(source: Source): Map<string, OpenFile> {
  const files = opened.get(keyOf(source)) ?? new Map<string, OpenFile>();
  opened.set(keyOf(source), files);
  return files;
}

export const isUnsaved = ({ state, saved }: OpenFile): boolean =>
  state !== null && saved !== null && !state.doc.eq(saved);

export const unsavedOf = (source: Source): OpenFile[] => [...filesOf(source).values()].filter(isUnsaved);

/** All texts of a draft that is gone. */
export const forget = (source: Source): void => void opened.delete(keyOf(source));

/** The text as the editor has it, or as it is read now. */
export async function openFile(source: Source, path: string): Promise<OpenFile> {
  const files = filesOf(source);
  const known = files.get(path);
  if (known) return known;
  const file: OpenFile = { path, edition: 0, saving: Promise.resolve(), ...(await contentOf(source, path)) };
  // Somebody may have asked twice.
  const first = files.get(path) ?? file;
  files.set(path, first);
  return first;
}

/** Replaces the editor's text by the gateway's. */
export async function reopen(source: Source, file: OpenFile): Promise<void> {
  Object.assign(file, await contentOf(source, file.path), { edition: file.edition + 1 });
}

/** Files without unsaved text that an agent or another editor has changed. */
export async function follow(source: Source, now: readonly { path: string; sha: string }[]): Promise<void> {
  const shas = new Map(now.map(({ path, sha }) => [path, sha]));
  for (const file of [...filesOf(source).values()]) {
    if (isUnsaved(file) || shas.get(file.path) === file.sha) continue;
    if (shas.has(file.path)) await reopen(source, file);
    else filesOf(source).delete(file.path);
  }
}

/**
 * One save of a file at a time: the second one of the same text would not find what the first was based on. Rejects with
 * `PRECONDITION_FAILED` when somebody else wrote the file meanwhile; `overwrite` writes all the same.
 */
export function save(source: Source, file: OpenFile, { overwrite = false } = {}): Promise<void> {
  const write = () => (overwrite || isUnsaved(file) ? writeText(source, file, overwrite) : undefined);
  const saving = file.saving.then(write, write);
  file.saving = saving;
  return saving;
}

async function writeText(source: Source, file: OpenFile, overwrite: boolean): Promise<void> {
  const { state } = file;
  if (state === null) return;
  const sha = overwrite ? (await readFile(source, file.path)).sha : file.sha;
  file.sha = (await writeFile(source, file.path, state.sliceDoc(), sha)).sha;
  file.saved = state.doc;
}

async function contentOf(source: Source, path: string): Promise<Pick<OpenFile, 'state' | 'saved' | 'sha'>> {
  const { text, sha } = await readFile(source, path);
  const state = text === null ? null : stateOf(path, text, source.workspace === null);
  return { state, saved: state?.doc ?? null, sha };
}

addEventListener('beforeunload', (event) => {
  const isAny = [...opened.values()].some((files) => [...files.values()].some(isUnsaved));
  if (isAny) event.preventDefault();
});
