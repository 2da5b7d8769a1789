/** What a tool answered: a table when it is rows, otherwise JSON, with status and duration. */
import { useState } from 'preact/hooks';
import { hrefOf } from '../../address.ts';
import { Located } from '../../ui/located.tsx';
import { Button, CopyButton, State } from '../../ui/parts.tsx';
import { plural, took } from '../../words.ts';
import type { Kind, Outcome } from './tool-call.ts';

type Row = Record<string, unknown>;

/** Drawn at first; all of a long list is drawn when it is asked for, up to the second. */
const ROWS = 200;
const ROWS_MOST = 5000;
const COLUMNS = 30;
const TEXT_CHARS = 200_000;

export function Result({ app, kind, outcome }: { app: string; kind: Kind; outcome: Outcome }) {
  const [asJson, setAsJson] = useState(false);
  const { status, error } = outcome;
  const envelope = kind === 'action' ? (outcome.data as { status: number; body: unknown } | undefined) : undefined;
  const value = error ? undefined : envelope ? envelope.body : outcome.data;
  const rows = rowsOf(value);
  const shownStatus = envelope?.status ?? status;
  return (
    <section class="tool-result" aria-label="Result" aria-live="polite">
      <p class="line result-head">
        <State
          state={error || shownStatus >= 400 ? 'error' : 'ok'}
          text={error ? `${error.code}${status > 0 ? ` (${status})` : ''}` : `Status ${shownStatus}`}
        />
        <span class="hint">{factsOf(outcome, rows)}</span>
        {!error && (
          <span class="result-acts">
            {rows && (
              <Button class="small" aria-pressed={asJson} onClick={() => setAsJson(!asJson)}>
                {asJson ? 'As table' : 'As JSON'}
              </Button>
            )}
            <CopyButton text={JSON.stringify(value ?? null, null, 2)} label="Copy result" />
          </span>
        )}
      </p>
      {error && (
        <p class="problem">
          <Located text={error.message} app={app} />{' '}
          {error.code === 'HANDLER_ERROR' && (
            <a href={hrefOf(['apps', app, 'logs'], { level: 'error' })}>Errors in the log</a>
          )}
        </p>
      )}
      {!error && (rows && !asJson ? <Rows rows={rows} /> : <Json value={value} />)}
    </section>
  );
}

function factsOf({ ms, handlerMs, isKept }: Outcome, rows: Row[] | undefined): string {
  const time = handlerMs === undefined || isKept ? took(ms) : `${took(ms)} (handler ${took(handlerMs)})`;
  const facts = [time];
  if (isKept) facts.push('from kept results');
  if (rows) facts.push(plural(rows.length, 'row'));
  return facts.join(' · ');
}

/** A list of objects, or undefined. */
function rowsOf(value: unknown): Row[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const isRows = value.every((one) => typeof one === 'object' && one !== null && !Array.isArray(one));
  return isRows ? (value as Row[]) : undefined;
}

function Rows({ rows }: { rows: Row[] }) {
  const [most, setMost] = useState(ROWS);
  const columns = [...new Set(rows.slice(0, 100).flatMap((row) => Object.keys(row)))].slice(0, COLUMNS);
  const shown = rows.slice(0, most);
  const isNumber = (column: string) => typeof rows[0]?.[column] === 'number';
  return (
    <>
      <div class="result-table" tabindex={0}>
        <table>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column} scope="col" class={isNumber(column) ? 'number' : undefined}>
                  {column}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row, index) => (
              <tr key={index}>
                {columns.map((column) => (
                  <td key={column} class={typeof row[column] === 'number' ? 'number' : undefined}>
                    {cellOf(row[column])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > shown.length && (
        <p class="line hint">
          The first {shown.length.toLocaleString()} of {rows.length.toLocaleString()} rows.
          {most < ROWS_MOST && (
            <Button kind="link" onClick={() => setMost(ROWS_MOST)}>
              Show more
            </Button>
          )}
        </p>
      )}
    </>
  );
}

function cellOf(value: unknown): string {
  if (value === undefined) return '';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}

function Json({ value }: { value: unknown }) {
  const text = JSON.stringify(value ?? null, null, 2);
  return (
    <>
      <pre class="result-json" tabindex={0}>
        {text.slice(0, TEXT_CHARS)}
      </pre>
      {text.length > TEXT_CHARS && <p class="hint">This is the beginning. “Copy result” has all of it.</p>}
    </>
  );
}
