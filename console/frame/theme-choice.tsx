/** Chooses between light, dark and what the system has. */
import { useEffect, useState } from 'preact/hooks';
import { chooseTheme, readTheme, THEME_CHANGED, type Theme } from '../theme.ts';
import { Choice, Pressed } from '../ui/page-frame.tsx';

const THEMES: readonly [Theme, string][] = [
  ['light', 'Light'],
  ['system', 'Auto'],
  ['dark', 'Dark'],
];

export function ThemeChoice() {
  const [theme, setTheme] = useState(readTheme);
  useEffect(() => {
    const changed = () => setTheme(readTheme());
    addEventListener(THEME_CHANGED, changed);
    return () => removeEventListener(THEME_CHANGED, changed);
  }, []);
  return (
    <Choice label="Colours" class="theme">
      {THEMES.map(([id, text]) => (
        <Pressed key={id} isPressed={id === theme} onPress={() => chooseTheme(id)}>
          {text}
        </Pressed>
      ))}
    </Choice>
  );
}
