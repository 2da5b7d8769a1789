/** The fields of one schedule: how often, when, in which time zone; and its next times, which change with them. */
import { useId } from 'preact/hooks';
import { useGateway } from '../gateway-state.tsx';
import { scheduleWords } from '../schedule-words.ts';
import { Field } from '../ui/parts.tsx';
import { ahead, clock } from '../words.ts';
import { DAYS, exprOf, FREQUENCIES, type Frequency, nextTimes, type Schedule } from './schedule.ts';

const SHOWN_TIMES = 5;
/** A Monday. */
const MONDAY = Date.UTC(2024, 0, 1);
const DAY_MS = 86_400_000;

const dayName = (day: number, weekday: 'short' | 'long'): string =>
  new Date(MONDAY + day * DAY_MS).toLocaleDateString([], { weekday, timeZone: 'UTC' });

export const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

export function ScheduleFields({ schedule, onChange }: { schedule: Schedule; onChange: (next: Schedule) => void }) {
  const zones = useId();
  const { frequency, minute, time, days, tz, catchUp } = schedule;
  const change = (changed: Partial<Schedule>) => onChange({ ...schedule, ...changed });
  /** The expression says the same as what was chosen before. */
  const choose = (next: Frequency) => change({ frequency: next, ...(next === 'cron' && { expr: exprOf(schedule) }) });
  return (
    <div class="stack schedule">
      <div class="schedule-row">
        <Field label="How often">
          <select value={frequency} onChange={({ currentTarget }) => choose(currentTarget.value as Frequency)}>
            {Object.entries(FREQUENCIES).map(([id, text]) => (
              <option key={id} value={id}>
                {text}
              </option>
            ))}
          </select>
        </Field>
        {frequency === 'hour' && (
          <Field label="Minutes past the hour">
            <input
              type="number"
              min={0}
              max={59}
              required
              value={minute}
              onInput={({ currentTarget: { valueAsNumber } }) =>
                Number.isInteger(valueAsNumber) && change({ minute: Math.min(59, Math.max(0, valueAsNumber)) })
              }
            />
          </Field>
        )}
        {(frequency === 'day' || frequency === 'week') && (
          <Field label="At">
            <input
              type="time"
              required
              value={time}
              onInput={({ currentTarget: { value } }) => value !== '' && change({ time: value.slice(0, 5) })}
            />
          </Field>
        )}
        {frequency === 'cron' && (
          <Field label="Cron expression">
            <input
              class="mono"
              required
              spellcheck={false}
              autocomplete="off"
              value={schedule.expr}
              onInput={({ currentTarget }) => change({ expr: currentTarget.value })}
            />
          </Field>
        )}
        <Field label="Time zone">
          <input
            list={zones}
            spellcheck={false}
            autocomplete="off"
            placeholder="that of the gateway"
            value={tz}
            onInput={({ currentTarget }) => change({ tz: currentTarget.value })}
          />
          <datalist id={zones}>
            {Intl.supportedValuesOf('timeZone').map((zone) => (
              <option key={zone} value={zone} />
            ))}
          </datalist>
        </Field>
      </div>
      {frequency === 'week' && (
        <fieldset class="choices days" aria-label="Days">
          {DAYS.map((id, day) => (
            <label key={id}>
              <input
                type="checkbox"
                aria-label={dayName(day, 'long')}
                checked={days.includes(day)}
                onChange={({ currentTarget: { checked } }) =>
                  change({ days: checked ? [...days, day] : days.filter((one) => one !== day) })
                }
              />
              {dayName(day, 'short')}
            </label>
          ))}
        </fieldset>
      )}
      {frequency === 'cron' && (
        <p class="hint">
          Minute, hour, day of the month, month, day of the week: <code>*/15 * * * *</code> is every quarter of an hour,{' '}
          <code>0 9 1 * *</code> nine o’clock on the first of each month.
        </p>
      )}
      <label class="check">
        <input
          type="checkbox"
          checked={catchUp}
          onChange={({ currentTarget }) => change({ catchUp: currentTarget.checked })}
        />
        Run once at the start of the gateway if it was off at a time
      </label>
      <NextTimes schedule={schedule} />
    </div>
  );
}

/** Why the schedule cannot be used, or null. */
export function problemOf(schedule: Schedule, gatewayZone: string): string | null {
  if (schedule.frequency === 'week' && schedule.days.length === 0) return 'Choose at least one day.';
  try {
    nextTimes({ expr: exprOf(schedule), tz: schedule.tz.trim() || gatewayZone }, Date.now(), 1);
    return null;
  } catch (error) {
    const { message } = error as Error;
    return message.includes('time zone') ? `The time zone ${message}.` : `The expression ${message}.`;
  }
}

/** The zone of schedules that name none: until the gateway has said it, that of the browser. */
export const useGatewayZone = (): string => useGateway().system?.timeZone ?? ownZone();

function NextTimes({ schedule }: { schedule: Schedule }) {
  const gatewayZone = useGatewayZone();
  const zone = schedule.tz.trim() || gatewayZone;
  const problem = problemOf(schedule, gatewayZone);
  if (problem !== null) {
    return (
      <p class="problem" role="alert">
        {problem}
      </p>
    );
  }
  const expr = exprOf(schedule);
  const words = scheduleWords(expr);
  return (
    <div class="next-times" role="status">
      <p>
        <b>{words ?? expr}</b> <span class="hint">({zone})</span>
      </p>
      <p class="hint">The next times:</p>
      <ol>
        {nextTimes({ expr, tz: zone }, Date.now(), SHOWN_TIMES).map((at) => (
          <li key={at}>
            <time dateTime={new Date(at).toISOString()} title={`Here: ${clock(at)}`}>
              {timeIn(at, zone)}
            </time>{' '}
            <span class="hint">{ahead(at)}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}

/** A day and a time, by default as the clocks show it here. */
export const timeIn = (at: number, timeZone?: string): string =>
  new Date(at).toLocaleString([], {
    ...(timeZone !== undefined && { timeZone }),
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    hour: 'numeric',
    minute: '2-digit',
    ...(at % 60_000 !== 0 && { second: '2-digit' }),
  });
