/** Durations and times as the command line writes them: short, for columns. */

const TIME_UNITS: [name: string, ms: number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
];

/** The two largest units of a time in milliseconds: `12 ms`, `45 s`, `2 h 14 min`. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const first = TIME_UNITS.findIndex(([, size]) => ms >= size);
  let rest = ms;
  return TIME_UNITS.slice(first, first + 2)
    .map(([name, size]) => {
      const count = Math.floor(rest / size);
      rest -= count * size;
      return count === 0 ? '' : `${count} ${name}`;
    })
    .filter((part) => part !== '')
    .join(' ');
}

/** How long ago a time was: `just now`, `3 min ago`, `2 d ago`. */
export function formatAge(at: number, now: number): string {
  const ms = now - at;
  if (ms < 10_000) return 'just now';
  const [name, size] = TIME_UNITS.find(([, unit]) => ms >= unit) as [string, number];
  return `${Math.floor(ms / size)} ${name} ago`;
}

/** How long until a time: `now`, `in 3 min`, `in 2 d`. */
export function formatWait(at: number, now: number): string {
  const ms = at - now;
  if (ms < 1000) return 'now';
  const [name, size] = TIME_UNITS.find(([, unit]) => ms >= unit) as [string, number];
  return `in ${Math.round(ms / size)} ${name}`;
}

/** Local time of day with milliseconds, `15:04:05.123`. */
export function formatClock(at: number): string {
  const date = new Date(at);
  const two = (n: number): string => String(n).padStart(2, '0');
  const ms = String(date.getMilliseconds()).padStart(3, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${ms}`;
}

/** Local date and time with milliseconds, `2026-01-31 15:04:05.123`. */
export function formatMoment(at: number): string {
  const date = new Date(at);
  const two = (n: number): string => String(n).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${formatClock(at)}`;
}
