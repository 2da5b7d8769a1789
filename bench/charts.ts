/** The chart of a report: the gateway's rate as a multiple of each reference's. */

import type { ScatterSeriesOption } from 'echarts';
import { ScatterChart } from 'echarts/charts';
import { GridComponent, LegendComponent, MarkLineComponent, TitleComponent } from 'echarts/components';
import * as echarts from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';
import type { LoadMeasurement } from './measurements.ts';

const REFERENCES = ['bare edge', 'plain server'];
/** Each stands out on white and on black. */
const PALETTE = ['#3b82d6', '#d9822b'];
const WIDTH = 860;
const ROW_HEIGHT = 24;
/** Where the names of the rows end. */
const ROW_NAMES = 176;
const TOP = 84;
const BOTTOM = 64;
/** The colours of a light page and what a dark one has in their place. */
const INK = { light: '#1f2328', dark: '#e6edf3' };
const GRID = { light: '#d1d9e0', dark: '#3d444d' };
const PAPER = { light: '#ffffff', dark: '#0d1117' };

echarts.use([ScatterChart, GridComponent, LegendComponent, MarkLineComponent, TitleComponent, SVGRenderer]);

/** SVG with a row for each load, from the top, and a dot for each reference; null when no load was on a reference. */
export function ratioChart(measured: LoadMeasurement[]): string | null {
  const loads = measured.filter(({ ratios }) => REFERENCES.some((name) => name in ratios));
  if (loads.length === 0) return null;
  const series = REFERENCES.map((name, i): ScatterSeriesOption => {
    const data = loads.flatMap(({ ratios }, row) => (ratios[name] ? [[ratios[name].estimate, row]] : []));
    return { name, type: 'scatter', symbolSize: 10, itemStyle: { color: PALETTE[i] as string }, data };
  });
  const asFast = { silent: true, symbol: 'none', label: { show: false }, data: [{ xAxis: 1 }] };
  const text = { color: INK.light };
  const line = { lineStyle: { color: GRID.light } };
  const height = TOP + BOTTOM + loads.length * ROW_HEIGHT;
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height });
  try {
    chart.setOption({
      animation: false,
      backgroundColor: PAPER.light,
      textStyle: { fontFamily: 'system-ui, sans-serif', ...text },
      title: {
        text: 'Requests a second of the gateway, as a multiple of each reference',
        left: 16,
        top: 12,
        textStyle: { fontSize: 16, ...text },
      },
      legend: { left: 16, top: 42, itemGap: 24, icon: 'roundRect', textStyle: text },
      grid: { left: ROW_NAMES, right: 32, top: TOP, bottom: BOTTOM, outerBoundsMode: 'none' },
      xAxis: {
        type: 'log',
        name: 'multiple (1: as fast as the reference), logarithmic',
        nameLocation: 'middle',
        nameGap: 30,
        nameTextStyle: text,
        axisLine: line,
        splitLine: line,
        axisLabel: { ...text, formatter: (value: number) => String(value) },
      },
      yAxis: {
        type: 'category',
        inverse: true,
        data: loads.map(({ scenario, connections }) => `${scenario}, ${connections} in flight`),
        axisLine: line,
        splitLine: { show: true, ...line },
        axisLabel: text,
      },
      series: [{ ...series[0], markLine: asFast }, ...series.slice(1)],
    });
    return forDarkPages(chart.renderToSVGString());
  } finally {
    chart.dispose();
  }
}

function forDarkPages(svg: string): string {
  const rules = [INK, GRID, PAPER].flatMap(({ light, dark }) =>
    ['fill', 'stroke'].map((kind) => `[${kind}="${light}"]{${kind}:${dark}}`),
  );
  const style = `<style>@media (prefers-color-scheme: dark){${rules.join('')}}</style>`;
  return svg.replace('>', `>${style}`);
}
