/** The last hour of an app as curves. */
import type { ActivityPoint } from '../../protocol/answer-types.ts';
import { BYTE_STEPS, Chart, type ChartProps, WHOLE_STEPS } from '../ui/chart.tsx';
import { bytes, took } from '../words.ts';

const HOUR_POINTS = 60;
const count = (value: number): string => value.toLocaleString();

export function ActivityCharts({ points, everyMs }: { points: readonly ActivityPoint[]; everyMs: number }) {
  const first = points[0]?.at ?? Date.now();
  // Before the first point the gateway did not run, or nobody used the app: that is an empty part of the same hour.
  const missing = Math.max(0, HOUR_POINTS - points.length);
  const times = [
    ...Array.from({ length: missing }, (_, index) => first - (missing - index) * everyMs),
    ...points.map(({ at }) => at),
  ];
  const valuesOf = (of: (point: ActivityPoint) => number | null) => [
    ...Array.from({ length: missing }, () => null),
    ...points.map(of),
  ];
  const charts: Omit<ChartProps, 'times'>[] = [
    {
      title: 'Calls a minute',
      format: count,
      steps: WHOLE_STEPS,
      kind: 'bars',
      series: [{ label: 'calls', values: valuesOf(({ calls }) => calls), color: '--accent' }],
    },
    {
      title: 'Errors a minute',
      format: count,
      steps: WHOLE_STEPS,
      kind: 'bars',
      series: [
        { label: 'all', values: valuesOf(({ failed, refused }) => failed + refused), color: '--warn' },
        { label: 'failed', values: valuesOf(({ failed }) => failed), color: '--bad' },
      ],
    },
    {
      title: 'Duration',
      format: took,
      series: [
        { label: 'p50', values: valuesOf(({ p50 }) => p50), color: '--good' },
        { label: 'p99', values: valuesOf(({ p99 }) => p99), color: '--accent' },
      ],
    },
    {
      title: 'Data',
      format: bytes,
      steps: BYTE_STEPS,
      series: [{ label: 'size', values: valuesOf(({ dataBytes }) => dataBytes), color: '--accent' }],
    },
    {
      title: 'Live',
      format: count,
      steps: WHOLE_STEPS,
      series: [{ label: 'subscribers', values: valuesOf(({ subscribers }) => subscribers), color: '--accent' }],
    },
  ];
  return (
    <div class="charts">
      {charts.map((chart) => (
        <Chart key={chart.title} {...chart} times={times} />
      ))}
    </div>
  );
}
