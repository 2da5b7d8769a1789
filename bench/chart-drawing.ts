/** Draws a chart as SVG that reads on light and on dark pages. */
import type { EChartsOption } from 'echarts';
import { BarChart, LineChart, ScatterChart } from 'echarts/charts';
import { GridComponent, LegendComponent, MarkLineComponent, TitleComponent } from 'echarts/components';
import * as echarts from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';

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
