/** An editor for SQL that knows the tables' names. */
import { autocompletion, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { SQLite, sql } from '@codemirror/lang-sql';
import { bracketMatching } from '@codemirror/language';
import { EditorState, Prec } from '@codemirror/state';
import { EditorView, keymap } from '@codemirror/view';
import { useEffect, useRef } from 'preact/hooks';
import { codeLook } from '../../ui/code-look.ts';

type Props = {
  /** Replaces what is typed; each choice is an object of its own. */
  chosen: { text: string };
  tables: readonly string[];
  onChange: (text: string) => void;
  onRun: () => void;
};

export function SqlEditor({ chosen, tables, onChange, onRun }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const handlers = useRef({ onChange, onRun });
  handlers.current = { onChange, onRun };
  const known = useRef(chosen.text);
  const names = tables.join('\n');

  useEffect(() => {
    if (!place.current) return;
    const schema = Object.fromEntries(
      names
        .split('\n')
        .filter(Boolean)
        .map((name) => [name, []]),
    );
    const run = () => {
      handlers.current.onRun();
      return true;
    };
    const made = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: known.current,
        extensions: [
          Prec.highest(keymap.of([{ key: 'Mod-Enter', run }])),
          history(),
          bracketMatching(),
          autocompletion(),
          keymap.of([...defaultKeymap, ...historyKeymap, ...completionKeymap]),
          sql({ dialect: SQLite, schema }),
          codeLook,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ 'aria-label': 'SQL' }),
          EditorView.updateListener.of((update) => {
            if (!update.docChanged) return;
            known.current = update.state.doc.toString();
            handlers.current.onChange(known.current);
          }),
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, [names]);

  // Never what is typed: that would come back late, over what was typed since.
  useEffect(() => {
    const editor = view.current;
    if (!editor || chosen.text === known.current) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: chosen.text } });
  }, [chosen]);

  return <div ref={place} class="sql-editor" />;
}
