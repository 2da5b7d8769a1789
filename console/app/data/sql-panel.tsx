/** SQL by hand: run, explained, and asked about before it drops or changes every row. */
import { useState } from 'preact/hooks';
import { keywordWithoutWhere } from '../../../protocol/rules/sql.ts';
import { lazy } from '../../frame/lazy.tsx';
import { gateway } from '../../gateway.ts';
import { Button, Card, Confirm, Problem } from '../../ui/parts.tsx';
import { clock, plural, took } from '../../words.ts';
import { csvOf, MOST_QUERY_ROWS } from './csv.ts';
import { CsvButton } from './csv-button.tsx';
import { type Cell, quoted, run, runForRows, type SqlAnswer, type SqlRows } from './tables.ts';
import { exactly, type TimeUnit, timeOf, timeUnitOf } from './values.ts';

const SqlEditor = lazy(async () => (await import('./sql-editor.tsx')).SqlEditor);

type Shown = { sql: string; answer: SqlAnswer; ms: number; copy: string | null; isPlan: boolean };
type Props = { app: string; tables: readonly string[]; onSchemaChange: () => void };

/** What was run, newest first. */
const KEPT = 20;

/** The typed text, and the statements that ran, by app: they are there again after a look at another view. */
const typed = new Map<string, string>();
const ran = new Map<string, readonly string[]>();

export function SqlPanel({ app, tables, onSchemaChange }: Props) {
  const [chosen, setChosen] = useState({
    text: typed.get(app) ?? (tables[0] === undefined ? '' : `SELECT * FROM ${quoted(tables[0])} LIMIT 50`),
  });
  const [sql, setSql] = useState(chosen.text);
  const [asked, setAsked] = useState<{ sql: string; sweeps: string }>();
  const [shown, setShown] = useState<Shown>();
  const [problem, setProblem] = useState<Error>();
  const [isWaiting, setWaiting] = useState(false);
  const [past, setPast] = useState<readonly string[]>(ran.get(app) ?? []);
  typed.set(app, sql);
  ran.set(app, past);

  const perform = async (text: string, { isPlan = false, needsCopy = false } = {}) => {
    setAsked(undefined);
    setWaiting(true);
    setProblem(undefined);
    try {
      // Before what cannot be undone, the data is copied aside.
      const params = { id: app };
      const copy = needsCopy ? (await gateway.call('POST /svc/_apps/:id/copies', { params })).copy : null;
      const begun = performance.now();
      const answer = await run(app, isPlan ? `EXPLAIN QUERY PLAN ${text}` : text);
      setShown({ sql: text, answer, ms: performance.now() - begun, copy, isPlan });
      if (!isPlan) setPast((known) => [text, ...known.filter((other) => other !== text)].slice(0, KEPT));
      if (!('rows' in answer)) onSchemaChange();
    } catch (error) {
      setProblem(error as Error);
      setShown(undefined);
    }
    setWaiting(false);
  };
  const submit = () => {
    if (isWaiting || sql.trim() === '') return;
    const sweeps = keywordWithoutWhere(sql);
    if (sweeps === null) void perform(sql);
    else setAsked({ sql, sweeps });
  };
  return (
    <>
      <Card>
        <SqlEditor chosen={chosen} tables={tables} onChange={setSql} onRun={submit} />
        <p class="line sql-bar">
          <Button kind="primary" disabled={isWaiting} onClick={submit} aria-keyshortcuts="Control+Enter">
            Run
          </Button>
          <Button disabled={isWaiting} onClick={() => sql.trim() !== '' && void perform(sql, { isPlan: true })}>
            Explain
          </Button>
          {past.length > 0 && (
            <select
              aria-label="Earlier statements"
              value=""
              onChange={({ currentTarget }) => setChosen({ text: currentTarget.value })}
            >
              <option value="">Earlier statements</option>
              {past.map((text) => (
                <option key={text} value={text}>
                  {text.slice(0, 80)}
                </option>
              ))}
            </select>
          )}
          <span class="hint">One statement, for at most 2 s. Ctrl Enter runs it.</span>
        </p>
      </Card>
      <Problem error={problem} />
      {shown && <Answer app={app} {...shown} />}
      {asked && (
        <Confirm
          title={asked.sweeps === 'DROP' ? 'Drop it?' : `${asked.sweeps} without WHERE changes every row`}
          verb="Copy the data, then run"
          onDone={() => void perform(asked.sql, { needsCopy: true })}
          onClose={() => setAsked(undefined)}
        >
          <p>The data is copied into the app's folder of backups first, which keeps the last three copies.</p>
          <pre>{asked.sql}</pre>
        </Confirm>
      )}
    </>
  );
}

function Answer({ app, sql, answer, ms, copy, isPlan }: Shown & { app: string }) {
  const aside = (
    <>
      in {took(ms)}
      {copy !== null && (
        <>
          ; the data before is in <code>backups/{copy}</code>
        </>
      )}
    </>
  );
  if (!('rows' in answer)) {
    return (
      <p role="status">
        {plural(answer.changes, 'row')} changed <span class="hint">{aside}</span>
      </p>
    );
  }
  return (
    <>
      <div class="line result-bar">
        <p role="status">
          {isPlan ? 'The plan' : plural(answer.rows.length, 'row')}{' '}
          <span class="hint">
            {aside}
            {answer.truncated && '; only these are shown'}
          </span>
        </p>
        {!isPlan && answer.rows.length > 0 && (
          <CsvButton
            name={`${app}-result`}
            read={async ({ signal }) => {
              // Rows that are all here are not read again: the statement may have written.
              const all = answer.truncated ? await runForRows(app, sql, MOST_QUERY_ROWS, [], signal) : answer;
              return { csv: csvOf(all), rows: all.rows.length, isWhole: !all.truncated };
            }}
          />
        )}
      </div>
      {isPlan ? <Plan answer={answer} /> : <Result answer={answer} />}
    </>
  );
}

function Result({ answer: { columns, rows } }: { answer: SqlRows }) {
  const looks = columns.map((name, at) => {
    const values = rows.map((row) => row[at] ?? null);
    const unit = timeUnitOf({ name, type: '' }, values);
    const isNumber = unit === null && values.every((value) => value === null || typeof value === 'number');
    return { unit, class: isNumber ? 'number' : '' };
  });
  return (
    <div class="card table result" role="region" aria-label="Result" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((name, at) => (
              <th key={at} class={looks[at]?.class}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              {row.map((value, column) => (
                <ResultCell key={column} value={value} unit={looks[column]?.unit ?? null} look={looks[column]?.class} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

type ResultCellProps = { value: Cell; unit: TimeUnit | null; look: string | undefined };

function ResultCell({ value, unit, look }: ResultCellProps) {
  const [isFocused, setFocused] = useState(false);
  const at = timeOf(value, unit);
  if (at === null) return <td class={value === null ? 'hint' : look}>{value === null ? 'null' : String(value)}</td>;
  return (
    <td
      class="time"
      tabIndex={0}
      title={exactly(value, at)}
      onFocus={() => setFocused(true)}
      onBlur={() => setFocused(false)}
    >
      {isFocused ? String(value) : clock(at)}
    </td>
  );
}

/** Steps by their parents. A SCAN reads a whole table, a SEARCH uses an index. */
function Plan({ answer: { rows } }: { answer: SqlRows }) {
  const depths = new Map<unknown, number>();
  if (rows.length === 0) return <p class="hint">SQLite lists no steps: this statement reads no table.</p>;
  return (
    <ol class="card plan" aria-label="Plan">
      {rows.map(([id, parent, , detail]) => {
        const depth = (depths.get(parent) ?? -1) + 1;
        depths.set(id, depth);
        return (
          <li key={String(id)} style={{ paddingLeft: `${depth * 1.2}rem` }}>
            <code class={String(detail).startsWith('SCAN') ? 'scan' : ''}>{detail}</code>
          </li>
        );
      })}
    </ol>
  );
}
