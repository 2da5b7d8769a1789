/**
 * Where a module does not parse. V8 tells Node, but Node tells only the callers of `vm.Script`, which knows no `import` and
 * `export`; so the text is parsed once more as a script, with those words replaced by others of the same length.
 */
import { Script } from 'node:vm';

const OPENING = 'async () => { "use strict";\n';

/** `:line:column` counted from 1, or nothing when the second look finds another error than the first. */
export function locateSyntaxError(text: string, file: string, error: Error): string {
  const script = text
    .replace(/^([ \t]*)export default\b/gm, '$1_=            ')
    .replace(/^([ \t]*)export (?=(?:async|class|const|function|let|var)\b)/gm, '$1       ')
    .replace(/^[ \t]*(?:import|export)\b[^;'"()]*(?:'[^'\n]*'|"[^"\n]*")[^\n;]*;?/gm, blank)
    .replace(/^[ \t]*export[ \t]*\{[^}]*\};?/gm, blank);
  try {
    new Script(`${OPENING}${script}\n}`, { filename: file, lineOffset: -1 });
  } catch (again) {
    const { message, stack = '' } = again as Error;
    const [first = '', , marker = ''] = stack.split('\n');
    const line = first.startsWith(`${file}:`) ? first.slice(file.length) : '';
    if (message === error.message && line !== '') return `${line}:${marker.indexOf('^') + 1}`;
  }
  return '';
}

function blank(statement: string): string {
  return statement.replace(/[^\n]/g, ' ');
}
