/** Light, dark, or as the browser has it: chosen for this console, and kept in the browser. */

export type Theme = 'light' | 'dark' | 'system';
const KEY = 'svc-console:theme';

const isTheme = (text: string | null): text is Theme => text === 'light' || text === 'dark';

export function readTheme(): Theme {
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
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // It then lasts as long as the page.
  }
  showTheme(theme);
  dispatchEvent(new Event(THEME_CHANGED));
}

/** Every colour of the console follows `color-scheme`. */
export function showTheme(theme: Theme): void {
  document.documentElement.style.colorScheme = theme === 'system' ? '' : theme;
}
