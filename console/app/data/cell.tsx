/** One cell of the grid: shown, and edited. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { notifyProblem } from '../../ui/notice.tsx';
import { Button } from '../../ui/parts.tsx';
import { clock } from '../../words.ts';
import { type Cell, type Column, cellOf } from './tables.ts';
import { exactly, type TimeUnit, timeOf } from './values.ts';

type CellProps = {
  value: Cell;
  type: string;
  column: Column;
  /** What times of the column are stored as, where it holds times. */
  unit: TimeUnit | null;
  isEditable: boolean;
  onEditing: (begins: boolean) => void;
  write: (value: Cell) => Promise<void>;
};

/** Lines of a text that are seen while it is edited. */
const MOST_LINES = 8;

/**
 * Enter or a double click edits it; Enter keeps, Escape leaves it as it was, Shift Enter begins a line. An empty text is a text; Null is
 * a button.
 */
export function GridCell({ value, type, column, unit, isEditable, onEditing, write }: CellProps) {
  const [isFocused, setFocused] = useState(false);
  const [text, setText] = useState<string>();
  const [isWaiting, setWaiting] = useState(false);
  const place = useRef<HTMLElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const isEditing = text !== undefined;
  const wasEditing = useRef(false);
  /** Another object for each edit; null between them. Each is told of once at its begin and once at its end. */
  const edit = useRef<object | null>(null);
  useEffect(() => {
    const { current } = field;
    if (current) {
      current.focus();
      current.setSelectionRange(current.value.length, current.value.length);
    } else if (wasEditing.current) place.current?.focus();
    wasEditing.current = isEditing;
  }, [isEditing]);
  const begin = () => {
    if (!isEditable || edit.current !== null) return;
    edit.current = {};
    setText(value === null ? '' : String(value));
    onEditing(true);
  };
  const leave = () => {
    if (edit.current === null) return;
    edit.current = null;
    setText(undefined);
    onEditing(false);
  };
  const keep = async (changed: Cell) => {
    if (isWaiting) return;
    if (changed === value) return leave();
    const kept = edit.current;
    setWaiting(true);
    try {
      await write(changed);
      // Escape may have ended it, and another may have begun.
      if (edit.current === kept) leave();
    } catch (error) {
      notifyProblem(error);
    }
    setWaiting(false);
  };
  if (text !== undefined) {
    return (
      <span role="cell" class="editing">
        {/* A field of one line would take the ends of lines out of the text. */}
        <textarea
          aria-label={column.name}
          rows={Math.min(MOST_LINES, text.split('\n').length)}
          value={text}
          ref={field}
          onInput={({ currentTarget }) => setText(sameEnds(currentTarget.value, value))}
          onKeyDown={(event) => {
            event.stopPropagation();
            if (event.key === 'Escape') leave();
            if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            void keep(cellOf(text, column));
          }}
        />
        {!column.isRequired && (
          <Button class="small" onClick={() => void keep(null)}>
            Null
          </Button>
        )}
      </span>
    );
  }
  const at = timeOf(value, unit);
  const exact = value === null ? 'null' : String(value);
  return (
    <span
      ref={place}
      role="cell"
      tabIndex={isEditable || at !== null ? 0 : undefined}
      class={`cell ${at === null ? type : 'time'}`}
      title={at === null ? exact : exactly(value, at)}
      onFocus={() => setFocused(true)}
      onBlur={() => setFocused(false)}
      onDblClick={begin}
      onKeyDown={(event) => {
        if (event.key !== 'Enter') return;
        begin();
        // The field may have the focus before the key does what it does in a field.
        event.preventDefault();
      }}
    >
      {at !== null && !isFocused ? clock(at) : type === 'blob' ? 'blob' : exact}
    </span>
  );
}

/** Browsers end lines with LF; a text that ends them with CRLF keeps that. */
function sameEnds(text: string, before: Cell): string {
  return typeof before === 'string' && before.includes('\r\n') ? text.replaceAll('\n', '\r\n') : text;
}
