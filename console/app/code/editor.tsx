/** The code editor: CodeMirror with the languages of apps, the colours of the console, and what the gates found at their lines. */
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { css } from '@codemirror/lang-css';
import { html } from '@codemirror/lang-html';
import { javascript } from '@codemirror/lang-javascript';
import { json } from '@codemirror/lang-json';
import { markdown } from '@codemirror/lang-markdown';
import { SQLite, sql } from '@codemirror/lang-sql';
import { bracketMatching, indentOnInput, type LanguageSupport } from '@codemirror/language';
import { type Diagnostic, lintGutter, setDiagnostics } from '@codemirror/lint';
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search';
import { EditorState, type Extension } from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
} from '@codemirror/view';
import { useEffect, useRef } from 'preact/hooks';
import { codeLook } from '../../ui/code-look.ts';
import { useNamedPlace } from './place.ts';

/** Lines and columns begin at 1; without a line it is about the whole file. A warning keeps nothing from being published. */
export type Finding = { file: string; message: string; line?: number; column?: number; isWarning?: true };

const LANGUAGES: Record<string, () => LanguageSupport> = {
  js: () => javascript(),
  mjs: () => javascript(),
  ts: () => javascript({ typescript: true }),
  mts: () => javascript({ typescript: true }),
  tsx: () => javascript({ typescript: true, jsx: true }),
  jsx: () => javascript({ jsx: true }),
  html: () => html(),
  svg: () => html(),
  css: () => css(),
  json: () => json(),
  md: () => markdown(),
  sql: () => sql({ dialect: SQLite }),
};

/** The state of a file in the editor, with its history: it is kept when another file is shown. */
export function stateOf(path: string, text: string, isReadOnly: boolean): EditorState {
  const language = LANGUAGES[path.slice(path.lastIndexOf('.') + 1).toLowerCase()];
  const extensions: Extension[] = [
    lineNumbers(),
    highlightActiveLineGutter(),
    history(),
    drawSelection(),
    indentOnInput(),
    bracketMatching(),
    closeBrackets(),
    autocompletion(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    lintGutter(),
    codeLook,
    EditorState.tabSize.of(2),
    // Tab leaves the editor after Escape, so that the keyboard is not caught.
    keymap.of([
      ...closeBracketsKeymap,
      ...defaultKeymap,
      ...searchKeymap,
      ...historyKeymap,
      ...completionKeymap,
      indentWithTab,
    ]),
    EditorView.contentAttributes.of({ 'aria-label': path, tabindex: '0' }),
    ...(language ? [language()] : []),
    // It is saved with the ends of lines that it has.
    ...(text.includes('\r\n') ? [EditorState.lineSeparator.of('\r\n')] : []),
    ...(isReadOnly ? [EditorState.readOnly.of(true)] : []),
  ];
  return EditorState.create({ doc: text, extensions });
}

type EditorProps = {
  /** Its own for each file, and a new one when the text is another by other means than the editor. */
  state: EditorState;
  onChange: (state: EditorState) => void;
  findings: readonly Finding[];
  /** Where to go to, once for each new object; by default the line that the address names. */
  place: { line: number; column: number } | null;
};

export function Editor({ state, onChange, findings, place: found }: EditorProps) {
  const named = useNamedPlace();
  const place = found ?? named;
  const parent = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const changed = useRef(onChange);
  changed.current = onChange;
  useEffect(() => {
    const made = new EditorView({
      state,
      parent: parent.current!,
      dispatchTransactions: (transactions, shown) => {
        shown.update(transactions);
        changed.current(shown.state);
      },
    });
    view.current = made;
    return () => made.destroy();
  }, []);
  useEffect(() => {
    const shown = view.current;
    if (shown) shown.dispatch(setDiagnostics(shown.state, diagnosticsOf(shown.state, findings)));
  }, [findings]);
  useEffect(() => {
    const shown = view.current;
    if (!shown || !place) return;
    const line = shown.state.doc.line(Math.min(Math.max(1, place.line), shown.state.doc.lines));
    const at = Math.min(line.from + place.column - 1, line.to);
    shown.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: 'center' }) });
    shown.focus();
  }, [place]);
  return <div ref={parent} class="editor" />;
}

function diagnosticsOf({ doc }: EditorState, findings: readonly Finding[]): Diagnostic[] {
  return findings.map(({ message, line = 1, column, isWarning }) => {
    const { from, to } = doc.line(Math.min(Math.max(1, line), doc.lines));
    const at = column === undefined ? from : Math.min(from + column - 1, to);
    return { from: at, to, severity: isWarning ? 'warning' : 'error', message };
  });
}
