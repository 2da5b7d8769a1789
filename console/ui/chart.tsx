/** Draws curves or bars over time with uPlot; the same numbers are in a table for those who cannot see them. */
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { THEME_CHANGED } from '../theme.ts';

export type Series = {
  label: string;
  /** One for each time; null where nothing is known. */
  values: readonly (number | null)[];
  /** A variable of base.css, such as `--accent`. */
  color: string;
};

export type ChartProps = {
  title: string;
  /** Milliseconds since the epoch, ascending. */
  times: readonly number[];
  series: readonly Series[];
  /** Says a value with its unit. */
  format: (value: number) => string;
  /** What the lines of the grid may be apart, so that bytes and counts are round; any decimal step by default. */
  steps?: readonly number[] | undefined;
  /** Bars are for sums over days or minutes, curves for what goes on. */
  kind?: 'curve' | 'bars';
  height?: number;
};

export const WHOLE_STEPS: readonly number[] = Array.from({ length: 10 }, (_, power) => 10 ** power).flatMap((ten) => [
  ten,
  2 * ten,
  5 * ten,
]);
export const BYTE_STEPS: readonly number[] = Array.from({ length: 50 }, (_, power) => 2 ** power);

/** A chart shows at least so many seconds: one point alone has no length. */
const LEAST_S = 60;

/** Drawn anew when its size or the theme changes; new values move the curves. */
export function Chart({ title, times, series, format, steps, kind = 'curve', height = 130 }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = [times.map((at) => at / 1000), ...series.map(({ values }) => [...values])] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;
  const shape = series.map(({ label, color }) => `${label} ${color}`).join();

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const draw = () => {
      plot.current?.destroy();
      const options = optionsOf({ series, format, steps, kind, height, width: element.clientWidth, element });
      plot.current = new uPlot(options, latest.current, element);
    };
    draw();
    const resized = new ResizeObserver(() => {
      const width = element.clientWidth;
      if (plot.current && width > 0 && width !== plot.current.width) plot.current.setSize({ width, height });
    });
    resized.observe(element);
    const theme = matchMedia('(prefers-color-scheme: dark)');
    theme.addEventListener('change', draw);
    addEventListener(THEME_CHANGED, draw);
    return () => {
      resized.disconnect();
      theme.removeEventListener('change', draw);
      removeEventListener(THEME_CHANGED, draw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, kind, height]);

  useEffect(() => plot.current?.setData(latest.current), [data]);

  const last = (values: readonly (number | null)[]) => values.findLast((value) => value !== null) ?? null;
  return (
    <figure class="chart">
      <figcaption>
        <b>{title}</b>
        {series.map(({ label, values, color }) => {
          const value = last(values);
          return (
            <span key={label} class="legend">
              <i style={{ background: `var(${color})` }} aria-hidden="true" />
              {label} {kind === 'curve' && value !== null && <b>{format(value)}</b>}
            </span>
          );
        })}
      </figcaption>
      <div ref={place} style={{ height: `${height}px` }} role="img" aria-label={summaryOf(title, series, format)} />
    </figure>
  );
}

/** What the picture says, in a sentence. */
function summaryOf(title: string, series: readonly Series[], format: (value: number) => string): string {
  const said = series.map(({ label, values }) => {
    const known = values.filter((value) => value !== null);
    if (known.length === 0) return `${label}: nothing yet`;
    return `${label}: from ${format(Math.min(...known))} to ${format(Math.max(...known))}, now ${format(known.at(-1)!)}`;
  });
  return `${title}. ${said.join('; ')}.`;
}

type Options = Omit<ChartProps, 'title' | 'times'> & { width: number; element: HTMLElement };

function optionsOf({ series, format, steps, kind = 'curve', height = 130, width, element }: Options): uPlot.Options {
  const style = getComputedStyle(element);
  /** A canvas does not know `light-dark()`: the colour is asked of an element. */
  const colorOf = (variable: string) => {
    const probe = element.appendChild(document.createElement('i'));
    probe.style.color = `var(${variable})`;
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  };
  const axis: uPlot.Axis = {
    stroke: colorOf('--faint'),
    grid: { stroke: colorOf('--line'), width: 1 },
    ticks: { show: false },
    font: `11px ${style.fontFamily}`,
  };
  return {
    width: Math.max(80, width),
    height,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    // Half of the last time stands beyond the end.
    padding: [8, 28, 0, 0],
    scales: {
      x: { range: ({ data: [times] }) => spanOf(kind, times) },
      y: { range: (_plot, _min, max) => [0, max ? max * 1.1 : 1] },
    },
    axes: [
      { ...axis, size: 24, space: 70, values: timesOf },
      { ...axis, size: 56, values: (_plot, ticks) => ticks.map(format), ...(steps && { incrs: [...steps] }) },
    ],
    series: [
      {},
      ...series.map(({ label, color }): uPlot.Series => {
        const stroke = colorOf(color);
        return {
          label,
          stroke,
          width: kind === 'bars' ? 0 : 1.5,
          // A point without neighbours is no line.
          points:
            kind === 'bars'
              ? { show: false }
              : { size: 4, fill: stroke, filter: ({ data }, index) => alone(data[index]!) },
          ...(kind === 'bars' && { fill: stroke, paths: uPlot.paths.bars!({ size: [0.7, 40] }) }),
        };
      }),
    ],
  };
}

/** From the first to the last time, with room for whole bars at both ends. uPlot itself would give a time alone a whole day. */
function spanOf(kind: ChartProps['kind'], times: ArrayLike<number>): [number, number] {
  const last = times[times.length - 1] ?? Date.now() / 1000;
  const first = times[0] ?? last;
  if (kind === 'bars' && times.length > 1) {
    const half = (times[1]! - first) / 2;
    return [first - half, last + half];
  }
  return [Math.min(first, last - LEAST_S), last];
}

function alone(values: ArrayLike<number | null | undefined>): number[] {
  const isKnown = (at: number) => values[at] !== null && values[at] !== undefined;
  return Array.from(values, (_, at) => at).filter((at) => isKnown(at) && !isKnown(at - 1) && !isKnown(at + 1));
}

/** Times of a day, or days where the ticks are days apart; a line each. */
function timesOf(_plot: uPlot, ticks: number[]): string[] {
  const step = (ticks[1] ?? 0) - (ticks[0] ?? 0);
  return ticks.map((tick) => {
    const at = new Date(tick * 1000);
    if (step >= 43_200) return at.toLocaleDateString([], { day: 'numeric', month: 'short' });
    return at.toTimeString().slice(0, step < 60 ? 8 : 5);
  });
}
