/** Light, dark, or as the browser has it: chosen for this console, and kept in the browser. */

export type Theme = 'light' | 'dark' | 'system';
const KEY = 'svc-console:theme';

const isTheme = (text: string | null): text is Theme => text === 'light' || text === 'dark';

/** Where the browser keeps nothing, it lasts as long as the page. */
let chosen: Theme | null = null;

export function readTheme(): Theme {
  if (chosen !== null) return chosen;
  try {
    const kept = localStorage.getItem(KEY);
    return isTheme(kept) ? kept : 'system';
  } catch {
    return 'system';
  }
}

/** Dispatched on `window` after another theme was chosen. */
export const THEME_CHANGED = 'svc-console:theme';

export function chooseTheme(theme: Theme): void {
  chosen = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // `chosen` has it.
  }
  showTheme(theme);
  dispatchEvent(new Event(THEME_CHANGED));
}

/** Every colour of the console follows `color-scheme`. */
export function showTheme(theme: Theme): void {
  document.documentElement.style.colorScheme = theme === 'system' ? '' : theme;
}
