/** A line of text to copy: an address, a secret or a command. */
import { useRef, useState } from 'preact/hooks';
import { Button } from './parts.tsx';

/**
 * `of` names the thing whose text it is, for screen readers. If the browser refuses, the text is selected and the button says what
 * to press.
 */
export function CopyField({ name, value, of }: { name: string; value: string; of: string }) {
  const field = useRef<HTMLInputElement>(null);
  const [said, setSaid] = useState('Copy');
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(value);
      setSaid('Copied');
    } catch {
      // Browsers refuse it to pages that came over plain HTTP from another machine.
      field.current?.focus();
      setSaid('Press Ctrl+C');
    }
  };
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
      <Button class="small" aria-label={`Copy ${name.toLowerCase()} of ${of}`} onClick={() => void copy()}>
        <span role="status">{said}</span>
      </Button>
    </div>
  );
}
