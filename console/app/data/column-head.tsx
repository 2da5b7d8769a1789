/** The head of a column: its name, its type, how it is sorted, and the edge by which its width is changed. */
import { useRef } from 'preact/hooks';
import type { Column, View } from './tables.ts';
import { isNumeric, type TimeUnit } from './values.ts';
import { LEAST_PX, MOST_PX } from './widths.ts';

/** One press of an arrow key. */
const STEP_PX = 16;

type HeadProps = {
  column: Column;
  view: View;
  unit: TimeUnit | null;
  onSort: () => void;
  /** Null lets the grid choose. */
  onWidth: (px: number | null) => void;
};

export function ColumnHead({ column: { name, type, inKey }, view, unit, onSort, onWidth }: HeadProps) {
  const place = useRef<HTMLSpanElement>(null);
  const isSorted = view.sort === name;
  const widthNow = (): number => place.current?.offsetWidth ?? LEAST_PX;
  const onPointerDown = (event: PointerEvent) => {
    const edge = event.currentTarget as HTMLElement;
    const begin = event.clientX - widthNow();
    edge.setPointerCapture(event.pointerId);
    const move = ({ clientX }: PointerEvent) => onWidth(clientX - begin);
    edge.addEventListener('pointermove', move);
    edge.addEventListener('lostpointercapture', () => edge.removeEventListener('pointermove', move), { once: true });
    event.preventDefault();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowLeft' ? -STEP_PX : event.key === 'ArrowRight' ? STEP_PX : 0;
    const next = widthNow() + step;
    if (step !== 0) {
      onWidth(next);
      (event.currentTarget as HTMLInputElement).value = String(next);
    } else if (event.key === 'Home') onWidth(null);
    else return;
    event.preventDefault();
  };
  return (
    <span
      ref={place}
      role="columnheader"
      class={isNumeric(type) && unit === null ? 'number' : ''}
      aria-sort={isSorted ? (view.isDescending ? 'descending' : 'ascending') : 'none'}
    >
      <button type="button" onClick={onSort}>
        <span class="column-name">
          {name} {isSorted && (view.isDescending ? '↓' : '↑')}
        </span>{' '}
        <small>{`${type.toLowerCase()}${inKey > 0 ? ' key' : ''}`.trim() || 'any'}</small>
      </button>
      <input
        type="range"
        class="column-edge"
        aria-label={`Width of ${name}`}
        title="Drag to change the width, double-click to reset it"
        min={LEAST_PX}
        max={MOST_PX}
        onFocus={({ currentTarget }) => {
          currentTarget.value = String(widthNow());
        }}
        onPointerDown={onPointerDown}
        onDblClick={() => onWidth(null)}
        onKeyDown={onKeyDown}
      />
    </span>
  );
}
