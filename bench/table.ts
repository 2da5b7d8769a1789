/** Markdown tables. */

/** Columns as wide as their widest cell, so that it reads well in a terminal too. */
export function table(header: string[], rows: string[][]): string {
  const widths = header.map((name, i) => Math.max(name.length, ...rows.map((row) => (row[i] as string).length)));
  const line = (cells: string[]): string =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i] as number)).join(' | ')} |`;
  return [line(header), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...rows.map(line)].join('\n');
}
