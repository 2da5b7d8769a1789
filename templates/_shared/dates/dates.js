/** Days are ISO text such as 2026-11-22: they sort, and no time zone moves them. */
const DAY_MS = 86_400_000;
const toIso = (date) => date.toISOString().slice(0, 10);
const toDate = (day) => new Date(`${day}T00:00Z`);

/** The day it is where this page is looked at. */
export function today() {
  const now = new Date();
  return toIso(new Date(Date.UTC(now.getFullYear(), now.getMonth(), now.getDate())));
}

export const isDay = (text) => /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(toDate(text).getTime());
export const shift = (day, days) => toIso(new Date(toDate(day).getTime() + days * DAY_MS));
/** 0 is Monday. */
export const weekday = (day) => (toDate(day).getUTCDay() + 6) % 7;
export const monday = (day) => shift(day, -weekday(day));
export const format = (day, options) =>
  new Intl.DateTimeFormat(undefined, { timeZone: 'UTC', ...options }).format(toDate(day));

/** Calls back soon after midnight, and when the page is looked at again on another day. */
export function onNewDay(callback) {
  let day = today();
  const check = () => {
    if (day === today()) return;
    day = today();
    callback();
  };
  setInterval(check, 60_000);
  document.addEventListener('visibilitychange', check);
}
