/** Says for a few seconds at the page's edge what was done, or why it was not. */
import { useEffect, useState } from 'preact/hooks';

const SHOWN_MS = 6000;
type Said = { id: number; text: string; isProblem: boolean };

let tell: (said: Said) => void = () => {};
let count = 0;

export const notify = (text: string): void => tell({ id: ++count, text, isProblem: false });

/** For the rejection of something that a button began. */
export const notifyProblem = (error: unknown): void =>
  tell({ id: ++count, text: error instanceof Error ? error.message : String(error), isProblem: true });

export function Notices() {
  const [all, setAll] = useState<Said[]>([]);
  useEffect(() => {
    tell = (said) => {
      setAll((known) => [...known.slice(-2), said]);
      setTimeout(() => setAll((known) => known.filter(({ id }) => id !== said.id)), SHOWN_MS);
    };
    return () => {
      tell = () => {};
    };
  }, []);
  return (
    <div class="notices" role="status" aria-live="polite">
      {all.map(({ id, text, isProblem }) => (
        <p key={id} class={isProblem ? 'notice bad' : 'notice'}>
          {text}
        </p>
      ))}
    </div>
  );
}
