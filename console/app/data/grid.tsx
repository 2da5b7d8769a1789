/** A table's rows: scrolled over any number of them, sorted, filtered, and edited cell by cell. */
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { go, hrefOf } from '../../address.ts';
import { BACK } from '../../gateway.ts';
import { usePolled } from '../../polled.ts';
import { notify, notifyProblem } from '../../ui/notice.tsx';
import { Button, Confirm, Empty, Loading, Problem } from '../../ui/parts.tsx';
import { plural } from '../../words.ts';
import { AddRow } from './add-row.tsx';
import { GridCell } from './cell.tsx';
import { ColumnHead } from './column-head.tsx';
import { csvOfTable } from './csv.ts';
import { CsvButton } from './csv-button.tsx';
import { Filters } from './filters.tsx';
import {
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
import { timeUnitOf, trackOf } from './values.ts';
import { useWidths } from './widths.ts';

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
          {(count.value ?? 0) > 0 && (
            <CsvButton key={viewKey} name={table.name} read={(options) => csvOfTable(app, table, view, options)} />
          )}
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
  const { widths, set } = useWidths(app, table.name);

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
      readRows(app, table, view, { offset: page * PAGE_ROWS, limit: PAGE_ROWS }).then(
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
  const units = useMemo(() => {
    const read = [...pages.values()].flat();
    return table.columns.map((column, at) =>
      timeUnitOf(
        column,
        read.map(({ cells }) => cells[at] ?? null),
      ),
    );
  }, [pages, table]);
  const tracks = table.columns.map((column, at) =>
    column.name in widths ? `${widths[column.name]}px` : trackOf(column, units[at] ?? null),
  );
  const columns = [...(isEditable ? ['2.6rem'] : []), ...tracks].join(' ');
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
          {table.columns.map((column, at) => (
            <ColumnHead
              key={column.name}
              column={column}
              view={view}
              unit={units[at] ?? null}
              onSort={() => sortBy(column.name)}
              onWidth={(px) => set(column.name, px)}
            />
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
                    unit={units[at] ?? null}
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
