/**
 * Erases the types of a TypeScript module: blanks replace them, so that every line and column stays the same (specification,
 * "TypeScript and packages"). The parser is swc's, as Node has it; it is WebAssembly, loaded for the first module.
 */
import { createRequire as requireAt } from 'node:module';
import { SvcError } from '../../errors.ts';
import { Lines, type SyntaxFault, tooDeep } from './syntax.ts';

type Swc = { transformSync(text: string, options: object): { code: string } };

/** What swc throws. Lines count from 1; columns from 0, in cells of a terminal: a tab has four, some characters none. */
type SwcError = { code: string; message: string; startLine: number; startColumn: number };

const OPTIONS = { mode: 'strip-only', module: true, deprecatedTsModuleAsError: true };
const MARK = '\uFEFF';

const ADVICE: Record<string, string> = {
  enum: 'write an object `as const`, and the type of its values',
  'namespace declaration': 'write a module of its own',
  'parameter property': 'declare the field, and assign it in the constructor',
  'import equals declaration': 'write `import … from`',
  'export assignment': 'write `export default`',
};

const load = requireAt(import.meta.url);
const PACKAGE = '@swc/wasm-typescript';
let loaded: Swc | null = null;

/**
 * The module as JavaScript, or why there is none: it does not parse, or has more than types to erase. Cannot be interrupted.
 * Throws when the eraser itself cannot be loaded.
 */
export function eraseTypes(source: string): { text: string } | SyntaxFault {
  // swc leaves it out.
  const mark = source.startsWith(MARK) ? MARK : '';
  const result = erase(source.slice(mark.length));
  if ('text' in result) return { text: mark + result.text };
  return { ...result, at: result.at + mark.length };
}

function erase(text: string): { text: string } | SyntaxFault {
  loaded ??= loadSwc();
  try {
    return { text: loaded.transformSync(text, OPTIONS).code };
  } catch (thrown) {
    if (isSwcError(thrown)) return { at: placeOf(thrown, text), message: wordsOf(thrown) };
    forget();
    return ranOutOfStack(thrown)
      ? tooDeep()
      : { at: 0, message: `Its types cannot be erased (${String(thrown)}); write it in JavaScript.` };
  }
}

function loadSwc(): Swc {
  try {
    return load(PACKAGE) as Swc;
  } catch (error) {
    const message = `TypeScript needs the package ${PACKAGE}, which cannot be loaded; install the gateway again.`;
    throw new SvcError('INTERNAL', message, { cause: error });
  }
}

/** After any error that is not about the text, swc is unusable. */
function forget(): void {
  loaded = null;
  delete load.cache[load.resolve(PACKAGE)];
}

/** An overflow of its own stack would write past the end of its memory; on ours it throws like any function. */
function ranOutOfStack(thrown: unknown): boolean {
  return thrown instanceof RangeError || (thrown as Error | null)?.message === 'memory access out of bounds';
}

function isSwcError(thrown: unknown): thrown is SwcError {
  return typeof (thrown as Partial<SwcError> | null)?.startLine === 'number';
}

/** Offset of the place. A text in which every character has one cell has the same fault, unless it is about the characters. */
function placeOf(error: SwcError, text: string): number {
  const plain = text.replace(/[^\n\r -~]/g, (char) => (/\s/.test(char) ? ' ' : 'x'));
  let place = error;
  try {
    loaded?.transformSync(plain, OPTIONS);
  } catch (thrown) {
    if (!isSwcError(thrown)) forget();
    else if (thrown.startLine === error.startLine) place = thrown;
  }
  return Math.min(new Lines(plain).start(place.startLine) + place.startColumn, text.length);
}

function wordsOf({ code, message }: SwcError): string {
  const kind = /^TypeScript (.+) is not supported in strip-only mode$/.exec(message)?.[1];
  if (kind !== undefined) {
    const advice = ADVICE[kind] ?? 'write it in JavaScript';
    return `It has a TypeScript ${kind}, which is more than a type and cannot be erased; ${advice}.`;
  }
  if (code === 'UnsupportedSyntax') return `It cannot be erased: ${message.replace(/\.$/, '')}.`;
  return `It does not parse: ${message.replace(/\.$/, '')}.`;
}
