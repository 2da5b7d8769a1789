/** A table's rows: scrolled over any number of them, sorted, filtered, and edited cell by cell. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { go, hrefOf } from '../../address.ts';
import { BACK } from '../../gateway.ts';
import { usePolled } from '../../polled.ts';
import { notify, notifyProblem } from '../../ui/notice.tsx';
import { Button, Confirm, Dialog, Empty, Field, Loading, Problem } from '../../ui/parts.tsx';
import { plural } from '../../words.ts';
import {
  addRow,
  type Cell,
  type Column,
  cellOf,
  countRows,
  deleteRows,
  type Filter,
  OPERATORS,
  type Operator,
  PAGE_ROWS,
  type Row,
  readRows,
  type Table,
  type View,
  writeCell,
} from './tables.ts';

const ROW_PX = 34;
/** Browsers lay out no taller element; further rows are found by a filter. */
const MOST_ROWS = 900_000;
/** Drawn above and below what is seen. */
const AROUND = 12;
/** Pages of rows that are kept; the oldest go first. */
const KEPT_PAGES = 40;

/** Filters and order are in the address, so that a view of a table can be shared and returned to. */
function viewOf(query: URLSearchParams, table: Table): View {
  const names = new Set(table.columns.map(({ name }) => name));
  const filters = query.getAll('where').flatMap((text): Filter[] => {
    const [column = '', operator = '', ...rest] = text.split('~');
    const isKnown = names.has(column) && OPERATORS.includes(operator as Operator);
    return isKnown ? [{ column, operator: operator as Operator, value: rest.join('~') }] : [];
  });
  const sort = query.get('sort');
  return { filters, sort: sort !== null && names.has(sort) ? sort : null, isDescending: query.has('desc') };
}

function show(app: string, table: Table, { filters, sort, isDescending }: View): void {
  const where = filters.map(
    ({ column, operator, value }) => `where=${encodeURIComponent(`${column}~${operator}~${value}`)}`,
  );
  const base = hrefOf(['apps', app, 'data'], {
    table: table.name,
    sort: sort ?? undefined,
    desc: isDescending ? 1 : undefined,
  });
  go([base, ...where].join('&'));
}

export function TableGrid({ app, table, query }: { app: string; table: Table; query: URLSearchParams }) {
  const view = viewOf(query, table);
  const viewKey = JSON.stringify(view);
  const count = usePolled((signal) => countRows(app, table, view, signal), viewKey, 0);
  const [isAdding, setAdding] = useState(false);
  const [selected, setSelected] = useState<ReadonlyMap<string, Row>>(new Map());
  const [isDeleting, setDeleting] = useState(false);
  /** Counted up to read the rows again. */
  const [edition, setEdition] = useState(0);
  const again = () => {
    setEdition((last) => last + 1);
    setSelected(new Map());
    count.reload();
  };
  const remove = async () => {
    setDeleting(false);
    try {
      notify(`${plural(await deleteRows(app, table, [...selected.values()]), 'row')} deleted.`);
      again();
    } catch (error) {
      notifyProblem(error);
    }
  };
  const isEditable = table.key !== null && table.key.length > 0;
  return (
    <>
      <div class="line data-bar">
        <Filters table={table} view={view} onChange={(filters) => show(app, table, { ...view, filters })} />
        <span class="hint" role="status">
          {count.value === undefined ? '' : plural(count.value, 'row')}
        </span>
        <span class="line heading-end">
          {selected.size > 0 && (
            <Button kind="danger" class="small" onClick={() => setDeleting(true)}>
              Delete {plural(selected.size, 'row')}
            </Button>
          )}
          <Button class="small" onClick={again}>
            Reload
          </Button>
          {isEditable && (
            <Button class="small" onClick={() => setAdding(true)}>
              Add row
            </Button>
          )}
        </span>
      </div>
      <Problem error={count.error} retry={count.reload} />
      {count.value === undefined ? (
        !count.error && <Loading />
      ) : count.value === 0 ? (
        <Empty title={view.filters.length > 0 ? 'No rows match' : 'The table is empty'} />
      ) : (
        <Rows
          key={`${viewKey} ${edition}`}
          app={app}
          table={table}
          view={view}
          count={Math.min(count.value, MOST_ROWS)}
          selected={selected}
          onSelect={setSelected}
        />
      )}
      {isAdding && <AddRow app={app} table={table} onClose={() => setAdding(false)} onDone={again} />}
      {isDeleting && (
        <Confirm
          title={`Delete ${plural(selected.size, 'row')} of ${table.name}?`}
          verb="Delete"
          onDone={() => void remove()}
          onClose={() => setDeleting(false)}
        >
          <p>They are deleted at once, with everything that foreign keys and triggers delete.</p>
        </Confirm>
      )}
    </>
  );
}

type RowsProps = {
  app: string;
  table: Table;
  view: View;
  count: number;
  selected: ReadonlyMap<string, Row>;
  onSelect: (selected: ReadonlyMap<string, Row>) => void;
};

/** Only the rows that are seen are drawn; pages are read as they come into view. */
function Rows({ app, table, view, count, selected, onSelect }: RowsProps) {
  const place = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ first: 0, last: 40 });
  const [pages, setPages] = useState<ReadonlyMap<number, Row[]>>(new Map());
  const [error, setError] = useState<Error>();
  /** Of the rows in which a cell is being edited: they stay when they are scrolled out of sight. */
  const [edited, setEdited] = useState<readonly number[]>([]);
  const reading = useRef(new Set<number>());
  const isEditable = table.key !== null && table.key.length > 0;

  const look = useCallback(() => {
    const element = place.current;
    if (!element) return;
    const first = Math.max(0, Math.floor(element.scrollTop / ROW_PX) - AROUND);
    const last = Math.min(count, Math.ceil((element.scrollTop + element.clientHeight) / ROW_PX) + AROUND);
    setSeen((now) => (now.first === first && now.last === last ? now : { first, last }));
  }, [count]);
  useEffect(look, [look]);
  // Pages that could not be read are read now.
  useEffect(() => {
    const back = () => setSeen((now) => ({ ...now }));
    addEventListener(BACK, back);
    return () => removeEventListener(BACK, back);
  }, []);

  useEffect(() => {
    for (let page = Math.floor(seen.first / PAGE_ROWS); page * PAGE_ROWS < seen.last; page++) {
      if (pages.has(page) || reading.current.has(page)) continue;
      reading.current.add(page);
      readRows(app, table, view, page).then(
        (rows) => {
          reading.current.delete(page);
          setError(undefined);
          setPages((known) => new Map([...[...known].slice(1 - KEPT_PAGES), [page, rows]]));
        },
        (failure: Error) => {
          reading.current.delete(page);
          setError(failure);
        },
      );
    }
  }, [seen, pages, app, table, view]);

  const change = (page: number, changed: Row) =>
    setPages((known) =>
      new Map(known).set(
        page,
        (known.get(page) ?? []).map((row) => (keyOf(row) === keyOf(changed) ? changed : row)),
      ),
    );
  const toggle = (row: Row) => {
    const next = new Map(selected);
    if (!next.delete(keyOf(row))) next.set(keyOf(row), row);
    onSelect(next);
  };
  const sortBy = (name: string) =>
    show(app, table, { ...view, sort: name, isDescending: view.sort === name && !view.isDescending });
  const near = Array.from({ length: Math.max(0, seen.last - seen.first) }, (_, index) => seen.first + index);
  const drawn = [...new Set([...near, ...edited])];
  const columns = isEditable
    ? `2.6rem repeat(${table.columns.length}, minmax(9rem, 1fr))`
    : `repeat(${table.columns.length}, minmax(9rem, 1fr))`;
  return (
    <>
      <Problem error={error} />
      <div
        ref={place}
        class="grid card"
        role="table"
        tabIndex={0}
        aria-label={`Rows of ${table.name}`}
        aria-rowcount={count + 1}
        style={{ '--columns': columns }}
        onScroll={look}
      >
        <div class="grid-head" role="row" aria-rowindex={1}>
          {isEditable && (
            <span role="columnheader">
              <span class="unseen">Selected</span>
            </span>
          )}
          {table.columns.map(({ name, type }) => (
            <span
              key={name}
              role="columnheader"
              aria-sort={view.sort === name ? (view.isDescending ? 'descending' : 'ascending') : 'none'}
            >
              <button type="button" onClick={() => sortBy(name)} title={type}>
                {name} {view.sort === name && (view.isDescending ? '↓' : '↑')}
              </button>
            </span>
          ))}
        </div>
        <div class="grid-body" role="rowgroup" style={{ height: `${count * ROW_PX}px` }}>
          {drawn.map((index) => {
            const page = Math.floor(index / PAGE_ROWS);
            const row = pages.get(page)?.[index % PAGE_ROWS];
            if (!row) return null;
            return (
              <div
                key={index}
                class="grid-row"
                role="row"
                aria-rowindex={index + 2}
                style={{ top: `${index * ROW_PX}px` }}
              >
                {isEditable && (
                  <span role="cell">
                    <input
                      type="checkbox"
                      aria-label={`Select row ${index + 1}`}
                      checked={selected.has(keyOf(row))}
                      onChange={() => toggle(row)}
                    />
                  </span>
                )}
                {table.columns.map((column, at) => (
                  <GridCell
                    key={column.name}
                    value={row.cells[at] ?? null}
                    type={row.types[at] ?? 'null'}
                    column={column}
                    isEditable={isEditable && !column.isGenerated && row.types[at] !== 'blob'}
                    onEditing={(begins) =>
                      setEdited((rows) => (begins ? [...rows, index] : rows.toSpliced(rows.indexOf(index), 1)))
                    }
                    write={async (value) => {
                      const was = row.cells[at] ?? null;
                      if (!(await writeCell(app, table, row, column.name, was, value))) {
                        throw new Error('This row has changed meanwhile, or is gone. Reload to see it.');
                      }
                      const cells = row.cells.with(at, value);
                      const types = row.types.with(
                        at,
                        value === null ? 'null' : typeof value === 'number' ? 'real' : 'text',
                      );
                      change(page, { ...row, cells, types });
                    }}
                  />
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </>
  );
}

const keyOf = ({ key }: Row): string => JSON.stringify(key);

type CellProps = {
  value: Cell;
  type: string;
  column: Column;
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
function GridCell({ value, type, column, isEditable, onEditing, write }: CellProps) {
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
  return (
    <span
      ref={place}
      role="cell"
      tabIndex={isEditable ? 0 : undefined}
      class={`cell ${type}`}
      title={value === null ? 'null' : String(value)}
      onDblClick={begin}
      onKeyDown={(event) => event.key === 'Enter' && begin()}
    >
      {type === 'null' ? 'null' : type === 'blob' ? 'blob' : String(value)}
    </span>
  );
}

/** Browsers end lines with LF; a text that ends them with CRLF keeps that. */
function sameEnds(text: string, before: Cell): string {
  return typeof before === 'string' && before.includes('\r\n') ? text.replaceAll('\n', '\r\n') : text;
}

type FiltersProps = { table: Table; view: View; onChange: (filters: readonly Filter[]) => void };

function Filters({ table, view, onChange }: FiltersProps) {
  const [column, setColumn] = useState(table.columns[0]?.name ?? '');
  const [operator, setOperator] = useState<Operator>('contains');
  const [value, setValue] = useState('');
  const needsValue = operator !== 'is null' && operator !== 'is not null';
  const add = (event: Event) => {
    event.preventDefault();
    onChange([...view.filters, { column, operator, value: needsValue ? value : '' }]);
    setValue('');
  };
  return (
    <>
      <form class="line" onSubmit={add}>
        <select aria-label="Column" value={column} onChange={({ currentTarget }) => setColumn(currentTarget.value)}>
          {table.columns.map(({ name }) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <select
          aria-label="Operator"
          value={operator}
          onChange={({ currentTarget }) => setOperator(currentTarget.value as Operator)}
        >
          {OPERATORS.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        {needsValue && (
          <input
            aria-label="Value"
            placeholder="Value"
            value={value}
            onInput={({ currentTarget }) => setValue(currentTarget.value)}
          />
        )}
        <Button type="submit" class="small">
          Filter
        </Button>
      </form>
      {view.filters.map((filter, index) => {
        const text = `${filter.column} ${filter.operator} ${filter.value}`.trim();
        return (
          <Button
            key={text}
            class="small chip"
            aria-label={`Remove the filter ${text}`}
            onClick={() => onChange(view.filters.toSpliced(index, 1))}
          >
            {text} ×
          </Button>
        );
      })}
    </>
  );
}

function AddRow({
  app,
  table,
  onClose,
  onDone,
}: {
  app: string;
  table: Table;
  onClose: () => void;
  onDone: () => void;
}) {
  const [values, setValues] = useState<ReadonlyMap<string, string>>(new Map());
  const [problem, setProblem] = useState<Error>();
  const [isWaiting, setWaiting] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isWaiting) return;
    setWaiting(true);
    const given = table.columns.flatMap((column): [string, Cell][] => {
      const text = values.get(column.name);
      return text === undefined ? [] : [[column.name, cellOf(text, column)]];
    });
    try {
      await addRow(app, table, new Map(given));
      notify('The row is added.');
      onClose();
      onDone();
    } catch (error) {
      setProblem(error as Error);
      setWaiting(false);
    }
  };
  const set = (name: string, text: string) => {
    const next = new Map(values);
    if (text === '') next.delete(name);
    else next.set(name, text);
    setValues(next);
  };
  return (
    <Dialog title={`Add a row to ${table.name}`} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        {table.columns
          .filter(({ isGenerated }) => !isGenerated)
          .map((column) => (
            <Field key={column.name} label={column.name} hint={hintOf(column)}>
              <input
                value={values.get(column.name) ?? ''}
                onInput={({ currentTarget }) => set(column.name, currentTarget.value)}
              />
            </Field>
          ))}
        <Problem error={problem} />
        <div class="line end">
          <Button type="submit" kind="primary" disabled={isWaiting}>
            Add row
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function hintOf({ type, isRequired, fallback, inKey }: Column): string {
  const left =
    inKey > 0 && type === 'INTEGER'
      ? 'numbered by itself'
      : fallback !== null
        ? `default ${fallback}`
        : isRequired
          ? 'required'
          : 'null';
  return `${type || 'any type'}; left empty: ${left}`;
}
