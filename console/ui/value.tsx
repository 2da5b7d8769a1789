/** Shows a JSON value: short ones in a line, long ones folded. */

const LINE_CHARS = 160;
const SHOWN_CHARS = 20_000;

const textOf = (value: unknown, indent?: number): string =>
  typeof value === 'string' ? value : (JSON.stringify(value, null, indent) ?? '');

export function short(value: unknown, chars: number = LINE_CHARS): string {
  const text = textOf(value);
  return text.length > chars ? `${text.slice(0, chars - 1)}…` : text;
}

/** `name` is what the value is, such as `Input`. */
export function Value({ name, value }: { name: string; value: unknown }) {
  if (value === null || value === undefined) return null;
  const line = textOf(value);
  if (line.length <= LINE_CHARS && !line.includes('\n')) {
    return (
      <p class="value">
        <span class="hint">{name}</span> <code>{line}</code>
      </p>
    );
  }
  const text = textOf(value, 2);
  return (
    <details class="value">
      <summary>
        <span class="hint">{name}</span> <code>{short(value, 80)}</code>
      </summary>
      <pre tabindex={0}>{text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text}</pre>
    </details>
  );
}
