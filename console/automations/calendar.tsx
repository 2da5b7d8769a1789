/** When the schedules fire in the next days, with a column for each day. */
import { useState } from 'preact/hooks';
import type { UpcomingAnswer } from '../../protocol/answer-types.ts';
import { gateway } from '../gateway.ts';
import { usePolled } from '../polled.ts';
import { Button, Empty, Loading, Problem } from '../ui/parts.tsx';
import { plural } from '../words.ts';
import { automationHref } from './automation-parts.tsx';

const READ_MS = 60_000;
const DAYS = 7;
/** Times of one automation on one day that are listed; if there are more, only their number is. */
const SHOWN_FIRES = 3;

type Shown = UpcomingAnswer['rows'][number];

const dayOf = (at: number | Date): string => new Date(at).toDateString();
const timeOf = (at: number): string => new Date(at).toLocaleTimeString([], { hour: 'numeric', minute: '2-digit' });

export function Calendar() {
  const [weeks, setWeeks] = useState(1);
  const days = Math.min(31, weeks * DAYS);
  const { value, error, reload } = usePolled(
    (signal) => gateway.call('GET /svc/_automations/_upcoming', { query: { days } }, { signal }),
    `upcoming ${days}`,
    READ_MS,
  );
  if (!value) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  if (value.rows.length === 0) {
    return (
      <Empty title={`No schedule fires in the next ${days} days`}>
        <p class="hint">A schedule is a trigger of kind “cron” in an automation that is on.</p>
      </Empty>
    );
  }
  const today = new Date();
  const dates = Array.from(
    { length: days },
    (_, ahead) => new Date(today.getFullYear(), today.getMonth(), today.getDate() + ahead),
  );
  return (
    <>
      <ol class="calendar">
        {dates.map((date, ahead) => (
          <li key={date.getTime()} class="card">
            <h2>
              <time dateTime={date.toISOString().slice(0, 10)}>
                {ahead === 0
                  ? 'Today'
                  : date.toLocaleDateString([], { weekday: 'short', day: 'numeric', month: 'short' })}
              </time>
            </h2>
            <Day rows={value.rows} day={dayOf(date)} />
          </li>
        ))}
      </ol>
      {value.rows.some(({ more }) => more) && (
        <p class="hint">
          These fire so often that only their first times are shown:{' '}
          {value.rows
            .filter(({ more }) => more)
            .map((row, at) => [
              at > 0 && ', ',
              <a key={row.ref} href={automationHref(row)}>
                {row.ref}
              </a>,
            ])}
          .
        </p>
      )}
      {value.more && <p class="hint">There are more automations than this list shows.</p>}
      {days < 28 && (
        <p class="more">
          <Button class="small" onClick={() => setWeeks(weeks + 1)}>
            A week more
          </Button>
        </p>
      )}
    </>
  );
}

function Day({ rows, day }: { rows: readonly Shown[]; day: string }) {
  const fires = rows
    .map((row) => ({ row, at: row.fires.filter((fire) => dayOf(fire) === day) }))
    .filter(({ at }) => at.length > 0)
    .sort((a, b) => a.at[0]! - b.at[0]!);
  if (fires.length === 0) return <p class="hint">–</p>;
  return (
    <ul>
      {fires.map(({ row, at }) => (
        <li key={row.ref}>
          <a class="plain" href={automationHref(row)} title={row.ref}>
            <b>{row.name}</b>{' '}
            <span class="hint">
              {at.length > SHOWN_FIRES
                ? `${plural(at.length, 'time')}, from ${timeOf(at[0]!)}`
                : at.map(timeOf).join(', ')}
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}

/** The next times of one automation. */
export async function nextFires(app: string, id: string, signal: AbortSignal): Promise<number[]> {
  const { rows } = await gateway.call('GET /svc/_automations/_upcoming', { query: { days: 31, app } }, { signal });
  return rows.find((row) => row.id === id)?.fires.slice(0, 5) ?? [];
}
