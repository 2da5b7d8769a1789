/** Texts to be copied: addresses, secrets, commands. */
import { useRef, useState } from 'preact/hooks';
import { Button } from './parts.tsx';

/** Puts `text` into the clipboard; says so on the button, or what to press where the browser refuses. */
export function CopyButton({ text, label, onRefused }: { text: string; label: string; onRefused?: () => void }) {
  const [said, setSaid] = useState('Copy');
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setSaid('Copied');
    } catch {
      // Browsers refuse it to pages that came over plain HTTP from another machine.
      onRefused?.();
      setSaid('Press Ctrl+C');
    }
  };
  return (
    <Button class="small" aria-label={`Copy ${label}`} onClick={() => void copy()}>
      <span role="status">{said}</span>
    </Button>
  );
}

/** A line of text to copy; `of` says whose it is, for those who do not see where it stands. */
export function CopyField({ name, value, of }: { name: string; value: string; of: string }) {
  const field = useRef<HTMLInputElement>(null);
  return (
    <div class="line copy-field">
      <span class="hint">{name}</span>
      <input
        ref={field}
        readOnly
        value={value}
        aria-label={`${name} of ${of}`}
        onFocus={({ currentTarget }) => currentTarget.select()}
      />
      <CopyButton text={value} label={`${name.toLowerCase()} of ${of}`} onRefused={() => field.current?.focus()} />
    </div>
  );
}
