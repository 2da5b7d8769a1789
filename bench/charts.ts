/** The charts of a report: what each compares, and in which unit. */

import type { EChartsOption, SeriesOption } from 'echarts';
import { BarChart, LineChart, ScatterChart } from 'echarts/charts';
import { GridComponent, LegendComponent, MarkLineComponent, TitleComponent } from 'echarts/components';
import * as echarts from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';
import type { LoadMeasurement, Measurement, MemoryCourse, SideResult } from './measurements.ts';

/** `name` goes into the file's name. */
export type Chart = { name: string; title: string; svg: string };

/** Above this a bar would leave nothing to see of the others; such scenarios stand in the table only. */
const CPU_CHART_MICROS = 1500;
const MiB = 2 ** 20;
const GATEWAY = 'gateway';
const REFERENCES = ['bare edge', 'plain server', 'store loop'];

/** Those that the measurements have something for. */
export function drawCharts(measurements: Measurement[]): Chart[] {
  const loads = measurements.filter((one): one is LoadMeasurement => one.kind === 'load' && GATEWAY in one.sides);
  const courses = measurements.filter((one): one is MemoryCourse => one.kind === 'memory');
  return [
    ...(loads.length > 0 ? [ratioChart(loads), latencyChart(loads), cpuChart(loads)] : []),
    ...courses.map(memoryChart),
  ];
}

function ratioChart(loads: LoadMeasurement[]): Chart {
  const title = 'Requests a second of the gateway, as a multiple of each reference';
  const series = REFERENCES.flatMap((name, i) =>
    dots(
      name,
      PALETTE[i] as string,
      loads.map(({ ratios }) => ratios[name]?.estimate ?? null),
    ),
  );
  return dotChart('ratios', title, 'multiple (1: as fast as the reference), logarithmic', loads, [
    ...series.slice(0, 1).map((one) => ({ ...one, markLine: lineAt(1) })),
    ...series.slice(1),
  ]);
}

function latencyChart(loads: LoadMeasurement[]): Chart {
  const percentiles: [string, (side: SideResult) => number][] = [
    ['p50', ({ p50 }) => p50],
    ['p99', ({ p99 }) => p99],
    ['p99.9', ({ p999 }) => p999],
    ['worst', ({ worst }) => worst],
  ];
  const series = percentiles.flatMap(([name, of], i) =>
    dots(
      name,
      PALETTE[i] as string,
      loads.map(({ sides }) => of(sides[GATEWAY] as SideResult)),
    ),
  );
  return dotChart('latencies', 'Latency of the gateway', 'milliseconds, logarithmic', loads, series);
}

/** A row for each load, from the top, with a dot for each value above 0. */
function dotChart(name: string, title: string, unit: string, loads: LoadMeasurement[], series: SeriesOption[]): Chart {
  const option: EChartsOption = {
    xAxis: { type: 'log', name: unit, axisLabel: { formatter: (value: number) => String(value) } },
    yAxis: { type: 'category', inverse: true, data: loads.map(rowName), splitLine: { show: true } },
    series,
  };
  return { name, title, svg: draw(title, option, loads.length) };
}

function dots(name: string, color: string, values: (number | null)[]): SeriesOption[] {
  const data = values.flatMap((value, row) => (value !== null && value > 0 ? [[value, row]] : []));
  return data.length === 0 ? [] : [{ name, type: 'scatter', symbolSize: 10, itemStyle: { color }, data }];
}

function lineAt(value: number): object {
  return { silent: true, symbol: 'none', label: { show: false }, data: [{ xAxis: value }] };
}

function cpuChart(all: LoadMeasurement[]): Chart {
  const most = new Map(all.map((load) => [load.scenario, load]));
  const loads = [...most.values()].filter(({ sides }) => cpuOf(sides[GATEWAY] as SideResult) <= CPU_CHART_MICROS);
  const title = 'CPU time of a request by process, without the load generators';
  const processes = new Set(loads.flatMap(({ sides }) => Object.keys(sides[GATEWAY]?.cpu ?? {})));
  processes.delete('load');
  const own = [...processes].map((process) => ({ process, server: GATEWAY }));
  const bars = [...own, ...['bare edge', 'plain server'].map((name) => ({ process: name, server: name }))];
  const option: EChartsOption = {
    xAxis: { type: 'value', name: `µs of CPU a request (scenarios above ${CPU_CHART_MICROS} µs: see the table)` },
    yAxis: { type: 'category', inverse: true, data: loads.map(rowName) },
    series: bars.map(({ process, server }, i) => ({
      name: process,
      type: 'bar',
      stack: server,
      itemStyle: { color: PALETTE[i % PALETTE.length] as string },
      data: loads.map(({ sides }) => sides[server]?.cpu[process] ?? 0),
    })),
  };
  return { name: 'cpu', title, svg: draw(title, option, loads.length * 2) };
}

function cpuOf({ cpu }: SideResult): number {
  return Object.entries(cpu).reduce((sum, [name, used]) => (name === 'load' ? sum : sum + used), 0);
}

function memoryChart({ scenario, samples }: MemoryCourse): Chart {
  const title = `Memory of all processes over time, ${scenario} load`;
  const processes = Object.keys(samples[0]?.pss ?? {});
  const option: EChartsOption = {
    xAxis: { type: 'value', name: 'seconds since the load began', max: 'dataMax' },
    yAxis: { type: 'value', name: 'MiB (PSS), stacked' },
    series: processes.map((name, i) => ({
      name,
      type: 'line',
      stack: 'all',
      symbol: 'none',
      lineStyle: { width: 1 },
      areaStyle: { opacity: 0.6 },
      color: PALETTE[i % PALETTE.length] as string,
      data: samples.map(({ at, pss }) => [at, (pss[name] ?? 0) / MiB]),
    })),
  };
  return { name: 'memory', title, svg: draw(title, option) };
}

function rowName({ scenario, connections }: LoadMeasurement): string {
  return `${scenario}, ${connections} in flight`;
}

/** Each stands out on white and on black. */
export const PALETTE = ['#3b82d6', '#d9822b', '#2a9d75', '#a764c4', '#d1495b', '#7b8794'];

const WIDTH = 860;
/** Of a chart without rows. */
const HEIGHT = 380;
const ROW_HEIGHT = 24;
/** Where the names of the rows end. */
const ROW_NAMES = 176;
const TOP = 84;
const BOTTOM = 64;
/** The colours of a light page and what a dark one has in their place. */
const INK = { light: '#1f2328', dark: '#e6edf3' };
const GRID = { light: '#d1d9e0', dark: '#3d444d' };
const PAPER = { light: '#ffffff', dark: '#0d1117' };

echarts.use([
  BarChart,
  LineChart,
  ScatterChart,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TitleComponent,
  SVGRenderer,
]);

/** `option` has the axes and series. With `rows`, the chart is as high as these need. */
export function draw(title: string, option: EChartsOption, rows?: number): string {
  const height = rows === undefined ? HEIGHT : TOP + BOTTOM + rows * ROW_HEIGHT;
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height });
  try {
    chart.setOption({
      ...option,
      animation: false,
      backgroundColor: PAPER.light,
      textStyle: { fontFamily: 'system-ui, sans-serif', color: INK.light },
      title: { text: title, left: 16, top: 12, textStyle: { fontSize: 16, color: INK.light } },
      legend: { left: 16, top: 42, itemGap: 24, icon: 'roundRect', textStyle: { color: INK.light } },
      grid: { left: rows === undefined ? 72 : ROW_NAMES, right: 32, top: TOP, bottom: BOTTOM, outerBoundsMode: 'none' },
      xAxis: axis(option.xAxis as Axis, { nameLocation: 'middle', nameGap: 30 }),
      yAxis: axis(option.yAxis as Axis, { nameLocation: 'middle', nameGap: 48 }),
    });
    return forDarkPages(chart.renderToSVGString());
  } finally {
    chart.dispose();
  }
}

type Axis = { splitLine?: object; axisLabel?: object };

function axis(own: Axis, more: object): object {
  return {
    nameTextStyle: { color: INK.light },
    axisLine: { lineStyle: { color: GRID.light } },
    ...more,
    ...own,
    splitLine: { lineStyle: { color: GRID.light }, ...own.splitLine },
    axisLabel: { color: INK.light, ...own.axisLabel },
  };
}

function forDarkPages(svg: string): string {
  const rules = [INK, GRID, PAPER].flatMap(({ light, dark }) =>
    ['fill', 'stroke'].map((kind) => `[${kind}="${light}"]{${kind}:${dark}}`),
  );
  const style = `<style>@media (prefers-color-scheme: dark){${rules.join('')}}</style>`;
  return svg.replace('>', `>${style}`);
}
