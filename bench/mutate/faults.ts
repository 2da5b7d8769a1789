/** The seeded faults of `faults.json`: plausible slips, and the tests that should find each. */
import GROUPS from './faults.json' with { type: 'json' };

/**
 * `text` stands exactly once in `file` and is replaced by `replacement`. `tests` are the files that should find it, the quickest
 * first; `named` narrows them to tests whose name matches. `why` says what the fault would do.
 */
export type Fault = {
  name: string;
  why: string;
  file: string;
  text: string;
  replacement: string;
  tests: string[];
  named?: string;
};

/** The list of faults is wrong, or has none of those asked for. */
export class ListError extends Error {
  override readonly name = 'ListError';
}

/** The source with the fault in it. Throws `ListError` when the text is not there, or there more than once. */
export function putInto(source: string, { name, file, text, replacement }: Fault): string {
  const places = source.split(text).length - 1;
  if (places !== 1)
    throw new ListError(
      `"${name}": its text is ${places} times in ${file}, not once. Bring bench/mutate/faults.json up to date.`,
    );
  return source.replace(text, () => replacement);
}

const lines = (text: string | string[]): string => [text].flat().join('\n');

/** Of the hot path, of durability and of access; a text of several lines is a list. */
export const FAULTS: readonly Fault[] = Object.values(GROUPS)
  .flat()
  .map((fault) => ({ ...fault, text: lines(fault.text), replacement: lines(fault.replacement) }));
